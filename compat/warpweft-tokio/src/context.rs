//! A tokio context around the futures of other crates.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::sync::oneshot;

/// A tokio runtime for crates that need one: one thread, which polls for its sockets and timers and runs the
/// tasks of [`tokio::spawn`]. Where all tasks of a pool need one, use
/// [`tokio_context`](crate::BuilderExt::tokio_context) instead.
///
/// ```text
///   a worker of Warpweft                       the thread of tokio
///   ┌───────────────────────────┐              ┌───────────────────────────┐
///   │ poll: enter ─ F::poll ─ exit │ ── registers ─▶ │ epoll, timers             │
///   │                           │ ◀── wakes ────  │ tasks of `tokio::spawn`   │
///   └───────────────────────────┘              └───────────────────────────┘
/// ```
///
/// The future itself stays a task of Warpweft. The context is entered for each poll, and for its drop, and
/// left again: it does not stay on the worker's thread while the future waits.
///
/// # Costs
///
/// - A poll: a thread-local look-up and a reference count, twice.
/// - An event of a tokio socket or timer: a hand-over from its thread to a worker, some microseconds. Tasks
///   that a crate spawns itself, as HTTP clients do for their connections, run on that one thread.
/// - The context: a thread and three descriptors. They live from the first use of [`shared`](Self::shared) to
///   the end of the process, or from [`new`](Self::new) until the last clone and the last future are dropped.
///
/// # Limits
///
/// - `block_on` of a tokio runtime must not be used in tasks, as in tokio itself: it blocks the worker.
/// - During a *poll* in a [fiber](warpweft::fiber), the future must not wait in direct style (`lock`,
///   `block_on`, `join`): the fiber would switch away with the context entered. It should await. In a task,
///   whose thread waits with it, both work.
/// - HTTP clients have deep stacks. A fiber that polls one needs more than the usual 64 KiB, above all
///   unoptimised: see [`Builder::fiber_stack_size`](warpweft::Builder::fiber_stack_size).
/// - The end of a context waits for no closure of `tokio::task::spawn_blocking`, nor for writes of
///   `tokio::fs`. The context of a pool waits for both: see [`tokio_context`](crate::BuilderExt).
/// - Code on tokio's thread is not in a task of Warpweft: `warpweft::spawn` there uses the default runtime.
/// - In a child made by `fork()` the thread is missing: make a new context, and new clients, there.
#[derive(Debug, Clone)]
pub struct TokioContext(Entry);

#[derive(Debug, Clone)]
enum Entry {
    Own(Arc<Own>),
    Foreign(Handle),
}

/// A runtime on a separate thread, which ends with this value.
struct Own {
    handle: Handle,
    /// It is dropped to end the runtime.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

impl Own {
    fn start() -> io::Result<Self> {
        let (end, ended) = oneshot::channel::<()>();
        let (started, starts) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(String::from("warpweft-tokio"))
            .spawn(move || match small_runtime().build() {
                Ok(runtime) => {
                    // The thread that starts this one waits for it below.
                    let _ = started.send(Ok(runtime.handle().clone()));
                    // The result is an error when the sender is dropped, which this waits for.
                    let _ = runtime.block_on(ended);
                    // Remaining tasks are dropped. It does not wait for threads that block.
                    runtime.shutdown_background();
                }
                Err(error) => drop(started.send(Err(error))),
            })?;
        let gone = || io::Error::other("tokio's thread ended before it began: see its panic");
        let handle = starts.recv().map_err(|_| gone())??;
        Ok(Self {
            handle,
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        drop(self.end.take());
        let is_here = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        // A task of the runtime may have held the last clone: that task cannot wait for its thread.
        if let Some(thread) = self.thread.take().filter(|thread| !is_here(thread)) {
            // The thread has no result, and a panic in it has been reported.
            warpweft::blocking(|| drop(thread.join()));
        }
    }
}

impl TokioContext {
    /// Starts a runtime, which ends when the last clone and the last future wrapped by it are dropped: its
    /// tasks are dropped, and its thread is joined.
    ///
    /// # Errors
    ///
    /// The system starts no thread or has no descriptor.
    pub fn new() -> io::Result<Self> {
        Own::start().map(|own| Self(Entry::Own(Arc::new(own))))
    }

    /// Returns the context that the whole process shares. The first call that succeeds starts it, and it
    /// never ends.
    ///
    /// # Errors
    ///
    /// The system starts no thread or has no descriptor. A later call tries again.
    pub fn shared() -> io::Result<Self> {
        static SHARED: OnceLock<TokioContext> = OnceLock::new();
        if let Some(shared) = SHARED.get() {
            return Ok(shared.clone());
        }
        // Two threads may start one at the same time. The second to arrive is ended, and the first serves
        // both.
        let new = Self::new()?;
        Ok(SHARED.get_or_init(|| new).clone())
    }

    /// Wraps a runtime that the caller has and keeps running.
    #[must_use]
    pub fn from_handle(handle: Handle) -> Self {
        Self(Entry::Foreign(handle))
    }

    /// Returns a future that polls and drops `future` inside this context.
    ///
    /// ```
    /// use warpweft_tokio::TokioContext;
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// let tokio = TokioContext::new()?;
    /// let there = tokio.wrap(async { tokio::spawn(async { std::thread::current().id() }).await });
    /// let there = runtime.block_on(there).expect("no panic");
    /// assert_ne!(there, std::thread::current().id());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wrap<F: Future>(&self, future: F) -> InTokio<F> {
        InTokio {
            future: Some(future),
            context: self.clone(),
        }
    }

    /// Returns the handle of the runtime, for crates that want it by value.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        match &self.0 {
            Entry::Own(own) => &own.handle,
            Entry::Foreign(handle) => handle,
        }
    }
}

