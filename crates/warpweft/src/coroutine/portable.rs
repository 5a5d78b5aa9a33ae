//! A closure on a stack of its own, by switching stacks on one thread.
//!
//! Where `switch.rs`, the same with a few instructions of our own, has not been tried. `on_thread.rs` has a
//! thread for each stack. All have the same interface.

use super::stack::Stack;
use crate::coroutine::Input;
use corosensei::CoroutineResult;
use corosensei::stack::StackPointer;
use std::cell::UnsafeCell;

// SAFETY: a `Stack` is a piece of a mapping that its pool keeps, used by nobody else, with a guard at its low
// end, which is at least a page larger than the smallest stack; both ends are multiples of a page.
unsafe impl corosensei::stack::Stack for Stack {
    #[inline]
    fn base(&self) -> StackPointer {
        StackPointer::new(self.top()).unwrap_or(StackPointer::MIN)
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.limit()).unwrap_or(StackPointer::MIN)
    }
}

/// What the closure switches away with.
pub(crate) type Switch = corosensei::Yielder<Input, ()>;

/// Whether stacks can be left for each other.
pub(crate) const SWITCHES_DIRECTLY: bool = false;

/// Switches away; who resumed the closure goes on with the other one, if there is one.
///
/// # Safety
///
/// None; as in `switch.rs`.
#[allow(
    clippy::inline_always,
    reason = "each return behind a switch of stacks is mispredicted"
)]
#[inline(always)]
pub(crate) unsafe fn leave_for(from: &Switch, _next: Option<&RawCoroutine>) -> Input {
    from.suspend(())
}

/// The closure and its stack. It stays on the thread that resumed it first (it is not `Send`).
pub(crate) struct RawCoroutine(UnsafeCell<corosensei::RawCoroutine<Input, (), (), Stack>>);

impl RawCoroutine {
    /// # Safety
    ///
    /// What `body` borrows is there until it has returned. `body` does not unwind.
    pub(crate) unsafe fn new(stack: Stack, body: impl FnOnce(&Switch)) -> Self {
        // SAFETY: by contract; a coroutine that is dropped before its end is unwound.
        let inner =
            unsafe { corosensei::RawCoroutine::with_stack_unchecked(stack, |switch, _| body(switch)) };
        Self(UnsafeCell::new(inner))
    }

    /// Runs the closure until it switches away or ends. Whether it has ended.
    #[inline]
    pub(crate) fn resume(&self, input: Input) -> bool {
        // SAFETY: it does not run, or this would be a call by the closure itself, which does not know it.
        let inner = unsafe { &mut *self.0.get() };
        matches!(inner.resume(input), CoroutineResult::Return(()))
    }

    /// The stack of a closure that has ended.
    pub(crate) fn into_stack(self) -> Stack {
        self.0.into_inner().into_stack()
    }
}
