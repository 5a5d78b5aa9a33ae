//! `scope_async`: tasks that end before the future that waits for them, or with it.
//!
//! ```text
//!   scope_async: body ─▶ all tasks have left ─▶ the body's value      spawn ─▶ enters ─▶ runs ─▶ leaves
//!       │ dropped: closed, all cancelled, none is waited for             (also when it is dropped unrun)
//! ```
//!
//! # Invariants
//!
//! - A task is among `inside` from before it is spawned until its future has been dropped.
//! - Once closed, nothing enters. The scope closes when it is dropped, and when the body has ended and no
//!   task is inside.
//! - Handles are cancelled and dropped outside of the lock.

use super::scoped_handle::{FutureScope, PanicLocation, ScopedHandle, answered, caught};
use crate::execution::token;
use crate::fork::jobs::FirstPanic;
use crate::observe::listed::Listed;
use crate::observe::raw::{RawWait, RawWhat, Watched};
use crate::runtime::task_builder::TaskBuilder;
use crate::sync::oneshot;
use crate::sync::wait_list::behind;
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::panic::{Location, resume_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use warpweft_platform::clock::coarse_ns;
use warpweft_platform::sync::Mutex;
use warpweft_task::JoinHandle;

#[derive(Default)]
struct ScopeState {
    /// The tasks by number; a task has no handle yet while it is being spawned.
    inside: BTreeMap<u64, Option<JoinHandle<()>>>,
    entered: u64,
    closed: bool,
    /// A task was dropped before its end.
    cut_short: bool,
    /// The scope's waker, while it waits for the last task.
    waiting: Option<Waker>,
    /// What identifies the task that waits, if the waker does not; otherwise 0.
    waiter: usize,
    /// Since when it waits, on the coarse clock; 0 before.
    since_ns: u64,
}

struct AsyncScopeShared {
    listed: Listed,
    state: Mutex<ScopeState>,
    panic: FirstPanic,
}

impl FutureScope for AsyncScopeShared {
    fn first_panic(&self) -> &FirstPanic {
        &self.panic
    }

    fn cancel_others(&self) {
        // The one that panicked is among them, and has ended.
        self.cancel();
    }
}

impl Watched for AsyncScopeShared {
    fn look(&self, see: &mut dyn FnMut(RawWait)) {
        let Some(state) = self.state.lock_unless_lost() else {
            return;
        };
        if let Some(waker) = &state.waiting {
            see(RawWait {
                waiter: waker.data().addr(),
                task: state.waiter,
                object: std::ptr::from_ref(self).addr(),
                since_ns: Some(state.since_ns),
                told: false,
                what: RawWhat::Tasks(state.inside.values().flatten().map(JoinHandle::id_word).collect()),
            });
        }
    }
}

impl AsyncScopeShared {
    /// Returns ready when the last task has left; until then `cx` is registered.
    fn last_has_left(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.inside.is_empty() {
            state.closed = true;
            return Poll::Ready(());
        }
        let before = state.waiting.replace(cx.waker().clone());
        state.waiter = behind(cx.waker());
        if state.since_ns == 0 {
            state.since_ns = coarse_ns();
        }
        drop(state);
        // SAFETY: all that know the scope have a share of the memory, which stays until the entry is dropped
        // with it.
        unsafe { self.listed.register(self) };
        drop(before);
        Poll::Pending
    }

    /// Cancels all tasks. Tasks that are being spawned are cancelled as soon as they have a handle.
    fn cancel(&self) {
        let handles: Vec<_> = {
            let mut state = self.state.lock();
            state.closed = true;
            state.inside.values_mut().filter_map(Option::take).collect()
        };
        for handle in handles {
            handle.cancel();
        }
    }
}

/// Keeps a task among `inside`, until it is dropped.
struct Inside {
    number: u64,
    /// True once the task's future has ended.
    ended: bool,
    scope: Arc<AsyncScopeShared>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let (handle, waiting) = {
            let Some(mut state) = self.scope.state.lock_unless_lost() else {
                return;
            };
            state.cut_short |= !self.ended;
            let handle = state.inside.remove(&self.number);
            let last = state.inside.is_empty();
            (handle, if last { state.waiting.take() } else { None })
        };
        drop(handle);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// What a task of a scope owns. The order of the fields drops the future before the task leaves the scope,
/// also if the task never runs: captured variables have no such order.
struct Member<F> {
    future: F,
    inside: Inside,
}

impl<F> Member<F> {
    fn into_parts(self) -> (F, Inside) {
        (self.future, self.inside)
    }
}

/// Ends the tasks when the scope's future ends or is dropped.
struct EndOnDrop(Arc<AsyncScopeShared>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Spawns futures that end before the scope does; the body of [`scope_async`] gets one.
///
/// It may be cloned, for the tasks of the scope and for others.
#[derive(Clone)]
pub struct AsyncScope(Arc<AsyncScopeShared>);

impl AsyncScope {
    /// Spawns a future as a task of the scope, on the pool of the caller, or outside of any pool on the
    /// [default runtime](crate::default_runtime). The handle returns its result. The scope ends after the
    /// future has ended, even if the handle was dropped.
    ///
    /// After the end of the scope the future is dropped, and the handle returns
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled).
    ///
    /// Costs two allocations, and takes a short lock twice.
    ///
    /// # Panics
    ///
    /// Outside of any pool, if the default runtime cannot be built.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> ScopedHandle<'static, F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let entered = {
            let mut state = self.0.state.lock();
            (!state.closed).then(|| {
                state.entered += 1;
                let number = state.entered;
                state.inside.insert(number, None);
                number
            })
        };
        if let Some(number) = entered {
            let member = Member {
                future,
                inside: Inside {
                    number,
                    ended: false,
                    scope: Arc::clone(&self.0),
                },
            };
            let blamed = PanicLocation::Shared(Arc::clone(&self.0) as _);
            let site = Location::caller();
            let task = async move {
                // The second one is dropped after the future.
                let (future, mut inside) = member.into_parts();
                answered(future, sender, blamed, site).await;
                inside.ended = true;
            };
            self.register(number, TaskBuilder::at(site).spawn(task));
        }
        ScopedHandle::new(receiver)
    }

    /// Keeps the handle of a task that is inside, so that the task can be cancelled.
    fn register(&self, number: u64, handle: JoinHandle<()>) {
        let left_over = {
            let mut state = self.0.state.lock();
            let closed = state.closed;
            match state.inside.get_mut(&number) {
                Some(place) if !closed => place.replace(handle),
                _ => Some(handle),
            }
        };
        // The task has ended already, or must end with the scope.
        if let Some(handle) = left_over {
            handle.cancel();
        }
    }
}

