//! The settings of a builder that are about threads.

use super::Builder;
use crate::threads::pool_thread::PoolThread;
use std::io;
use std::sync::Arc;

impl Builder {
    /// Sets a function that each thread of this pool calls before its first task, with the number of the
    /// worker that it carries then. The first threads carry workers 0, 1, 2 and so on; a thread that takes a
    /// worker over from one that waits may have any number. If the function panics, the thread continues.
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
        self.config.hooks.on_start = Some(Arc::new(hook));
        self
    }

    /// Sets a function that each thread of this pool calls after its last task, with the number that it has
    /// called the function of [`on_thread_start`](Self::on_thread_start) with. If the function panics,
    /// nothing else happens.
    pub fn on_thread_stop(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.config.hooks.on_stop = Some(Arc::new(hook));
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
