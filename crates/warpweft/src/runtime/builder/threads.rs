//! The settings of a builder that are about threads.

use super::Builder;
use crate::threads::pool_thread::PoolThread;
use crate::threads::thread_context::ThreadRole;
use std::io;
use std::sync::Arc;

impl Builder {
    /// Adds a function that each thread of this pool calls before its first task, with the number of the
    /// worker that it carries then. The first threads carry workers 0, 1, 2 and so on; a thread that takes a
    /// worker over from one that waits may have any number. If the function panics, the thread continues.
    ///
    /// Several functions are called in the order in which they were added. Threads of
    /// [`spawn_blocking`](crate::spawn_blocking) carry no worker, and call none:
    /// [`thread_context`](Self::thread_context) is for all threads.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// use std::sync::Arc;
    /// let started = Arc::new(AtomicUsize::new(0));
    /// let count = Arc::clone(&started);
    /// let runtime = warpweft::Runtime::builder()
    ///     .workers(2)
    ///     .on_thread_start(move |_worker| drop(count.fetch_add(1, Ordering::Relaxed)))
    ///     .build()?;
    /// runtime.broadcast(|_| ())?;
    /// assert_eq!(started.load(Ordering::Relaxed), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_thread_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.config.hooks.on_start.push(Arc::new(hook));
        self
    }

    /// Adds a function that each thread of this pool calls after its last task, with the number that it has
    /// called the function of [`on_thread_start`](Self::on_thread_start) with. If the function panics,
    /// nothing else happens. Several functions are called in the reverse order.
    pub fn on_thread_stop(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.config.hooks.on_stop.push(Arc::new(hook));
        self
    }

    /// Adds a context: a value that each thread has while it runs code of this pool, such as the guard of
    /// another runtime, of a profiler, or of a logger's span. The thread calls `enter` before its first task,
    /// and drops the result after its last one.
    ///
    /// These threads are the workers', those of [`spawn_blocking`](crate::spawn_blocking), and others for the
    /// time of a [`Runtime::block_on`](crate::Runtime::block_on): [`ThreadRole`] says which one calls.
    /// `block_on` does not enter in a task of this pool, whose thread has the context, nor in a fiber of
    /// another pool or in the body of an [effect](crate::effect)'s handler, which may be left in the middle
    /// of it.
    ///
    /// Several contexts are entered in the order in which they were added, and left in the reverse order.
    /// Functions of [`on_thread_start`](Self::on_thread_start) and
    /// [`on_thread_stop`](Self::on_thread_stop) are called inside of them, wherever they were added. If
    /// `enter` or the drop of its result panics, the thread continues.
    ///
    /// ```
    /// use std::cell::Cell;
    /// thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });
    ///
    /// struct Inside;
    /// impl Drop for Inside {
    ///     fn drop(&mut self) {
    ///         INSIDE.set(false);
    ///     }
    /// }
    ///
    /// let runtime = warpweft::Runtime::builder()
    ///     .workers(1)
    ///     .thread_context(|_role| {
    ///         INSIDE.set(true);
    ///         Inside
    ///     })
    ///     .build()?;
    /// assert!(runtime.spawn_job(|| INSIDE.get()).wait()?);
    /// assert!(runtime.block_on(async { warpweft::spawn_blocking(|| INSIDE.get()).await })?);
    /// assert!(runtime.block_on(async { INSIDE.get() }));
    /// assert!(!INSIDE.get());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thread_context<C: 'static>(
        mut self,
        enter: impl Fn(ThreadRole) -> C + Send + Sync + 'static,
    ) -> Self {
        self.config.hooks.contexts.add(enter);
        self
    }

    /// Sets a function that returns the name of each thread of this pool. It is called with the number of the
    /// thread, counted from 0, on the thread that starts it. The default is `name-0`, `name-1`, …
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder()
    ///     .workers(1)
    ///     .thread_name(|number| format!("compute {number}"))
    ///     .build()?;
    /// let name = runtime.install(|_| std::thread::current().name().map(str::to_owned))?;
    /// assert_eq!(name.as_deref(), Some("compute 0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thread_name(mut self, name: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        self.config.hooks.name = Some(Arc::new(name));
        self
    }

    /// Sets the function that starts the threads of this pool: it calls [`PoolThread::run`] on a thread of
    /// its own, which returns when the pool does not need that thread any more. So the program decides what
    /// is on the stack below the tasks, and in thread-locals.
    ///
    /// It is called once for each worker as the runtime is built, and later when a thread that waits gives
    /// its worker to another one. If it returns an error then, the thread that waits keeps its worker, as at
    /// [`max_threads`](Self::max_threads).
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder()
    ///     .workers(2)
    ///     .start_threads(|thread| {
    ///         std::thread::Builder::new().spawn(move || thread.run()).map(drop)
    ///     })
    ///     .build()?;
    /// assert_eq!(runtime.install(|_| 6 * 7)?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_threads(
        mut self,
        starter: impl Fn(PoolThread) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.config.hooks.starter = Some(Arc::new(starter));
        self
    }
}
