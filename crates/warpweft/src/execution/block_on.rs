//! `block_on` and yields on a stack of the pool. A fiber does both without a call or a return between its
//! code and the switch.
//!
//! A stack continues after a switch, not after a call. Each return of its code then meets the call of another
//! stack, or none, on the processor's list of return addresses. It is mispredicted, which costs some 20
//! cycles. The exception are stacks that switch by jumps, with the call made at the same place. So in the
//! plain case all of this is inlined into the caller. The long path, out of line, is in `wait.rs`.

use super::fiber::{Fiber, MustWait};
use super::stack_context::{StackContext, here};
use super::{token, token_wait};
use crate::observe::spans::LeftSpans;
use crate::pool::current::{self, WorkerRef};
use std::pin::pin;
use std::task::{Context, Poll};
use warpweft_task::PollOnce;

impl StackContext {
    /// Yields to the other ready fibers of this thread, if this is a fiber. Returns true if it is.
    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks is mispredicted"
    )]
    #[inline(always)]
    pub(crate) fn give_way(&self) -> bool {
        match self.plain_fiber() {
            Some((fiber, worker_ref)) => {
                let spans = LeftSpans::leave();
                let unwinds = fiber.give_way_plainly(worker_ref);
                spans.come_back();
                if unwinds {
                    fiber.unwind();
                }
                true
            }
            None => self.give_way_anyhow(),
        }
    }

    #[cold]
    #[inline(never)]
    fn give_way_anyhow(&self) -> bool {
        let Some(fiber) = self.fiber().filter(|fiber| fiber.may_switch()) else {
            return false;
        };
        if self.keeps_worker() {
            // The worker is inside its policy, and would call it once more; or it is about to continue.
            return false;
        }
        let spans = LeftSpans::leave();
        self.switch_away(fiber, MustWait::No, |must_wait| fiber.give_way(must_wait));
        spans.come_back();
        if self.is_stopped() {
            token::unwind();
        }
        true
    }

    /// Returns the fiber of this stack and the reference of its worker, if the fiber may switch without
    /// further checks.
    #[allow(clippy::inline_always, reason = "part of what has to be inlined")]
    #[inline(always)]
    fn plain_fiber(&self) -> Option<(&Fiber, &WorkerRef)> {
        let (fiber, worker_ref) = (self.own_fiber()?, self.worker_ref()?);
        let plain = fiber.is_plain()
            && current::is(worker_ref)
            && !worker_ref.is_in_policy()
            && !self.forks().may_have_latent()
            && fiber.may_switch();
        plain.then_some((fiber, worker_ref))
    }

    /// Switches away until the waker of this fiber is notified. The fiber owns this stack, or runs below it.
    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks is mispredicted"
    )]
    #[inline(always)]
    fn listen(&self, fiber: &Fiber) {
        match self.plain_fiber() {
            Some((fiber, worker_ref)) => {
                if fiber.listen_plainly(worker_ref) {
                    fiber.unwind();
                }
            }
            None => self.listen_anyhow(fiber),
        }
    }

    #[cold]
    #[inline(never)]
    fn listen_anyhow(&self, fiber: &Fiber) {
        self.may_wait();
        if self.stayed_in_parent() {
            // It forked in the poll that is over.
            return fiber.listen_in_child();
        }
        let _under = self.begin_wait(fiber);
        self.switch_away(fiber, MustWait::No, |must_wait| fiber.listen(must_wait));
    }
}

/// Runs `future` on this stack until it has a result. In a fiber this switches to other work while the future
/// waits. In other tasks the thread gives its worker to another thread meanwhile, and continues when it is
/// given one. Outside of tasks the thread sleeps.
///
/// A switch of fibers costs some ten nanoseconds. Two hand-overs between threads cost some 10 to 20 µs, and a
/// thread for each frame that waits: prefer `await`.
#[allow(
    clippy::inline_always,
    reason = "each return behind a switch of stacks is mispredicted"
)]
#[inline(always)]
pub fn block_on<F: Future>(future: F) -> F::Output {
    match here().and_then(StackContext::fiber) {
        Some(fiber) if fiber.may_switch() => {
            let mut future = pin!(future);
            drive_on(fiber, |cx| future.as_mut().poll(cx))
        }
        _ => match token::inherited() {
            None => warpweft_task::block_on(future),
            Some(node) => token_wait::block_under(node, future),
        },
    }
}

/// Polls until the result is ready, on `fiber`, which owns this stack or runs below it.
#[allow(
    clippy::inline_always,
    reason = "each return behind a switch of stacks is mispredicted"
)]
#[inline(always)]
fn drive_on<T>(fiber: &Fiber, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let waker = fiber.waker();
    let mut cx = Context::from_waker(&waker);
    loop {
        // Before the poll: a notification from here on is for this wait, too, even if another wait inside of
        // it received it.
        let notifications = fiber.notifications();
        if let Poll::Ready(output) = poll(&mut cx) {
            return output;
        }
        // Before the last look at the waker, which a subscriber may notify.
        let spans = LeftSpans::leave();
        if fiber.notifications() == notifications
            && let Some(context) = here()
        {
            context.listen(fiber);
        }
        spans.come_back();
    }
}

/// Lets a fiber wait for code that does not know this crate's types. Returns `false` if this is no fiber, or
/// it may not switch.
pub(crate) fn drive(look: PollOnce<'_>) -> bool {
    let fiber = here()
        .and_then(StackContext::fiber)
        .filter(|fiber| fiber.may_switch());
    let is_ready = |is: bool| if is { Poll::Ready(()) } else { Poll::Pending };
    fiber
        .inspect(|fiber| drive_on(fiber, |cx| is_ready(look(cx))))
        .is_some()
}
