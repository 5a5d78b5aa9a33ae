//! A closure on a stack of its own, by switching stacks on one thread.
//!
//! The other implementation, with a thread of its own, is in `twin.rs`; both have the same interface.

use super::Input;
use super::stack::Stack;
use corosensei::CoroutineResult;
use corosensei::stack::StackPointer;

// SAFETY: a `Stack` is a piece of a mapping that its pool keeps, used by nobody else, with a guard at its low end, which is at
// least a page larger than the smallest stack; both ends are multiples of a page.
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

/// The closure and its stack. It stays on the thread that resumed it first (it is not `Send`).
pub(crate) struct Coroutine(corosensei::Coroutine<Input, (), (), Stack>);

impl Coroutine {
    /// # Safety
    ///
    /// What `body` borrows is there until it has returned. `body` does not unwind.
    pub(crate) unsafe fn new(stack: Stack, body: impl FnOnce(&Switch)) -> Self {
        // SAFETY: by contract; a coroutine that is dropped before its end is unwound.
        Self(unsafe { corosensei::Coroutine::with_stack_unchecked(stack, |switch, _| body(switch)) })
    }

    /// Runs the closure until it switches away or ends. Whether it has ended.
    #[inline]
    pub(crate) fn resume(&mut self, input: Input) -> bool {
        matches!(self.0.resume(input), CoroutineResult::Return(()))
    }

    /// The stack of a closure that has ended.
    pub(crate) fn into_stack(self) -> Stack {
        self.0.into_stack()
    }
}