/// How long a thread for closures that block lives without one. Most of these are look-ups of names and
/// accesses to files, so there are few, and for short.
const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Returns the settings of a runtime without threads for tasks. It starts as many threads for closures that
/// block as tokio does: with fewer, long closures would keep files and look-ups of names from their threads.
pub(crate) fn small_runtime() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder
        .enable_all()
        .thread_name("warpweft-tokio-blocking")
        .thread_keep_alive(BLOCKING_KEEP_ALIVE);
    builder
}

/// The calling thread is inside the context of a runtime while this lives.
pub(crate) struct Entered {
    /// It refers to the handle below, and is dropped first.
    _guard: EnterGuard<'static>,
    _handle: Box<Handle>,
}

impl Entered {
    pub(crate) fn new(handle: Handle) -> Self {
        let handle = Box::new(handle);
        // SAFETY: the guard lives no longer than the handle, which stays in its box: both are private, and
        // dropped in the order of the fields.
        let guard = unsafe { std::mem::transmute::<EnterGuard<'_>, EnterGuard<'static>>(handle.enter()) };
        Self {
            _guard: guard,
            _handle: handle,
        }
    }
}

/// Adds `future.in_tokio()?.await` to futures.
pub trait InTokioExt: Future + Sized {
    /// Polls the future inside the context of the calling thread, or inside the
    /// [shared](TokioContext::shared) one if the thread has none.
    ///
    /// A pool with [`tokio_context`](crate::BuilderExt::tokio_context) needs no wrapper. There this keeps the
    /// context of that pool if the future is sent to another one.
    ///
    /// # Errors
    ///
    /// As [`TokioContext::shared`].
    fn in_tokio(self) -> io::Result<InTokio<Self>> {
        match Handle::try_current() {
            Ok(handle) => Ok(TokioContext::from_handle(handle).wrap(self)),
            Err(_) => TokioContext::shared().map(|context| context.wrap(self)),
        }
    }
}

impl<F: Future> InTokioExt for F {}

/// A future that is polled and dropped inside a [`TokioContext`]. Made by [`wrap`](TokioContext::wrap).
#[must_use = "futures do nothing unless they are awaited"]
pub struct InTokio<F> {
    /// Pinned with the whole. `None` only while it is dropped.
    future: Option<F>,
    context: TokioContext,
}

impl<F> fmt::Debug for InTokio<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTokio")
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

impl<F> InTokio<F> {
    /// Returns the future, pinned as the whole is, and the context for its polls.
    fn parts(self: Pin<&mut Self>) -> (Pin<&mut Option<F>>, &TokioContext) {
        // SAFETY: nothing is moved out of the result, below.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `future` is pinned with the whole. No function gives it by value or by `&mut`, it is
        // dropped in place, and the whole is `Unpin` only if `F` is, because it contains one.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        (future, &this.context)
    }
}

