//! The end of a thread's fibers, when the pool closes.

use super::ThreadFibers;
use crate::coroutine::Input;
use crate::execution::stack_context::StackContext;
use warpweft_platform::process::end_child_if;
use warpweft_task::Abandon;

impl ThreadFibers {
    /// Removes the fibers from the line that are about to be unwound.
    fn clear_line(&self) {
        let line: Vec<_> = std::iter::from_fn(|| self.take_first().or_else(|| self.take_woken())).collect();
        for fiber in line {
            // SAFETY: it was in the line, and has not continued.
            let fiber = unsafe { fiber.as_ref() };
            if !fiber.may_be_unwound() {
                self.line_up(fiber);
            }
        }
    }

    /// Unwinds all fibers. The pool closes, and this thread has no worker. A fiber on which other threads
    /// work waits for them first.
    pub(crate) fn unwind_all(&self, base: &StackContext) {
        while !self.unwind_ready(base) {
            self.thread_handle.wait_for_ready();
        }
    }

    /// Unwinds the fibers on which no other thread works, without waiting. Returns true if none is left.
    pub(crate) fn unwind_ready(&self, base: &StackContext) -> bool {
        // A thread without a worker adopts none, so there will be no others.
        while let Some(task) = self.local_spawns.take() {
            self.count_live(-1);
            task.abandon(Abandon::Shutdown);
            end_child_if(self.pool.is_in_forked_child());
        }
        while self.thread_handle.fibers() > 0 {
            let waiting: Vec<_> = self.table.borrow().iter().copied().flatten().collect();
            let mut went_on = false;
            self.clear_line();
            for fiber in waiting {
                // SAFETY: it was in the table. Fibers that end meanwhile are warm, or were resumed below,
                // alone.
                let it = unsafe { fiber.as_ref() };
                if it.may_be_unwound() {
                    it.begin_unwinding();
                    self.go(base, fiber, Input::Unwind);
                    end_child_if(self.pool.is_in_forked_child());
                    went_on = true;
                }
            }
            while self.resume_one(base) {
                end_child_if(self.pool.is_in_forked_child());
                went_on = true;
            }
            if !went_on {
                return false;
            }
        }
        // It takes what the mailbox has: a wake of a fiber that has ended. Otherwise the thread would ask for
        // a worker again and again.
        while self.resume_one(base) {
            end_child_if(self.pool.is_in_forked_child());
        }
        true
    }
}
