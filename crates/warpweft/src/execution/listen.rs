//! How a fiber gives way, and waits for what wakes it: without a call or a return between its code and the
//! switch.
//!
//! A stack that goes on comes from a switch, not from a call: each return that its code makes then meets on
//! the processor's list the call of another stack, or none, and is mispredicted, some 20 cycles each; unless
//! stacks are switched by jumps, and that call was made at the same place. So where nothing is to be seen to
//! before and after, all of this is inlined into the caller; the long way, out of line, is `wait.rs`.

use super::fiber::{Fiber, MustWait};
use super::stack_context::{StackContext, here};
use crate::pool::current::{self, WorkerRef};
use std::pin::pin;
use std::task::{Context, Poll};
use warpweft_task::PollOnce;

impl StackContext {
    /// Gives way to what else is ready on this thread, if this is a fiber. Whether it is.
    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks is mispredicted"
    )]
    #[inline(always)]
    pub(crate) fn give_way(&self) -> bool {
        match self.plain_fiber() {
            Some((fiber, worker_ref)) => {
                if fiber.give_way_plainly(worker_ref) {
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
            // The worker is inside its policy, and would call it once more; or it is about to go on.
            return false;
        }
        self.switch_away(fiber, MustWait::No, |must_wait| fiber.give_way(must_wait));
        true
    }

    /// The fiber whose stack it is, if nothing is to be seen to before it switches away, nor afterwards; and
    /// the reference of its worker.
    #[allow(clippy::inline_always, reason = "part of what has to be inlined")]
    #[inline(always)]
    fn plain_fiber(&self) -> Option<(&Fiber, &WorkerRef)> {
        let (fiber, worker_ref) = (self.own_fiber()?, self.worker_ref()?);
        let plain = fiber.is_plain()
            && current::is(worker_ref)
            && !worker_ref.is_in_policy()
            && !self.forks().may_have_untold()
            && fiber.may_switch();
        plain.then_some((fiber, worker_ref))
    }

    /// Switches away until the waker of the fiber rings whose stack it is, or on top of whose stack it runs.
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
        self.switch_away(fiber, MustWait::No, |must_wait| fiber.listen(must_wait));
    }
}

/// Runs `future` on this stack until it has a result. In a fiber this switches to other work while the future
/// waits; elsewhere in a task the thread gives its worker to another thread meanwhile, and goes on when a
/// worker is given to it; outside of any the thread sleeps.
///
/// A switch of fibers costs some ten nanoseconds; two hand-overs between threads cost some 10 to 20 µs, and a
/// thread for each frame that waits: await where you can.
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
        _ => warpweft_task::block_on(future),
    }
}

/// Polls until it is ready, on `fiber`, whose stack this is, or on top of whose stack.
#[allow(
    clippy::inline_always,
    reason = "each return behind a switch of stacks is mispredicted"
)]
#[inline(always)]
fn drive_on<T>(fiber: &Fiber, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let waker = fiber.waker();
    let mut cx = Context::from_waker(&waker);
    loop {
        // Before it looks: what rings from here on is for this wait, too, if it was another one inside of it
        // that heard it.
        let notifications = fiber.notifications();
        if let Poll::Ready(output) = poll(&mut cx) {
            return output;
        }
        if fiber.notifications() == notifications
            && let Some(context) = here()
        {
            context.listen(fiber);
        }
    }
}

/// How a fiber waits for what code without this crate's types waits for. `false`: this is none, or may not
/// switch.
pub(crate) fn drive(look: PollOnce<'_>) -> bool {
    let fiber = here()
        .and_then(StackContext::fiber)
        .filter(|fiber| fiber.may_switch());
    let is_ready = |is: bool| if is { Poll::Ready(()) } else { Poll::Pending };
    fiber
        .inspect(|fiber| drive_on(fiber, |cx| is_ready(look(cx))))
        .is_some()
}
