//! Runs closures that block on threads without workers, if there is room for them.

use super::default::default_runtime;
use super::handle::Runtime;
use super::while_queued::WhileQueued;
use crate::cancel_tree::node::Node;
use crate::execution::block_on::block_on;
use crate::execution::token::{UNWINDS, inherited, start};
use crate::observe::spans::SpawnSpan;
use crate::observe::tasks;
use crate::pool::current::with_current;
use crate::pool::current::with_taker;
use crate::pool::draining::refuses_caller;
use crate::pool::dyn_pool::DynPool;
use crate::threads::blocking_threads::{AdmissionWaiter, RejectReason};
use std::fmt;
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use warpweft_task::spawn::SpawnInfo;
use warpweft_task::{JoinError, JoinHandle};

/// Calls `closure`, which may block in the system, on a thread that carries no worker. Await the returned
/// future for the result.
///
/// A runtime has a limited number of threads for this
/// ([`Builder::max_blocking_threads`](crate::Builder::max_blocking_threads), by default 512), and as many
/// closures may wait for one. If there are more, **the closure stays in the future** and waits for admission,
/// so memory stays bounded. Like every future it does nothing until it is awaited; the first poll decides
/// which pool's threads call it: those of the pool of the task that awaits. To run several at a time and
/// continue meanwhile, wait only for [admission](SpawnBlocking::admitted).
///
/// A closure that has begun runs to its end. Dropping the future or the handle does not stop it, and a
/// runtime that is shut down or dropped waits for it, **without a time limit**.
/// [`Runtime::shutdown`](crate::Runtime::shutdown) describes how to handle one that may never end. One that
/// waits for a thread ends when its [token](crate::cancel) is cancelled. A [`cancel`](JoinHandle::cancel) of
/// its handle is seen when its turn comes.
///
/// In `closure` free functions use that pool, as they do in [`blocking`](crate::blocking), which
/// is cheaper, may borrow, and waits in place.
///
/// # Errors
///
/// The future returns the errors of every task, and [`JoinError::NoThread`] if no thread can be started.
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let size = || std::fs::metadata(".").map(|about| about.len());
/// let size = runtime.block_on(async { warpweft::spawn_blocking(size).await });
/// assert!(size?.is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn spawn_blocking<T, F>(closure: F) -> SpawnBlocking<F, T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    SpawnBlocking::new(None, closure)
}

/// Calls `closure` as [`spawn_blocking`] does, but is admitted at once or not at all. Dropping the handle
/// detaches the closure.
///
/// # Errors
///
/// [`Refused`], with the closure, if there is no room or no thread.
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).max_blocking_threads(0).build()?;
/// let refused = runtime.try_spawn_blocking(|| 6 * 7).expect_err("no threads");
/// assert!(matches!(refused.error(), warpweft::BlockingError::NoThread(_)));
/// assert_eq!(refused.into_closure()(), 42);
/// # Ok::<(), warpweft::BuildError>(())
/// ```
#[track_caller]
pub fn try_spawn_blocking<T, F>(closure: F) -> Result<JoinHandle<T>, Refused<F>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    try_spawn(&pool_here(), closure)
}

/// The reason why a closure was not admitted.
#[derive(Debug)]
#[non_exhaustive]
pub enum BlockingError {
    /// All threads are busy, and the largest number of closures waits for one.
    Full {
        /// The number of closures that wait.
        waiting: usize,
    },
    /// There is no thread, and neither the system nor the runtime's limit allows another one.
    NoThread(io::Error),
    /// The runtime is shutting down.
    Closed,
    /// This is a child made by `fork()`, and the runtime's threads stayed in its parent.
    Forked,
}

impl fmt::Display for BlockingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { waiting } => write!(
                f,
                "all threads are busy and as many closures wait as may ({waiting}): await `spawn_blocking`, or allow more threads"
            ),
            Self::NoThread(error) => write!(f, "no thread for a closure that blocks: {error}"),
            Self::Closed => f.write_str("the pool is shutting down: it takes no more tasks"),
            Self::Forked => f.write_str(
                "the pool's workers stayed in the parent of this forked process: build a runtime here",
            ),
        }
    }
}

impl std::error::Error for BlockingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoThread(error) => Some(error),
            _ => None,
        }
    }
}

/// A closure that was not admitted, and the reason.
pub struct Refused<F> {
    closure: F,
    error: BlockingError,
}

impl<F> Refused<F> {
    /// Returns the reason.
    #[must_use]
    pub fn error(&self) -> &BlockingError {
        &self.error
    }

