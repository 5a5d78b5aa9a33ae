//! What the flight recorder asks about the fibers of a thread.

use super::ThreadFibers;
use crate::execution::fiber::Fiber;
use crate::observe::recorder::event::StepEnd;
use crate::observe::recorder::sites::TaskSite;
use crate::observe::recorder::worker::FiberTurn;
use std::ptr;

/// The number of ready fibers among which wakes are looked for.
const LOOKED_AT: usize = 64;

/// The last fiber of a thread's line at some moment. It is only compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineEnd(*const Fiber);

impl ThreadFibers {
    /// Returns the fiber that took the last turn; `None` if its stack is gone.
    fn last(&self) -> Option<&Fiber> {
        // SAFETY: null, or a fiber of this thread: what clears one away at its end also clears `on`, and
        // the warm ones are there as long as the thread's fibers.
        unsafe { self.on.get().as_ref() }
    }

    /// Returns the task of the last turn, where it was spawned, and how the turn ended. The task is 0 if
    /// the stack is gone.
    pub(crate) fn last_turn(&self) -> FiberTurn {
        let site = self.last().map(|fiber| fiber.label().site());
        let (name, spawned_at) = site.unwrap_or_default();
        FiberTurn {
            task: self.last_task(),
            site: spawned_at.map(|spawned_at| TaskSite { name, spawned_at }),
            end: self.last().map_or(StepEnd::Ended, |fiber| fiber.probe.turn_end()),
        }
    }

    /// Returns true if no fiber took a turn, or the stack of the last one is gone.
    #[inline]
    pub(crate) fn has_no_last(&self) -> bool {
        self.on.get().is_null()
    }

    /// Returns how the step of that task ended, which has left its worker: as the last turn, if that was its
    /// first one as a fiber.
    // Not inlined: most steps are of no fiber.
    #[cold]
    #[inline(never)]
    pub(crate) fn first_turn_end(&self, task: usize) -> StepEnd {
        self.last()
            .filter(|fiber| fiber.who().id == task)
            .map_or(StepEnd::Ended, |fiber| fiber.probe.turn_end())
    }

    /// Returns the end of the line, for [`woken_since`](Self::woken_since).
    #[inline]
    pub(crate) fn line_end(&self) -> LineEnd {
        LineEnd(self.last.get())
    }

    /// Returns the task of the last turn; 0 if its stack is gone.
    pub(crate) fn last_task(&self) -> usize {
        self.last().map_or(0, |fiber| fiber.who().id)
    }

    /// Calls `see` with the task of each fiber that was put into the line since `before`, by a wake. A fiber
    /// of the task `of`, whose step it was, put itself there: it yielded. Looks at the first 64 fibers only;
    /// if more are ready, it finds none.
    pub(crate) fn woken_since(&self, before: LineEnd, of: usize, mut see: impl FnMut(usize)) {
        let own = self.last().filter(|fiber| fiber.who().id == of);
        let is_own = |fiber: *const Fiber| own.is_some_and(|own| ptr::eq(own, fiber));
        // It has left the line for its turn, and so did all before it.
        let before = if is_own(before.0) { ptr::null() } else { before.0 };
        if ptr::eq(self.last.get(), before) {
            return;
        }
        let mut woken = [0; LOOKED_AT];
        let (mut count, mut next) = (0, self.first.get());
        // SAFETY: null, or a fiber in the line, which is there until it has continued.
        while let Some(fiber) = unsafe { next.as_ref() } {
            if count == LOOKED_AT {
                return;
            }
            if ptr::eq(next, before) {
                // This one and those before it were there.
                count = 0;
            } else if !is_own(next) {
                woken[count] = fiber.who().id;
                count += 1;
            }
            next = fiber.behind().get();
        }
        woken[..count].iter().for_each(|&task| see(task));
    }
}
