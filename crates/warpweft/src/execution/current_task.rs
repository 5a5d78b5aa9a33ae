//! Which task runs on a stack: for reports, and for the owners of locks.

use super::stack_context::{StackContext, here};
use warpweft_task::Latch;
use warpweft_task::frame::{self, Frame, FrameKind, Who};

/// Says what runs on a thread without a worker, until it is dropped.
struct Here(Who);

impl Drop for Here {
    fn drop(&mut self) {
        frame::set_here(self.0);
    }
}

impl StackContext {
    /// Calls `f`, which may block, while a report sees that `who` does so.
    pub(crate) fn block_as<R>(&self, who: Who, f: impl FnOnce() -> R) -> R {
        let _before = Here(frame::set_here(who));
        let frame = Frame::new(0, who, FrameKind::Blocking);
        frame.during(self.fibers().pool().core().threads.frames(), f)
    }

    /// Returns the words of the task that runs on this stack.
    #[inline]
    pub(crate) fn who(&self) -> Who {
        match (self.fiber(), self.worker_ref()) {
            (Some(fiber), _) => fiber.who(),
            (None, Some(worker_ref)) => worker_ref.running.get(),
            (None, None) => self.fibers().left(),
        }
    }

    /// Notes that `who` continues here, after a wait, and perhaps with another worker.
    pub(crate) fn continue_as(&self, who: Who) {
        match self.worker_ref() {
            Some(worker_ref) => worker_ref.running.set(who.id, who.origin),
            None => self.fibers().set_left(who),
        }
    }
}

/// Returns the words of the task that runs on the calling stack, or of the thread.
#[inline]
pub(crate) fn current_task() -> Who {
    here().map_or_else(frame::here, StackContext::who)
}

/// Calls `f`, which runs a part of a fork or of a scope that waits for `latch`. Reports say so, and so do the
/// owners of locks.
pub(crate) fn as_part_of<R>(latch: &Latch, f: impl FnOnce() -> R) -> R {
    let part = Who {
        id: std::ptr::from_ref(latch).addr(),
        origin: std::ptr::null(),
    };
    let before = here().map(|context| {
        let before = context.who();
        context.continue_as(part);
        before
    });
    let result = f();
    if let (Some(context), Some(before)) = (here(), before) {
        context.continue_as(before);
    }
    result
}
