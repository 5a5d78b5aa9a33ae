//! A context of tokio around somebody's futures.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A runtime of tokio for crates that cannot do without: one thread, which waits for its sockets and timers
/// and runs what they [`tokio::spawn`].
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
/// left again: nothing of it stays on the worker's thread while the future waits.
///
/// # Costs
///
/// - A poll: a thread-local look-up and a reference count, twice.
/// - An event of a socket or timer of tokio: a hand-over from its thread to a worker, some microseconds. What
///   a crate spawns itself, as HTTP clients do with their connections, runs on that thread and shares its one
///   core.
/// - The context: a thread and three descriptors, from the first use of [`shared`](Self::shared) to the end
///   of the process, or from [`new`](Self::new) until its last clone and its last future are gone.
///
/// # Limits
///
/// - `block_on` of a runtime of tokio is not for tasks, here no more than there: it blocks the worker.
/// - While a *poll* is under way in a [fiber](warpweft::fiber) it must not wait in direct style (`lock`,
///   `block_on`, `join`): the fiber would switch away with the context entered. Awaiting is what it is for.
///   In a task, whose thread waits with it, both are right.
/// - HTTP clients have deep stacks. A fiber that polls one needs more than the usual 64 KiB, above all
///   unoptimised: see [`Builder::fiber_stack_size`](warpweft::Builder::fiber_stack_size).
/// - What runs on tokio's thread is no task of Warpweft: `warpweft::spawn` there goes to the default runtime.
/// - In a child made by `fork()` the thread is missing: make a new context, and new clients, there.
#[derive(Debug, Clone)]
pub struct TokioContext(Entry);

#[derive(Debug, Clone)]
enum Entry {
    Own(Arc<Own>),
    Foreign(Handle),
}

/// A runtime on a thread of its own, which ends with this value.
struct Own {
    handle: Handle,
    /// Dropped to end it.
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
            .spawn(move || match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => {
                    // Who asked waits for it below.
                    let _ = started.send(Ok(runtime.handle().clone()));
                    // An error: the sender is gone, which is what this waits for.
                    let _ = runtime.block_on(ended);
                    // Tasks that are left are dropped. Threads that block are not waited for.
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
        // A task of its own may have held the last clone: that one cannot wait for its thread.
        if let Some(thread) = self.thread.take().filter(|thread| !is_here(thread)) {
            // It has no result; a panic in it has been reported.
            warpweft::blocking(|| drop(thread.join()));
        }
    }
}

impl TokioContext {
    /// A runtime of its own, that ends when the last clone and the last future wrapped by it are dropped:
    /// tasks in it are dropped, its thread is joined.
    ///
    /// # Errors
    ///
    /// The system gives no thread or no descriptor.
    pub fn new() -> io::Result<Self> {
        Own::start().map(|own| Self(Entry::Own(Arc::new(own))))
    }

    /// The one that the whole process shares; started at the first call that succeeds, and never ended.
    ///
    /// # Errors
    ///
    /// The system gives no thread or no descriptor. A later call tries again.
    pub fn shared() -> io::Result<Self> {
        static SHARED: OnceLock<TokioContext> = OnceLock::new();
        if let Some(shared) = SHARED.get() {
            return Ok(shared.clone());
        }
        // Two may start one at the same time. The second to arrive is ended and the first serves both.
        let new = Self::new()?;
        Ok(SHARED.get_or_init(|| new).clone())
    }

    /// A runtime that the caller already has, and keeps running.
    #[must_use]
    pub fn from_handle(handle: Handle) -> Self {
        Self(Entry::Foreign(handle))
    }

    /// Polls `future`, and drops it, inside this context.
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

    /// The handle of the runtime, for crates that want it by value.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        match &self.0 {
            Entry::Own(own) => &own.handle,
            Entry::Foreign(handle) => handle,
        }
    }
}

/// `future.in_tokio()?.await`.
pub trait InTokioExt: Future + Sized {
    /// Polls the future inside the [shared](TokioContext::shared) context.
    ///
    /// # Errors
    ///
    /// As [`TokioContext::shared`].
    fn in_tokio(self) -> io::Result<InTokio<Self>> {
        TokioContext::shared().map(|context| context.wrap(self))
    }
}

impl<F: Future> InTokioExt for F {}

/// A future that is polled and dropped inside a [`TokioContext`]. Made by [`wrap`](TokioContext::wrap).
#[must_use = "futures do nothing unless they are awaited"]
pub struct InTokio<F> {
    /// Pinned with the whole. Empty only while it is dropped.
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
    /// The future, pinned as the whole is, and where to poll it.
    fn parts(self: Pin<&mut Self>) -> (Pin<&mut Option<F>>, &TokioContext) {
        // SAFETY: nothing is moved out of what this gives, below.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `future` is pinned with the whole: nobody moves it (no function gives it by value or by
        // `&mut`), it is dropped in place, and the whole is `Unpin` only if `F` is, because it contains one.
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
        // SAFETY: it is not moved any more: this is its end.
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
        struct Probe<T>(std::marker::PhantomData<T>);
        trait Without {
            fn sendable(&self) -> bool {
                false
            }
            fn movable(&self) -> bool {
                false
            }
        }
        impl<T> Without for Probe<T> {}
        struct Movable<T>(std::marker::PhantomData<T>);
        impl<T> Without for Movable<T> {}
        impl<T: Send> Probe<T> {
            fn sendable(&self) -> bool {
                true
            }
        }
        impl<T: Unpin> Movable<T> {
            fn movable(&self) -> bool {
                true
            }
        }
        assert!(!Probe::<InTokio<Rc<()>>>(std::marker::PhantomData).sendable());
        assert!(Probe::<InTokio<()>>(std::marker::PhantomData).sendable());
        assert!(!Movable::<InTokio<PhantomPinned>>(std::marker::PhantomData).movable());
        assert!(Movable::<InTokio<()>>(std::marker::PhantomData).movable());
    }
}
