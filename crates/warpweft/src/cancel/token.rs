//! The token, and what runs under it.

use super::listening::Listening;
use crate::cancel_tree::node::{Limits, Node, Reason};
use crate::execution::token::{self as here, with_token};
use crate::execution::token_wait::TokenWait;
use crate::runtime::under_token::UnderToken;
use crate::sync::Wait;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The grace of a future, unless its token says otherwise.
const GRACE: Duration = Duration::from_secs(1);

/// A request to stop, for all code under the token and under its children. It is made at most once, and not
/// taken back. Clones are the same token.
///
/// Dropping a token cancels nothing.
#[derive(Clone)]
pub struct CancelToken(pub(super) Arc<Node>);

impl CancelToken {
    /// Creates a token without a parent.
    #[must_use]
    pub fn new() -> Self {
        Self(Node::root(Limits {
            deadline_ns: u64::MAX,
            grace_ns: nanoseconds(GRACE),
        }))
    }

    /// Creates a token that is cancelled when this one is. It inherits deadline and grace, and leaves nothing
    /// behind here when it is dropped.
    ///
    /// Costs an allocation and a short lock.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(Node::child([Some(&self.0), None], self.0.limits()))
    }

    /// Creates a child with that grace: how long a future may continue after it was asked to end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use warpweft::{Runtime, cancel::CancelToken, spawn, time::sleep};
    ///
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let token = CancelToken::new().with_grace(Duration::from_secs(10));
    /// let asked = token.clone();
    /// let work = token.run_async(async move {
    ///     // Not before this future runs: a future that has not begun has no grace.
    ///     let canceller = asked.clone();
    ///     spawn(async move { canceller.cancel() }).detach();
    ///     asked.cancelled().await;
    ///     sleep(Duration::from_millis(1)).await; // says goodbye
    ///     "goodbye"
    /// });
    /// assert_eq!(runtime.block_on(work), Ok("goodbye"));
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    #[must_use]
    pub fn with_grace(&self, grace: Duration) -> Self {
        let grace_ns = nanoseconds(grace);
        Self(Node::child(
            [Some(&self.0), None],
            Limits {
                grace_ns,
                ..self.0.limits()
            },
        ))
    }

    /// Cancels the token and all that are below it, and wakes what waits under them. Does nothing if it was
    /// cancelled before. When it returns, no task under the token starts any more; below
    /// it, that is so when the first such call has returned.
    ///
    /// Takes time in proportion to the number of tokens below and of tasks that wait under them.
    ///
    /// # Panics
    ///
    /// With the panic of the first waker that panicked, after the others were woken.
    pub fn cancel(&self) {
        self.0.cancel(Reason::Asked);
    }

    /// Returns true if the token was cancelled. Costs one load.
    #[must_use]
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the token is cancelled: `.await` it, or [`wait`](Wait::wait) in a fiber or on a thread.
    ///
    /// A future that waits for this under the token gets a [grace](Self::with_grace) when it is cancelled,
    /// also if it waits for another token than its own: it is not known which one makes it say goodbye.
    /// [`current`] returns the token to wait for:
    ///
    /// ```
    /// use warpweft::{Runtime, cancel, cancel::CancelToken, sync::oneshot};
    ///
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let token = CancelToken::new();
    /// let (started, has_started) = oneshot::channel();
    /// let session = token.run(|| {
    ///     runtime.spawn(async move {
    ///         let token = cancel::current().expect("it is spawned under one");
    ///         let _ = started.send(());
    ///         token.cancelled().await;
    ///         "goodbye"
    ///     })
    /// })?;
    /// let _ = has_started.wait(); // one that has not begun never starts
    /// token.cancel();
    /// assert_eq!(session.wait()?, "goodbye");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancelled(&self) -> Wait<impl Future<Output = ()> + Send + Sync + Unpin + use<>> {
        let mut waiting = TokenWait {
            node: Arc::clone(&self.0),
            place: None,
        };
        let mut listening: Option<Box<Listening>> = None;
        Wait::new(poll_fn(move |cx| {
            here::note_listening();
            if waiting.is_over(cx.waker()) {
                return Poll::Ready(());
            }
            match &listening {
                Some(listening) => listening.note(cx.waker()),
                None => {
                    let node = Arc::as_ptr(&waiting.node).addr();
                    listening = Some(Listening::new(node, cx.waker()));
                }
            }
            Poll::Pending
        }))
    }

    /// Calls `f` under the token, and under the one that counts here already: either of them stops it. In a
    /// fiber `f` may wait as usual.
    ///
    /// If `f` reaches its value although the token is cancelled, because it never forks, waits or asks, that
    /// value is the result.
    ///
    /// # Errors
    ///
    /// [`Cancelled`], if `f` was stopped: it never ran, or was unwound.
    ///
    /// # Panics
    ///
    /// If `f` does. If only the token that counts here already was cancelled, the stack unwinds further.
    ///
    /// ```
    /// use warpweft::cancel::{self, CancelToken};
    ///
    /// let token = CancelToken::new();
    /// assert_eq!(token.run(|| 1), Ok(1));
    /// let stopped = token.run(|| {
    ///     warpweft::par_for(0..usize::MAX, 1000, |n| {
    ///         if n == 5000 {
    ///             token.cancel();
    ///         }
    ///     })
    /// });
    /// assert!(stopped.is_err());
    /// assert!(token.run(|| unreachable!("it never runs")).is_err());
    /// ```
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> Result<T, Cancelled> {
        let token = self.below_current();
        if here::UNWINDS && token.reason().is_some() {
            if let Some(cancelled) = self.reason() {
                return Err(cancelled);
            }
            // Only the other one was: this stack ends here, unless it must not be unwound.
            here::check();
        }
        // Unwind: the panic continues, unless it is the end that the token asked for.
        match catch_unwind(AssertUnwindSafe(|| with_token(Some(&token.0), f))) {
            Ok(value) => Ok(value),
            Err(payload) => match self.reason().filter(|_| payload.is::<warpweft_task::Cancelled>()) {
                Some(cancelled) => Err(cancelled),
                None => resume_unwind(payload),
            },
        }
    }

    /// Runs `future` under the token, and under the one that counts where this is called.
    ///
    /// If the future reaches its value in the poll in which it is cancelled or in the next one, or in its
    /// [grace](Self::with_grace), that value is the result.
    ///
    /// # Errors
    ///
    /// [`Cancelled`], if the future was stopped: it never ran, or was unwound or dropped. If only the token
    /// that counts here already was cancelled, the stack unwinds further. Where no stack may be unwound, in
    /// [`uncooperative`](crate::uncooperative) code or with `panic = "abort"`, that is this error, too.
    ///
    /// # Panics
    ///
    /// If the future does.
    pub fn run_async<F: Future>(
        &self,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Cancelled>> + use<F> {
        let (token, ours) = (self.below_current(), self.clone());
        let run = UnderToken::new(Arc::clone(&token.0), future);
        async move {
            match run.await {
                Some(value) => Ok(value),
                None => match ours
                    .reason()
                    .or_else(|| token.reason().filter(|_| !here::may_stop_thread()))
                {
                    Some(cancelled) => Err(cancelled),
                    None => here::unwind(),
                },
            }
        }
    }

    /// Returns this token, or a child of it and of the one that counts here.
    fn below_current(&self) -> Self {
        match here::current() {
            Some(current) if !self.0.is_below(Arc::as_ptr(&current)) => {
                let (ours, outer) = (self.0.limits(), current.limits());
                let deadline_ns = ours.deadline_ns.min(outer.deadline_ns);
                Self(Node::child(
                    [Some(&self.0), Some(&current)],
                    Limits { deadline_ns, ..ours },
                ))
            }
            _ => self.clone(),
        }
    }

    fn reason(&self) -> Option<Cancelled> {
        self.0.reason().map(Cancelled)
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The error of what was stopped by its token. Work that reached its value all the same has no error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cancelled(Reason);

impl Cancelled {
    /// Returns true if a [deadline](crate::cancel::with_deadline) has passed, rather than that the program
    /// cancelled the token.
    ///
    /// [with_deadline]: super::with_deadline
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        self.0 == Reason::Deadline
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_deadline() {
            "Cancelled(deadline)"
        } else {
            "Cancelled"
        })
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_deadline() {
            "the deadline passed before there was a result"
        } else {
            "the work was cancelled"
        })
    }
}

