//! The order of a thread's ready fibers in pools with priorities: the most urgent one first.
//!
//! The line stays what it is, first in, first out. Before a turn the most urgent of its first fibers is
//! brought to its front; of several the one that has waited longest. So pools without priorities have nothing
//! of this, and threads whose fibers all have one priority pass it by: see `class_mix`.

use super::ThreadFibers;
use crate::execution::fiber::Fiber;
use crate::pool::lending;
use std::ptr;
use warpweft_policy::priority;

/// The number of fibers at the front of the line among which the most urgent one is looked for.
const LOOKED_AT: usize = 64;

impl ThreadFibers {
    /// Notes that a fiber begins; `word` returns its policy word.
    #[inline]
    pub(crate) fn note_class(&self, word: impl FnOnce() -> u64) {
        let is_alone = || self.thread_handle.fibers() == 0 && self.first.get().is_null();
        self.class_mix.note(word, is_alone);
    }

    /// Returns true if the order of the ready fibers matters: they may have different priorities, or one may
    /// have a priority that is lent to it.
    #[inline]
    pub(crate) fn have_classes(&self) -> bool {
        self.class_mix.is_mixed() || lending::lends_above(self.class_mix.least_urgent())
    }

    /// Brings the most urgent of the ready fibers to the front of the line.
    #[inline(never)]
    pub(crate) fn order_by_class(&self) {
        // Those that other threads have woken. Each takes its place in the line.
        while let Some(fiber) = self.take_woken() {
            // SAFETY: it waits to continue, so it is there.
            self.line_up(unsafe { fiber.as_ref() });
        }
        if !self.class_mix.goes_by_age() {
            self.bring_forward();
        }
    }

    fn bring_forward(&self) {
        let levels = self.class_mix.levels();
        let pool = self.pool.header().addr().get();
        // SAFETY: null, or a fiber in the line, which is there until it has continued.
        let Some(first) = (unsafe { self.first.get().as_ref() }) else {
            return;
        };
        // The most urgent one so far, its level, and the fiber in front of it.
        let (mut best, mut level, mut before_best) = (first, first.level(levels, pool), None);
        let mut before = first;
        for _ in 1..LOOKED_AT {
            // SAFETY: as above.
            let Some(fiber) = (unsafe { before.behind().get().as_ref() }).filter(|_| level > 0) else {
                break;
            };
            let its = fiber.level(levels, pool);
            if its < level {
                (best, level, before_best) = (fiber, its, Some(before));
            }
            before = fiber;
        }
        if let Some(before) = before_best {
            before.behind().set(best.behind().get());
            if ptr::eq(self.last.get(), best) {
                self.last.set(before);
            }
            best.behind().set(self.first.get());
            self.first.set(best);
        }
    }
}

impl Fiber {
    /// Returns the level of its priority, or of the one that is lent to it; 0 is the most urgent.
    fn level(&self, levels: usize, pool: usize) -> usize {
        // SAFETY: there is a task only while its closure is on this stack.
        let word = self.task.get().map_or(0, |task| unsafe { task.policy_word() });
        let own = priority::level(word, levels);
        match lending::lends_above(own) {
            true => lending::lent_to(self.who().id, pool).map_or(own, |lent| lent.min(own)),
            false => own,
        }
    }
}
