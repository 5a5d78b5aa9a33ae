//! A coroutine by the crate `corosensei`: a closure on a separate stack, on the same thread. It is for
//! systems on which `switch.rs`, with its few instructions, has not been tested. `on_thread.rs` has a thread
//! for each stack. All have the same interface.

use super::stack::StackMemory;
use crate::coroutine::Input;
use corosensei::CoroutineResult;
use corosensei::stack::StackPointer;
use std::cell::UnsafeCell;
use warpweft_platform::stack_copy::Registers;

// SAFETY: a `StackMemory` is a piece of a mapping that its pool keeps, and no other code uses it. A guard is
// at its low end. It is at least a page larger than the smallest stack. Both ends are multiples of a page.
unsafe impl corosensei::stack::Stack for StackMemory {
    #[inline]
    fn base(&self) -> StackPointer {
        StackPointer::new(self.top()).unwrap_or(StackPointer::MIN)
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.bottom()).unwrap_or(StackPointer::MIN)
    }
}

/// The handle with which the closure switches away.
pub(crate) type Switch = corosensei::Yielder<Input, ()>;

/// True if one stack can be left directly for another.
pub(crate) const SWITCHES_DIRECTLY: bool = false;

/// Switches away. The code that resumed the closure continues with `next`, if there is one.
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

/// As in `switch.rs`. Here it is not known where a stack was left.
pub(crate) fn left_registers(_switch: u64, _read: impl Fn(u64) -> Option<u64>) -> Option<Registers> {
    None
}

/// A closure and its stack. It stays on the thread that resumed it first (it is not `Send`).
pub(crate) struct RawCoroutine(UnsafeCell<corosensei::Coroutine<Input, (), (), StackMemory>>);

impl RawCoroutine {
    /// # Safety
    ///
    /// What `body` borrows is there until it has returned. `body` does not unwind.
    pub(crate) unsafe fn new(stack: StackMemory, body: impl FnOnce(&Switch)) -> Self {
        // SAFETY: by contract; a coroutine that is dropped before its end is unwound.
        let inner = unsafe { corosensei::Coroutine::with_stack_unchecked(stack, |switch, _| body(switch)) };
        Self(UnsafeCell::new(inner))
    }

    /// Runs the closure until it switches away or ends. Returns true if it has ended.
    #[inline]
    pub(crate) fn resume(&self, input: Input) -> bool {
        // SAFETY: the closure does not run; only the closure itself could call this then, and it has no
        // reference to it.
        let inner = unsafe { &mut *self.0.get() };
        matches!(inner.resume(input), CoroutineResult::Return(()))
    }

    pub(crate) fn into_stack(self) -> StackMemory {
        self.0.into_inner().into_stack()
    }
}