impl fmt::Debug for AsyncScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncScope").finish_non_exhaustive()
    }
}

/// Awaits the future that `body` returns, and all futures that were spawned into the scope meanwhile.
///
/// The futures are tasks, and own what they use. **Dropping the scope** before its end cancels them: they end
/// at their next suspension point, and nothing waits for that. So it cannot lend, because a future may be
/// dropped or forgotten at any time, and its frame with it.
/// [`Scope::spawn_future`](crate::Scope::spawn_future) spawns futures that borrow.
///
/// ```
/// use warpweft::{Runtime, scope_async};
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let sum = runtime.block_on(scope_async(|scope| async move {
///     let parts: Vec<_> = (1..=10).map(|n| scope.spawn(async move { n * n })).collect();
///     scope.spawn(async { println!("the scope waits for this one as well") });
///     let mut sum = 0;
///     for part in parts {
///         sum += part.await?;
///     }
///     Ok::<_, warpweft::JoinError>(sum)
/// }))?;
/// assert_eq!(sum, 385);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// If the body panics, its tasks are cancelled, and the panic continues when all have ended. If a task panics
/// whose handle was dropped before it returned a result, the scope panics when all have ended, with the first
/// such panic.
///
/// If the [token](mod@crate::cancel) of the scope is cancelled and a task was dropped for that, the scope
/// unwinds, too.
///
/// With [`PanicPolicy::CancelScope`](crate::PanicPolicy::CancelScope) the panic of one task cancels the
/// others.
pub async fn scope_async<F: Future>(body: impl FnOnce(AsyncScope) -> F) -> F::Output {
    let shared = Arc::new(AsyncScopeShared {
        listed: Listed::default(),
        state: Mutex::new(ScopeState::default()),
        panic: FirstPanic::new(None),
    });
    let ending = EndOnDrop(Arc::clone(&shared));
    let scope = AsyncScope(Arc::clone(&shared));
    // The closure is a part of the body: its panic waits for the tasks, too.
    let outcome = caught(async move { body(scope).await }).await;
    if outcome.is_err() {
        shared.cancel();
    }
    poll_fn(|cx| {
        // A task of the scope may wait for the cancellation, and say goodbye in its grace.
        token::note_listening();
        shared.last_has_left(cx)
    })
    .await;
    drop(ending);
    let panic = shared.panic.lock().take();
    let cut_short = shared.state.lock().cut_short;
    if outcome.is_ok() && panic.is_none() && cut_short {
        // A value would say that all tasks have ended.
        token::check();
    }
    match (outcome, panic) {
        (Err(panic), _) | (Ok(_), Some(panic)) => resume_unwind(panic),
        (Ok(value), None) => value,
    }
}
