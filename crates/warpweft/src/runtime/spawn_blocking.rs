//! Spawning a closure that blocks: on a thread of its own, when there is room.

use super::default::default_runtime;
use super::handle::Runtime;
use crate::execution::listen::block_on;
use crate::pool::current::with_current;
use crate::pool::dyn_pool::DynPool;
use crate::threads::blocking_threads::{RejectReason, Waiter};
use std::fmt;
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use warpweft_task::spawn::{self as tasks, SpawnInfo};
use warpweft_task::{JoinError, JoinHandle};

/// Has `closure`, which may block in the system, called on a thread that carries no worker. Await what this
/// returns for its result.
///
/// A runtime has as many threads for this as it may
/// ([`Builder::max_blocking_threads`](crate::Builder::max_blocking_threads), by default 512), and as many
/// closures may wait for one. Where there are more, **the closure stays in the future** and waits for
/// admission, so that memory stays bounded; like every future it does nothing until it is awaited. For
/// several at a time, and to go on meanwhile, ask for [admission](SpawnBlocking::admitted) first.
///
/// A closure that has begun runs to its end: dropping the future or the handle does not stop it, and a
/// runtime that is shut down or dropped waits for it, **for as long as it takes**.
/// [`Runtime::shutdown`](crate::Runtime::shutdown) says what to do about one that may never end.
///
/// In `closure` free functions lead to the pool of the caller, as they do in [`blocking`](crate::blocking).
/// That one is the cheaper of the two, may borrow, and waits in place.
///
/// # Errors
///
/// The future's, beside those of every task: [`JoinError::NoThread`] if there is no thread and none can be
/// had.
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let size = runtime.block_on(async { warpweft::spawn_blocking(|| std::fs::metadata(".").map(|about| about.len())).await });
/// assert!(size?.is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn spawn_blocking<T, F>(closure: F) -> SpawnBlocking<F, T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    SpawnBlocking::new(pool_here(), closure)
}

/// As [`spawn_blocking`], but at once or not at all. Dropping the handle detaches the closure.
///
/// # Errors
///
/// [`Refused`], with the closure: there is no room, or no thread.
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

/// Why a closure was not admitted.
#[derive(Debug)]
#[non_exhaustive]
pub enum BlockingError {
    /// All threads are busy, and as many closures wait for one as may.
    Full {
        /// How many that is.
        waiting: usize,
    },
    /// There is no thread, and the system, or the limit of the runtime, gives none.
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

/// A closure that was not admitted, and why.
pub struct Refused<F> {
    closure: F,
    error: BlockingError,
}

impl<F> Refused<F> {
    /// Why.
    #[must_use]
    pub fn error(&self) -> &BlockingError {
        &self.error
    }

    /// The closure, which was not called.
    #[must_use]
    pub fn into_closure(self) -> F {
        self.closure
    }

    /// The error alone; the closure is dropped.
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
/// Dropped before the closure was admitted it takes the closure with it; afterwards the closure goes on
/// alone.
#[must_use = "a closure is not admitted unless its future is awaited"]
pub struct SpawnBlocking<F, T> {
    admission: Admission<F>,
    handle: Option<JoinHandle<T>>,
}

/// The future of [`SpawnBlocking::admitted`]: admission, and then a handle.
#[must_use = "a closure is not admitted unless its future is awaited"]
pub struct Admission<F> {
    pool: Arc<dyn DynPool>,
    closure: Option<F>,
    location: &'static Location<'static>,
    waiter: Waiter,
}

impl<F, T> SpawnBlocking<F, T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    #[track_caller]
    pub(crate) fn new(pool: Arc<dyn DynPool>, closure: F) -> Self {
        Self {
            admission: Admission {
                pool,
                closure: Some(closure),
                location: Location::caller(),
                waiter: Waiter::New,
            },
            handle: None,
        }
    }

    /// Waits for admission only, and gives a handle to the closure that runs, or will soon.
    ///
    /// The future's error is [`Refused`], with the closure, for every reason but a lack of room.
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

    /// Blocks this thread until the closure has ended, and gives its result; in a task the thread gives its
    /// worker away meanwhile. To block anyway, [`blocking`](crate::blocking) is cheaper.
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
        loop {
            let Some(closure) = self.closure.take() else {
                panic!("a future was polled after its closure had been admitted or refused");
            };
            let waiter = std::mem::replace(&mut self.waiter, Waiter::New);
            match enter(&self.pool, waiter, closure, self.location) {
                Err(Refused {
                    closure,
                    error: BlockingError::Full { .. },
                }) => {
                    self.closure = Some(closure);
                    self.waiter = waiter;
                    let threads = self.pool.core().threads.blocking();
                    if let Some(number) = threads.wait_for_place(waiter, cx.waker()) {
                        self.waiter = Waiter::Waiting(number);
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

// The closure is moved, never pinned.
impl<F> Unpin for Admission<F> {}
impl<F, T> Unpin for SpawnBlocking<F, T> {}

impl<F> Drop for Admission<F> {
    fn drop(&mut self) {
        // In a forked child the lock may be held by a thread that is not there.
        if let Waiter::Waiting(number) = self.waiter
            && !self.pool.is_forked()
        {
            self.pool.core().threads.blocking().leave(number);
        }
    }
}

impl<F> fmt::Debug for Admission<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("location", &self.location)
            .field("waits", &(self.waiter != Waiter::New))
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

/// What who awaits the result of a closure that was not admitted is told.
fn end(error: BlockingError) -> JoinError {
    match error {
        BlockingError::NoThread(error) => JoinError::NoThread(error),
        BlockingError::Forked => JoinError::Forked,
        // Nobody who waits is told that it is full.
        BlockingError::Closed | BlockingError::Full { .. } => JoinError::Shutdown,
    }
}

/// The pool of the calling task or visit, or else the default one.
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
    enter(pool, Waiter::New, closure, Location::caller())
}

/// Admits the closure, if there is room and a thread.
fn enter<T, F>(
    pool: &Arc<dyn DynPool>,
    waiter: Waiter,
    closure: F,
    location: &'static Location<'static>,
) -> Result<JoinHandle<T>, Refused<F>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let threads = pool.core().threads.blocking();
    let refused = |closure, error| Err(Refused { closure, error });
    if pool.is_forked() {
        return refused(closure, BlockingError::Forked);
    }
    let place = match threads.place(|| Arc::clone(pool) as _, waiter) {
        Ok(place) => place,
        Err(RejectReason::Full) => {
            let waiting = threads.room();
            return refused(closure, BlockingError::Full { waiting });
        }
        Err(RejectReason::NoThread(error)) => return refused(closure, BlockingError::NoThread(error)),
        Err(RejectReason::Closed) => return refused(closure, BlockingError::Closed),
    };
    let info = SpawnInfo {
        pool: pool.header(),
        location,
        name: None,
    };
    // SAFETY: the threads end every closure that was admitted before they end, and keep the pool alive until
    // then.
    let (task, handle) = unsafe { tasks::job(closure, info) };
    place.put(task);
    Ok(handle)
}

impl Runtime {
    /// Has `closure`, which may block, called on a thread of its own: as the free
    /// [`spawn_blocking`](crate::spawn_blocking).
    #[track_caller]
    pub fn spawn_blocking<T, F>(&self, closure: F) -> SpawnBlocking<F, T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        SpawnBlocking::new(Arc::clone(self.any()), closure)
    }

    /// The same without waiting for admission: as the free [`try_spawn_blocking`](crate::try_spawn_blocking).
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
