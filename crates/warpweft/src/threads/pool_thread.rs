//! What a program decides about the threads of a pool: their names, what runs as they start and end, and how
//! they are started.

use super::pool_ref::{LeavesPool, PoolRef};
use super::thread_context::ThreadContexts;
use super::thread_handle::ThreadHandle;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::panics::{contain, discard};
use warpweft_platform::process::generation;
use warpweft_platform::sync::{Condvar, Mutex};
use warpweft_platform::thread::{JoinHandle, spawn_named};
use warpweft_platform::thread_word;
use warpweft_task::pool::PoolHeader;

/// Is called with a worker's number.
pub(crate) type Hook = dyn Fn(usize) + Send + Sync;
/// Starts a thread.
pub(crate) type Starter = dyn Fn(PoolThread) -> io::Result<()> + Send + Sync;

/// The functions that the program has set.
#[derive(Clone, Default)]
pub(crate) struct ThreadHooks {
    pub(crate) on_start: Vec<Arc<Hook>>,
    pub(crate) on_stop: Vec<Arc<Hook>>,
    pub(crate) contexts: ThreadContexts,
    pub(crate) name: Option<Arc<dyn Fn(usize) -> String + Send + Sync>>,
    pub(crate) starter: Option<Arc<Starter>>,
}

impl fmt::Debug for ThreadHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadHooks").finish_non_exhaustive()
    }
}

impl ThreadHooks {
    /// Calls the hook of the program for a thread that has started with that worker.
    pub(crate) fn on_start(&self, worker: usize) {
        self.on_start.iter().for_each(|hook| contain(|| hook(worker)));
    }

    /// Calls the hook of the program for a thread that is about to end, and had that worker first.
    pub(crate) fn on_stop(&self, worker: usize) {
        self.on_stop
            .iter()
            .rev()
            .for_each(|hook| contain(|| hook(worker)));
    }

    /// Returns the name that the program gives the thread with that number, if it gives names.
    ///
    /// # Errors
    ///
    /// The program's function panics.
    pub(super) fn name_of(&self, number: usize) -> io::Result<Option<String>> {
        let name = self.name.as_ref();
        name.map(|name| ask("that names the pool's threads", || name(number)))
            .transpose()
    }
}

/// Calls a function of the program. Its panic is an error: a thread that asks may be the pool's monitor.
pub(super) fn ask<R>(that: &str, function: impl FnOnce() -> R) -> io::Result<R> {
    // Unwind: the pool goes on without the thread.
    catch_unwind(AssertUnwindSafe(function)).map_err(|payload| {
        discard(payload);
        io::Error::other(format!("the function {that} panicked"))
    })
}

/// A thread of a pool that has not been started: see
/// [`Builder::start_threads`](crate::Builder::start_threads).
///
/// If it is dropped without having run, its pool closes, and no hook is called for it.
pub struct PoolThread {
    name: String,
    stack_bytes: Option<usize>,
    number: usize,
    body: Option<Body>,
}

impl PoolThread {
    pub(crate) fn new(
        name: String,
        stack_bytes: Option<usize>,
        pool: &Arc<dyn PoolRef>,
        handle: &Arc<ThreadHandle>,
    ) -> Self {
        Self {
            name,
            stack_bytes,
            number: handle.number(),
            body: Some(Body {
                pool: Arc::clone(pool),
                handle: Arc::clone(handle),
                ended: Ended::default(),
            }),
        }
    }

    /// Returns the number of the thread among those that its pool has started. The first ones have the
    /// numbers of the workers that they carry first.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the name that the thread should have.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the size in bytes that its stack should have; `None` is the system's default.
    #[must_use]
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_bytes
    }

    /// Runs tasks on the calling thread until the pool needs it no more: mostly until it has closed.
    pub fn run(mut self) {
        self.body.take().into_iter().for_each(Body::run);
    }

    /// Makes the calling thread the thread: it carries its worker, as in a task, until the result is dropped.
    /// It runs other tasks only while it waits. When the result is dropped, another thread continues the
    /// worker; if none can be started, the pool closes. The calling thread keeps the memory of the pool and
    /// the hooks of its builder until it ends: its frames may be inside of a fork when it leaves.
    ///
    /// # Panics
    ///
    /// If the calling thread belongs to a pool. The pool of this thread closes then.
    ///
    /// Dropping the result panics in a frame whose code needs the worker afterwards. The thread then stays in
    /// the pool, as if the value had been leaked, and the pool does not end.
    /// [`may_leave`](EnteredThread::may_leave) returns false in these frames:
    ///
    /// - in a fiber or a handled body of the thread;
    /// - in [`blocking`](crate::blocking());
    /// - in a task, or a part of another thread's fork, that the thread runs while it waits;
    /// - in a hook of a policy, or a waker, that the worker calls.
    ///
    /// In a forked child the drop does nothing: the worker and its tasks are the parent's.
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use std::sync::mpsc;
    /// use warpweft::{Pool, Runtime};
    ///
    /// let (send, threads) = mpsc::channel();
    /// let send = Mutex::new(send);
    /// let runtime = Runtime::builder()
    ///     .workers(1)
    ///     .start_threads(move |thread| {
    ///         let send = send.lock().map_err(|_| std::io::ErrorKind::Other)?;
    ///         send.send(thread).map_err(std::io::Error::other)
    ///     })
    ///     .build()?;
    /// let thread = threads.recv()?;
    /// // From now on the function starts no more threads.
    /// drop(threads);
    /// let entered = thread.enter();
    /// assert_eq!(Pool::current_worker(), Some(0));
    /// // This thread runs it while it waits.
    /// assert_eq!(runtime.spawn_job(Pool::current_worker).wait()?, Some(0));
    /// drop(entered);
    /// assert_eq!(Pool::current_worker(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enter(mut self) -> EnteredThread {
        // Before the body is taken: if this panics, the drop of the rest closes the pool.
        let entered = self.body.as_ref().is_some_and(|body| body.pool.is_entered());
        assert!(!entered, "the calling thread belongs to a pool already");
        EnteredThread {
            leave: self.body.take().map(Body::enter),
            here: generation(),
        }
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system gives no more threads.
    pub(crate) fn spawn(mut self) -> io::Result<ThreadEnd> {
        let body = self.body.take();
        let run = move || {
            if let Some(body) = body {
                SPAWNED_FOR.with(|pool| pool.set(body.pool.header().as_ptr()));
                body.run();
            }
        };
        spawn_named(&self.name, self.stack_bytes, run).map(ThreadEnd::Join)
    }

    /// Returns what is set when the thread is done.
    pub(crate) fn ended(&self) -> Ended {
        self.body
            .as_ref()
            .map(|body| Ended::clone(&body.ended))
            .unwrap_or_default()
    }
}