    /// Returns the closure, which was not called.
    #[must_use]
    pub fn into_closure(self) -> F {
        self.closure
    }

    /// Returns the reason, and drops the closure.
    #[must_use]
    pub fn into_error(self) -> BlockingError {
        self.error
    }
}

impl<F> fmt::Debug for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<F> fmt::Display for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<F> std::error::Error for Refused<F> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// The future of [`spawn_blocking`]: admission, then the closure's result.
///
/// If it is dropped before the closure was admitted, the closure is dropped, too. Afterwards the closure runs
/// on, detached.
#[must_use = "a closure is not admitted unless its future is awaited"]
pub struct SpawnBlocking<F, T> {
    admission: Admission<F>,
    handle: Option<JoinHandle<T>>,
}

/// The future of [`SpawnBlocking::admitted`]: admission, and then a handle.
#[must_use = "a closure is not admitted unless its future is awaited"]
pub struct Admission<F> {
    /// `None` before the first poll, which takes the pool where it is called.
    pool: Option<Arc<dyn DynPool>>,
    closure: Option<F>,
    location: &'static Location<'static>,
    /// The token that counted where the closure was spawned.
    token: Option<Arc<Node>>,
    waiter: AdmissionWaiter,
}

impl<F, T> SpawnBlocking<F, T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    #[track_caller]
    pub(crate) fn new(pool: Option<Arc<dyn DynPool>>, closure: F) -> Self {
        Self {
            admission: Admission {
                pool,
                closure: Some(closure),
                location: Location::caller(),
                token: inherited(),
                waiter: AdmissionWaiter::New,
            },
            handle: None,
        }
    }

    /// Waits for admission only, and returns a handle to the closure, which runs now or soon.
    ///
    /// The future's error is [`Refused`], with the closure, for every reason except a lack of room.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// let sum = runtime.block_on(async {
    ///     let mut handles = Vec::new();
    ///     for n in 1..=10 {
    ///         handles.push(warpweft::spawn_blocking(move || n).admitted().await?);
    ///     }
    ///     let mut sum = 0;
    ///     for handle in handles {
    ///         sum += handle.await?;
    ///     }
    ///     Ok::<_, Box<dyn std::error::Error>>(sum)
    /// });
    /// assert_eq!(sum?, 55);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn admitted(self) -> Admission<F> {
        self.admission
    }

    /// Blocks this thread until the closure has ended, and returns its result. In a task the thread releases
    /// its worker meanwhile. To block anyway, [`blocking`](crate::blocking) is cheaper.
    ///
    /// # Errors
    ///
    /// As awaiting it.
    pub fn wait(self) -> Result<T, JoinError> {
        block_on(self)
    }
}

impl<F> Admission<F> {
    fn poll_admission<T>(&mut self, cx: &Context<'_>) -> Poll<Result<JoinHandle<T>, Refused<F>>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let pool = &*self.pool.get_or_insert_with(pool_here);
        loop {
            let Some(closure) = self.closure.take() else {
                panic!("a future was polled after its closure had been admitted or refused");
            };
            let waiter = std::mem::replace(&mut self.waiter, AdmissionWaiter::New);
            let token = || self.token.take();
            match enter(pool, waiter, closure, self.location, token) {
                Err(Refused {
                    closure,
                    error: BlockingError::Full { .. },
                }) => {
                    self.closure = Some(closure);
                    self.waiter = waiter;
                    let threads = pool.core().threads.blocking();
                    if let Some(number) = threads.wait_for_place(waiter, cx.waker()) {
                        self.waiter = AdmissionWaiter::Waiting(number);
                        return Poll::Pending;
                    }
                }
                ended => return Poll::Ready(ended),
            }
        }
    }
}

impl<F, T> Future for Admission<F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    type Output = Result<JoinHandle<T>, Refused<F>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_admission(cx)
    }
}

impl<F, T> Future for SpawnBlocking<F, T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            if let Some(handle) = &mut this.handle {
                return Pin::new(handle).poll(cx);
            }
            match this.admission.poll_admission(cx) {
                Poll::Ready(Ok(handle)) => this.handle = Some(handle),
                Poll::Ready(Err(refused)) => return Poll::Ready(Err(end(refused.into_error()))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

// The closure is moved, and never pinned.
impl<F> Unpin for Admission<F> {}
impl<F, T> Unpin for SpawnBlocking<F, T> {}

impl<F> Drop for Admission<F> {
    fn drop(&mut self) {
        // In a forked child the lock may be held by a thread that stayed in the parent.
        if let AdmissionWaiter::Waiting(number) = self.waiter
            && let Some(pool) = &self.pool
            && !pool.is_in_forked_child()
        {
            pool.core().threads.blocking().leave(number);
        }
    }
}

impl<F> fmt::Debug for Admission<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("location", &self.location)
            .field("waits", &(self.waiter != AdmissionWaiter::New))
            .finish_non_exhaustive()
    }
}

