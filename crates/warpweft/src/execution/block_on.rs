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
use warpweft_task::budget::take_pause;
use warpweft_task::{PollOnce, block_until, poll_into};

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

    /// The fiber was notified in its poll. If that was the end of a row of ready operations, others run
    /// first.
    #[inline(never)]
    fn go_on(&self) {
        if take_pause() {
            self.give_way();
        }
    }

    /// Switches away until the waker of this fiber is notified, if it was not since that number of
    /// notifications. The fiber owns this stack, or runs below it.
    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks is mispredicted"
    )]
    #[inline(always)]
    fn listen(&self, fiber: &Fiber, notifications: u64) {
        if fiber.notifications() != notifications {
            return self.go_on();
        }
        match self.plain_fiber() {
            Some((fiber, worker_ref)) => {
                if fiber.listen_plainly(worker_ref) {
                    fiber.unwind();
                }
            }
            None => self.listen_anyhow(fiber, notifications),
        }
    }

    #[cold]
    #[inline(never)]
    fn listen_anyhow(&self, fiber: &Fiber, notifications: u64) {
        self.may_wait();
        if self.stayed_in_parent() {
            // It forked in the poll that is over.
            return fiber.listen_in_child();
        }
        let _under = self.begin_wait(fiber);
        // That may have found the deadline of the token passed, and cancelled it: with all other wakers it
        // called this fiber's, which did not listen yet.
        if fiber.notifications() != notifications {
            return;
        }
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
    let mut future = pin!(future);
    if let Some(fiber) = here().and_then(StackContext::foot_fiber)
        && fiber.may_switch()
    {
        return drive_on(fiber, |cx| future.as_mut().poll(cx));
    }
    let mut output = None;
    block_elsewhere(&mut poll_into(future, &mut output));
    output.unwrap_or_else(|| unreachable!("the wait ends with the output"))
}

/// Waits until the closure returns true, where no fiber owns the stack.
#[cold]
#[inline(never)]
fn block_elsewhere(look: PollOnce<'_>) {
    if is_on_top_of_fiber() && drive_on_top(look) {
        return;
    }
    match token::inherited() {
        None => block_until(look),
        Some(node) => token_wait::block_under(node, look),
    }
}

/// Polls until the result is ready, on the stack of `fiber`, which stays there.
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
        if let Some(context) = here() {
            context.listen(fiber, notifications);
        }
        spans.come_back();
    }
}

/// Returns true on the stack of a handled body, on top of a fiber that may switch.
fn is_on_top_of_fiber() -> bool {
    here()
        .and_then(StackContext::fiber)
        .is_some_and(Fiber::may_switch)
}

/// Calls the closure until it returns true, on the stack of a handled body. The closure may perform an
/// effect, after which the body continues on top of another fiber, or on top of none. So the fiber is looked
/// up again after each call. Returns false when there is none, or it may not switch.
#[cold]
#[inline(never)]
fn drive_on_top(look: PollOnce<'_>) -> bool {
    loop {
        let fiber = here().and_then(StackContext::fiber);
        let Some(fiber) = fiber.filter(|fiber| fiber.may_switch()) else {
            return false;
        };
        // A share of the waker, because the fiber may end while the poll has it.
        let (waker, notifications) = ((*fiber.waker()).clone(), fiber.notifications());
        if look(&mut Context::from_waker(&waker)) {
            return true;
        }
        // As in `drive_on`.
        let spans = LeftSpans::leave();
        if let Some(context) = here()
            && let Some(fiber) = context.fiber()
            && fiber.may_switch()
            && fiber.waker().will_wake(&waker)
        {
            context.listen(fiber, notifications);
        }
        spans.come_back();
    }
}

/// Lets a fiber wait for code that does not know this crate's types. Returns `false` if this is no fiber, or
/// it may not switch.
pub(crate) fn drive(look: PollOnce<'_>) -> bool {
    let foot = here().and_then(StackContext::foot_fiber);
    if let Some(fiber) = foot.filter(|fiber| fiber.may_switch()) {
        drive_on(fiber, |cx| if look(cx) { Poll::Ready(()) } else { Poll::Pending });
        return true;
    }
    if !is_on_top_of_fiber() {
        return false;
    }
    if !drive_on_top(look) {
        // The body continues where no fiber is. `block_until` calls this again, which returns false there.
        block_until(look);
    }
    true
}
