//! Which task runs on a stack: for reports, and for the owners of locks.

use super::covered::Covered;
use super::stack_context::{StackContext, here};
use std::cell::Cell;
use warpweft_task::Latch;
use warpweft_task::frame::{self, Frame, FrameKind, Who};
use warpweft_task::registry::Registry;

/// Says what runs on a thread without a worker, until it is dropped.
struct Here(Who);

impl Drop for Here {
    fn drop(&mut self) {
        frame::set_here(self.0);
    }
}

/// Sets which covered frames are visible to what it was before, when it is dropped.
struct RestoreVisible<'a>(&'a Cell<*const Covered>, *const Covered);

impl Drop for RestoreVisible<'_> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Calls `f`, during which a report sees the covered frames from the `first` to the one before `visible`,
/// which a wait below on the same stack has shown already.
fn show(first: *const Covered, visible: *const Covered, register: &Registry<Frame>, f: &mut dyn FnMut()) {
    if first == visible {
        return f();
    }
    // SAFETY: null, or on this stack in a function that resets the pointer before it returns.
    let Some(covered) = (unsafe { first.as_ref() }) else {
        return f();
    };
    let frame = Frame::new(covered.latch, covered.who, FrameKind::Joins);
    frame.during(register, || show(covered.before, visible, register, f));
}

impl StackContext {
    /// Calls `f`, which may block, while a report sees that `who` does so.
    pub(crate) fn block_as<R>(&self, who: Who, f: impl FnOnce() -> R) -> R {
        let _before = Here(frame::set_here(who));
        let frame = Frame::new(0, who, FrameKind::Blocking);
        self.visibly(&frame, f)
    }

    /// Calls `f`, during which a report sees the frame, and those that it covers.
    pub(super) fn visibly<R>(&self, frame: &Frame, f: impl FnOnce() -> R) -> R {
        let register = self.fibers().pool().core().threads.frames();
        let (covered, visible) = (self.covered.get(), self.visible.get());
        if covered == visible {
            return frame.during(register, f);
        }
        let (mut f, mut result) = (Some(f), None);
        self.visible.set(covered);
        let _seen = RestoreVisible(&self.visible, visible);
        show(covered, visible, register, &mut || {
            result = f.take().map(|f| frame.during(register, f));
        });
        result.unwrap_or_else(|| unreachable!("it was called once"))
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

    /// Returns false if what runs on this stack is a task without a place in the thread's pool. A part of a
    /// fork or of a scope may belong to a task that has one.
    #[cold]
    pub(crate) fn may_have_place(&self) -> bool {
        let who = self.who();
        who.origin.is_null() || self.fibers().pool().core().owned_tasks.has_place(who.id)
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
/// owners of locks. `f` does not unwind.
pub(crate) fn as_part_of<R>(latch: &Latch, f: impl FnOnce() -> R) -> R {
    let part = Who {
        id: std::ptr::from_ref(latch).addr(),
        origin: std::ptr::null(),
    };
    let covered = here().map(|context| Covered {
        who: context.who(),
        latch: part.id,
        before: context.covered.get(),
    });
    if let (Some(context), Some(covered)) = (here(), &covered) {
        context.continue_as(part);
        // A fiber is seen anyway, and below a thief there may be no task.
        if context.fiber().is_none() && covered.who.id != 0 {
            context.covered.set(covered);
        }
    }
    let result = f();
    if let (Some(context), Some(covered)) = (here(), covered) {
        context.continue_as(covered.who);
        context.covered.set(covered.before);
    }
    result
}
