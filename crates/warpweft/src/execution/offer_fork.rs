//! How a stack offers its oldest fork to the other workers.

use super::stack_context::StackContext;
use warpweft_platform::thread::panicking;
use warpweft_policy::Wake;

impl StackContext {
    /// Puts the oldest latent fork on offer, if there is one, and makes sure that a worker notices it.
    /// Returns true if the stack must unwind instead, because its token is cancelled.
    // Out of line, and small: the outermost fork of each tree comes here.
    #[inline(never)]
    pub(crate) fn offer_fork(&self) -> bool {
        if self.forks().is_unusual() {
            return self.offer_unusually();
        }
        if self.forks().offer() && self.offer_board().is_unwatched() {
            self.wake_for_offer();
        }
        false
    }

    /// Does the same in a scope, or under a token. There each fork comes here.
    #[inline(never)]
    fn offer_unusually(&self) -> bool {
        if self.is_stopped_at_fork() {
            return true;
        }
        let may_unwind = !panicking() && !self.is_uncooperative();
        if self.forks().offer_unusually(may_unwind) && self.offer_board().is_unwatched() {
            self.wake_for_offer();
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn wake_for_offer(&self) {
        let _ = self.fibers().pool().core().wake(Wake::Any, None);
    }
}
