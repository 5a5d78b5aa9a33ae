//! The stacks that a thread's fibers and handled bodies get, and may use: see the limit in `fiber/stack.rs`.

use super::ThreadFibers;
use crate::coroutine::stack::{Claim, NoStack, Reserved, Stack};
use crate::execution::fiber::Fiber;
use std::ptr::NonNull;

/// How many stacks a thread keeps for its next handled bodies.
const WARM_BARE: usize = 16;

impl ThreadFibers {
    /// A fiber without a body, and the right to use its stack.
    ///
    /// # Errors
    ///
    /// There is no stack, or none that may be used.
    #[inline]
    pub(crate) fn unloaded(&self) -> Result<(NonNull<Fiber>, Claim), NoStack> {
        let claim = self.claim()?;
        let warm = self.warm.borrow_mut().pop();
        let fiber = match warm {
            Some(fiber) => fiber,
            None => self.init(self.take_stack()?),
        };
        Ok((fiber, claim))
    }

    #[inline]
    fn claim(&self) -> Result<Claim, NoStack> {
        if self.is_limited {
            self.pool.core().stacks.claim()
        } else {
            Ok(Claim::none())
        }
    }

    /// A stack for a handled body, and the right to use it.
    ///
    /// # Errors
    ///
    /// There is none, or none that may be used.
    pub(crate) fn reserve(&self) -> Result<Reserved, NoStack> {
        let claim = self.claim()?;
        let stack = self.take_stack()?;
        Ok(Reserved { stack, claim })
    }

    /// A stack that was used on this thread, or one of the pool's.
    ///
    /// # Errors
    ///
    /// There is none.
    fn take_stack(&self) -> Result<Stack, NoStack> {
        let kept = self.bare.borrow_mut().pop();
        kept.map_or_else(|| self.pool.core().stacks.take(), Ok)
    }

    /// Keeps a stack of a handled body for the next one, or gives it back.
    pub(crate) fn put_stack(&self, stack: Stack) {
        let mut kept = self.bare.borrow_mut();
        if kept.len() < WARM_BARE {
            kept.push(stack);
        }
    }

    pub(crate) fn init(&self, stack: Stack) -> NonNull<Fiber> {
        // SAFETY: the home is this thread's, and clears its fibers away before it goes.
        unsafe { Fiber::new(NonNull::from(self), stack) }
    }
}