impl Drop for PoolThread {
    fn drop(&mut self) {
        if let Some(body) = self.body.take()
            && body.ended.is_relied_on()
        {
            // The pool has given it a worker, which would be missed.
            body.abandon();
        }
    }
}

impl fmt::Debug for PoolThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolThread")
            .field("name", &self.name)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// The calling thread as a thread of a pool: see [`PoolThread::enter`].
#[must_use = "the thread leaves the pool when this is dropped"]
pub struct EnteredThread {
    /// Not `Send`: the thread itself must leave. Then the end is noted.
    leave: Option<(Box<dyn LeavesPool>, Ended)>,
    here: u64,
}

impl EnteredThread {
    /// Returns true if the thread may leave its pool here: dropping this does not panic.
    #[must_use]
    pub fn may_leave(&self) -> bool {
        generation() != self.here || self.leave.as_ref().is_none_or(|(leave, _)| leave.may_leave())
    }
}

impl Drop for EnteredThread {
    fn drop(&mut self) {
        let leave = self.leave.take();
        if generation() == self.here {
            if let Some((leave, ended)) = leave {
                leave.leave();
                ended.set(ThreadStage::Over);
            }
        } else {
            // The worker and the fibers of this thread are the parent's, which drops what they own.
            std::mem::forget(leave);
        }
    }
}

impl fmt::Debug for EnteredThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnteredThread").finish_non_exhaustive()
    }
}

// The pool that has spawned this thread, and joins it. It stays to the end of the thread: the destructors of
// its thread-locals run when everything else here has forgotten the pool.
thread_word!(static SPAWNED_FOR: *const PoolHeader = std::ptr::null());

/// Returns true if the pool of `header` waits for the end of the calling thread, and of its thread-locals.
pub(crate) fn is_joined_by(header: NonNull<PoolHeader>) -> bool {
    SPAWNED_FOR.with(|pool| std::ptr::eq(pool.get(), header.as_ptr()))
}

/// What the thread runs.
struct Body {
    pool: Arc<dyn PoolRef>,
    handle: Arc<ThreadHandle>,
    ended: Ended,
}

impl Body {
    fn run(self) {
        let Self { pool, handle, ended } = self;
        handle.set_os_thread();
        pool.run_thread(handle);
        ended.set(ThreadStage::Over);
    }

    fn abandon(self) {
        self.pool.abandon_thread(&self.handle);
        self.ended.set(ThreadStage::Over);
    }

    fn enter(self) -> (Box<dyn LeavesPool>, Ended) {
        let Self { pool, handle, ended } = self;
        handle.set_os_thread();
        (pool.enter_thread(handle), ended)
    }
}

/// How far a thread is that the program starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ThreadStage {
    #[default]
    New,
    /// It was dropped before the pool relied on it.
    Refused,
    /// The pool gives it a worker.
    ReliedOn,
    /// It is done with its pool.
    Over,
}

/// The stage of such a thread, and those that wait for its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ended(Arc<(Mutex<ThreadStage>, Condvar)>);

impl Ended {
    fn set(&self, stage: ThreadStage) {
        *self.0.0.lock() = stage;
        self.0.1.notify_all();
    }

    /// Notes that the thread will be given a worker. Returns false if it was dropped.
    pub(crate) fn rely(&self) -> bool {
        let mut stage = self.0.0.lock();
        if *stage == ThreadStage::New {
            *stage = ThreadStage::ReliedOn;
        }
        *stage != ThreadStage::Refused
    }

    /// Returns true if the pool relies on the thread; else it is refused from now on.
    fn is_relied_on(&self) -> bool {
        let mut stage = self.0.0.lock();
        if *stage == ThreadStage::New {
            *stage = ThreadStage::Refused;
        }
        *stage == ThreadStage::ReliedOn
    }

    fn wait(&self) {
        let mut stage = self.0.0.lock();
        while *stage != ThreadStage::Over {
            stage = self.0.1.wait(stage);
        }
    }
}

/// How the end of a thread is waited for.
#[derive(Debug)]
pub(crate) enum ThreadEnd {
    Join(JoinHandle<()>),
    /// The program started it, and it says when it is done.
    Told(Ended),
}

impl ThreadEnd {
    pub(crate) fn wait(self) {
        match self {
            // A thread of a pool catches every panic, so its result says nothing.
            Self::Join(thread) => drop(thread.join()),
            Self::Told(ended) => ended.wait(),
        }
    }
}
