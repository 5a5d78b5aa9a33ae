//! The stacks of a thread's fibers and handled bodies, and their use: see the limit in `coroutine/stack.rs`.

use super::ThreadFibers;
use crate::coroutine::stack::{Reserved, StackError, StackMemory, StackPermit};
use crate::execution::fiber::Fiber;
use std::ptr::NonNull;

/// The number of stacks that a thread keeps for its next handled bodies.
const WARM_BARE: usize = 16;

impl ThreadFibers {
    /// Returns a fiber without a body, and the right to use its stack.
    ///
    /// # Errors
    ///
    /// There is no stack, or none that may be used.
    #[inline]
    pub(crate) fn unloaded(&self) -> Result<(NonNull<Fiber>, StackPermit), StackError> {
        let permit = self.permit()?;
        let warm = self.warm.borrow_mut().pop();
        let fiber = match warm {
            Some(fiber) => fiber,
            None => self.init(self.take_stack()?),
        };
        Ok((fiber, permit))
    }

    #[inline]
    fn permit(&self) -> Result<StackPermit, StackError> {
        if self.is_limited {
            self.pool.core().stacks.permit()
        } else {
            Ok(StackPermit::none())
        }
    }

    /// Returns a stack for a handled body, and the right to use it.
    ///
    /// # Errors
    ///
    /// There is none, or none that may be used.
    pub(crate) fn reserve(&self) -> Result<Reserved, StackError> {
        let permit = self.permit()?;
        let stack = self.take_stack()?;
        Ok(Reserved { stack, permit })
    }

    /// Takes a stack that was used on this thread, or one of the pool's.
    ///
    /// # Errors
    ///
    /// There is none.
    fn take_stack(&self) -> Result<StackMemory, StackError> {
        let kept = self.bare.borrow_mut().pop();
        kept.map_or_else(|| self.pool.core().stacks.take(), Ok)
    }

    /// Keeps the stack of a handled body for the next one, or gives it back.
    pub(crate) fn put_stack(&self, stack: StackMemory) {
        let mut kept = self.bare.borrow_mut();
        if kept.len() < WARM_BARE {
            kept.push(stack);
        }
    }

    pub(crate) fn init(&self, stack: StackMemory) -> NonNull<Fiber> {
        // SAFETY: `self` belongs to this thread, and clears its fibers away before it is dropped.
        unsafe { Fiber::new(NonNull::from(self), stack) }
    }
}