impl<F: Future> Future for InTokio<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let (future, context) = self.parts();
        let _entered = context.handle().enter();
        match future.as_pin_mut() {
            Some(future) => future.poll(cx),
            None => unreachable!("it is taken out when it is dropped, and not before"),
        }
    }
}

impl<F> Drop for InTokio<F> {
    fn drop(&mut self) {
        // SAFETY: the whole is not moved any more, because it is dropped.
        let (mut future, context) = unsafe { Pin::new_unchecked(self) }.parts();
        let _entered = context.handle().enter();
        future.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::{InTokio, TokioContext};
    use std::future::{Pending, pending};
    use std::marker::PhantomPinned;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};
    use tokio::runtime::Handle;

    fn inside() -> bool {
        Handle::try_current().is_ok()
    }

    struct Needs;

    impl Drop for Needs {
        fn drop(&mut self) {
            assert!(inside(), "it is dropped in the context, too");
        }
    }

    #[test]
    fn the_context_is_entered_for_a_poll_and_for_the_drop_and_left_again() {
        let tokio = TokioContext::new().expect("a thread");
        assert!(!inside());
        {
            let mut wrapped = pin!(tokio.wrap(async {
                let _needs = Needs;
                assert!(inside());
                pending::<()>().await;
            }));
            assert_eq!(
                wrapped.as_mut().poll(&mut Context::from_waker(Waker::noop())),
                Poll::Pending
            );
            assert!(!inside(), "nothing stays while it waits");
        }
        assert!(!inside());
    }

    #[test]
    fn a_panic_in_a_poll_leaves_the_context() {
        let tokio = TokioContext::new().expect("a thread");
        let runtime = warpweft::Runtime::builder().workers(1).build().expect("a worker");
        let handle = runtime.spawn(tokio.wrap(async { panic!("on purpose") }));
        assert!(handle.wait().is_err());
        assert_eq!(runtime.spawn(async { inside() }).wait().ok(), Some(false));
    }

    #[test]
    fn a_context_ends_with_its_last_user_and_its_tasks_with_it() {
        let tokio = TokioContext::new().expect("a thread");
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        tokio.handle().spawn(async move {
            pending::<()>().await;
            drop(sender);
        });
        let wrapped = tokio.wrap(pending::<()>());
        drop(tokio);
        assert!(receiver.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty));
        drop(wrapped);
        assert!(receiver.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected));
    }

    #[test]
    fn the_last_clone_may_go_in_a_task_of_its_own() {
        let tokio = TokioContext::new().expect("a thread");
        let handle = tokio.handle().clone();
        let (sender, receiver) = std::sync::mpsc::channel();
        handle.spawn(async move {
            drop(tokio);
            sender.send(()).expect("the test waits");
        });
        assert_eq!(receiver.recv(), Ok(()));
    }

    #[test]
    fn the_shared_one_is_one() {
        let ids = [TokioContext::shared(), TokioContext::shared()]
            .map(|context| context.expect("a thread").handle().id());
        assert_eq!(ids[0], ids[1]);
    }

    #[test]
    fn it_is_send_and_unpin_as_its_future_is() {
        fn sendable<T: Send + Sync + 'static>() {}
        fn unpin<T: Unpin>() {}
        sendable::<TokioContext>();
        sendable::<InTokio<Pending<()>>>();
        unpin::<InTokio<Pending<()>>>();
    }

    /// Each of these is known to be false, by a method that exists for both and an inherent one that exists
    /// for the bound only.
    #[test]
    fn it_is_neither_if_its_future_is_not() {
        struct Check<T>(std::marker::PhantomData<T>);
        trait Without {
            fn sendable(&self) -> bool {
                false
            }
            fn movable(&self) -> bool {
                false
            }
        }
        impl<T> Without for Check<T> {}
        struct Movable<T>(std::marker::PhantomData<T>);
        impl<T> Without for Movable<T> {}
        impl<T: Send> Check<T> {
            fn sendable(&self) -> bool {
                true
            }
        }
        impl<T: Unpin> Movable<T> {
            fn movable(&self) -> bool {
                true
            }
        }
        assert!(!Check::<InTokio<Rc<()>>>(std::marker::PhantomData).sendable());
        assert!(Check::<InTokio<()>>(std::marker::PhantomData).sendable());
        assert!(!Movable::<InTokio<PhantomPinned>>(std::marker::PhantomData).movable());
        assert!(Movable::<InTokio<()>>(std::marker::PhantomData).movable());
    }
}
