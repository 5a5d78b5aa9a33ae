//! What the flight recorder asks about the fibers of a thread.

use super::ThreadFibers;
use crate::execution::fiber::Fiber;
use crate::observe::recorder::event::StepEnd;
use crate::observe::recorder::sites::TaskSite;
use crate::observe::recorder::worker::BesideTasks;

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
    pub(crate) fn last_turn(&self) -> BesideTasks {
        let site = self.last().map(|fiber| fiber.label().site());
        let (name, spawned_at) = site.unwrap_or_default();
        BesideTasks {
            address: self.last().map_or(0, |fiber| fiber.who().id),
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

    /// Calls `see` with the task of each fiber that was put into the line since `before`, by a wake. Looks
    /// at the first 64 fibers only; if more are ready, it finds none.
    pub(crate) fn woken_since(&self, before: LineEnd, mut see: impl FnMut(usize)) {
        if self.line_end() == before {
            return;
        }
        let mut woken = [0; LOOKED_AT];
        let (mut count, mut next) = (0, self.first.get());
        // SAFETY: null, or a fiber in the line, which is there until it has continued.
        while let Some(fiber) = unsafe { next.as_ref() } {
            if count == LOOKED_AT {
                return;
            }
            if std::ptr::eq(next, before.0) && !std::ptr::eq(next, self.on.get()) {
                // This one and those before it were there.
                count = 0;
            } else if !std::ptr::eq(next, self.on.get()) {
                woken[count] = fiber.who().id;
                count += 1;
            }
            next = fiber.behind().get();
        }
        woken[..count].iter().for_each(|&task| see(task));
    }
}