impl<F, T> fmt::Debug for SpawnBlocking<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnBlocking")
            .field("admission", &self.admission)
            .field("handle", &self.handle)
            .finish()
    }
}

/// Converts the reason of a refusal to the error that the joiner of the closure gets.
fn end(error: BlockingError) -> JoinError {
    match error {
        BlockingError::NoThread(error) => JoinError::NoThread(error),
        BlockingError::Forked => JoinError::Forked,
        // A caller that waits for admission never gets `Full`.
        BlockingError::Closed | BlockingError::Full { .. } => JoinError::Shutdown,
    }
}

/// Returns the pool of the calling task, or the one that the thread has entered, or else the default one.
fn pool_here() -> Arc<dyn DynPool> {
    with_current(|worker_ref| match worker_ref {
        Some(worker_ref) => worker_ref.keep(),
        None => default_runtime().keep(),
    })
}

#[track_caller]
pub(crate) fn try_spawn<T, F>(pool: &Arc<dyn DynPool>, closure: F) -> Result<JoinHandle<T>, Refused<F>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    enter(pool, AdmissionWaiter::New, closure, Location::caller(), inherited)
}

/// Admits the closure if there is room and a thread.
fn enter<T, F>(
    pool: &Arc<dyn DynPool>,
    waiter: AdmissionWaiter,
    closure: F,
    location: &'static Location<'static>,
    token: impl FnOnce() -> Option<Arc<Node>>,
) -> Result<JoinHandle<T>, Refused<F>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let threads = pool.core().threads.blocking();
    let refused = |closure, error| Err(Refused { closure, error });
    if pool.is_in_forked_child() {
        return refused(closure, BlockingError::Forked);
    }
    if waiter == AdmissionWaiter::New && refuses_caller(pool.core()) {
        return refused(closure, BlockingError::Closed);
    }
    let info = SpawnInfo {
        pool: pool.header(),
        location,
        name: None,
    };
    let span = SpawnSpan::of_task("blocking", &info);
    let place = match threads.place(|| Arc::clone(pool) as _, waiter) {
        Ok(place) => place,
        Err(RejectReason::Full) => {
            let waiting = threads.room();
            return refused(closure, BlockingError::Full { waiting });
        }
        Err(RejectReason::NoThread(error)) => return refused(closure, BlockingError::NoThread(error)),
        Err(RejectReason::Closed) => return refused(closure, BlockingError::Closed),
    };
    let (node, number) = (token(), place.number());
    let queued = node.as_ref().filter(|_| UNWINDS);
    let queued = queued.map(|node| WhileQueued::new(node, pool, number));
    let is_over = queued.as_ref().is_some_and(WhileQueued::is_over);
    let closure = move || {
        drop(queued);
        start(node, closure)
    };
    // SAFETY: the threads end every admitted closure before they end, and keep the pool alive until then.
    let (task, handle) = unsafe { tasks::blocking_job(closure, span, info) };
    let recorder = &pool.core().recorder;
    if recorder.mode().has_steps() {
        with_taker(pool.header(), |worker_ref| {
            // SAFETY: the calling thread carries a worker that takes tasks of this pool, so one of its.
            unsafe { recorder.blocking_pushed(worker_ref.and_then(|taker| taker.worker), &task) };
        });
    }
    place.put(task);
    if is_over {
        threads.evict(number);
    }
    Ok(handle)
}

impl Runtime {
    /// Calls `closure`, which may block, on a thread without a worker: see the free
    /// [`spawn_blocking`](crate::spawn_blocking).
    #[track_caller]
    pub fn spawn_blocking<T, F>(&self, closure: F) -> SpawnBlocking<F, T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        SpawnBlocking::new(Some(Arc::clone(self.any())), closure)
    }

    /// The same, but is admitted at once or not at all: see the free
    /// [`try_spawn_blocking`](crate::try_spawn_blocking).
    ///
    /// # Errors
    ///
    /// [`Refused`], with the closure.
    #[track_caller]
    pub fn try_spawn_blocking<T, F>(&self, closure: F) -> Result<JoinHandle<T>, Refused<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        try_spawn(self.any(), closure)
    }
}