impl std::error::Error for Cancelled {}

impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> Self {
        let kind = if cancelled.is_deadline() {
            io::ErrorKind::TimedOut
        } else {
            io::ErrorKind::Interrupted
        };
        Self::new(kind, cancelled)
    }
}

/// Returns the token that counts here. `None`: there is none.
#[must_use]
pub fn current() -> Option<CancelToken> {
    here::current().map(CancelToken)
}

/// Returns true if the code that calls it should stop: a token counts here, and it is cancelled. For leaves
/// that compute, and want to end in their own way. Costs a few loads.
#[must_use]
pub fn is_cancelled() -> bool {
    here::is_cancelled()
}

/// Unwinds if the code that calls it should stop. For leaves that compute.
///
/// # Panics
///
/// It unwinds if [`is_cancelled`], except where nothing is [unwound](crate::cancel).
pub fn check() {
    here::check();
}

/// Calls `f` under no token: what it spawns outlives the cancellation, and so does `f` itself. For clean-up
/// that must run: the locals of code that *returns* under a cancelled token are dropped under it, and what
/// they spawn there never starts. Those of code that is unwound are not.
///
/// ```
/// use warpweft::cancel::{self, CancelToken};
/// let token = CancelToken::new();
/// let outcome = token.run(|| {
///     token.cancel();
///     cancel::detached(|| warpweft::join(|| 1, || 2))
/// });
/// assert_eq!(outcome, Ok((1, 2)));
/// ```
pub fn detached<T>(f: impl FnOnce() -> T) -> T {
    with_token(None, f)
}
