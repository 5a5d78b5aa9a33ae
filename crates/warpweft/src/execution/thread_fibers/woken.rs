//! The fibers of a thread that other threads have woken, and those that its own code wakes by a key.
//!
//! ```text
//!   mailbox ──all, when the last ones have been taken──▶ woken ──one──▶ runs
//!                                                        line  ──one──▶ runs      they alternate
//! ```

use super::ThreadFibers;
use crate::execution::fiber::Fiber;
use crate::execution::fiber_waker::FiberWaker;
use crate::threads::mailbox::{FiberKey, MailboxEntry};
use std::ptr::{self, NonNull};

impl ThreadFibers {
    /// Returns true if some fiber may be here or in the mailbox, and the last turn was none of those.
    #[inline]
    pub(super) fn has_woken(&self) -> bool {
        let may_be = self.mailbox.has_entries() || !self.first_woken.get().is_null();
        may_be && !self.woken_was_first.replace(false)
    }

    /// Takes the next one, whose turn is before that of the line.
    #[cold]
    #[inline(never)]
    pub(super) fn next_woken(&self) -> Option<NonNull<Fiber>> {
        let woken = self.take_woken();
        self.woken_was_first.set(woken.is_some());
        woken
    }

    pub(super) fn take_woken(&self) -> Option<NonNull<Fiber>> {
        if self.first_woken.get().is_null() {
            self.open_mailbox();
        }
        let first = NonNull::new(self.first_woken.get().cast_mut())?;
        // SAFETY: it waits to continue, so it is there.
        self.first_woken.set(unsafe { first.as_ref() }.behind().get());
        Some(first)
    }

    fn push_woken(&self, fiber: &Fiber) {
        let this: *const Fiber = fiber;
        fiber.get_ready();
        fiber.behind().set(ptr::null());
        if self.first_woken.get().is_null() {
            self.first_woken.set(this);
        } else {
            // SAFETY: the first one waits to continue, and so does the last one.
            unsafe { &*self.last_woken.get() }.behind().set(this);
        }
        self.last_woken.set(this);
    }

    /// Takes all fibers out of the mailbox, the one that was woken first at first.
    fn open_mailbox(&self) {
        for entry in self.mailbox.take_all() {
            let fiber = match entry {
                MailboxEntry::Key(key) => self.waits(key),
                // SAFETY: the mailbox handed it out just now.
                MailboxEntry::Notified(link) => unsafe { FiberWaker::take(link) }.answer(),
            };
            // A wake-up that came too late finds no fiber.
            if let Some(fiber) = fiber {
                // SAFETY: it waits or listens, so it is there. Only wakers of this thread's fibers are in its
                // mailbox.
                self.push_woken(unsafe { fiber.as_ref() });
            }
        }
    }

    /// Wakes the fiber with that key. The caller is the fiber's own thread, which carries a worker.
    pub(crate) fn wake(&self, key: FiberKey) {
        // A wake-up that came too late finds no fiber.
        if let Some(fiber) = self.waits(key) {
            // SAFETY: it is in the table, so it is there.
            self.let_in(unsafe { fiber.as_ref() });
        }
    }

    fn waits(&self, key: FiberKey) -> Option<NonNull<Fiber>> {
        let found = self.table.borrow().get(key.slot as usize).copied().flatten();
        // SAFETY: it is in the table, so it is there.
        found.filter(|fiber| unsafe { fiber.as_ref() }.waits_in(key.turn))
    }

    /// Closes the mailbox in a forked child, where no thread empties it any more. What is in it is lost.
    pub(crate) fn lose_mailbox(&self) {
        self.mailbox.carry(None);
        drop(self.mailbox.close());
    }

    /// Closes the mailbox. The thread has no fibers any more.
    pub(super) fn close_mailbox(&self) {
        for entry in self.mailbox.close() {
            if let MailboxEntry::Notified(link) = entry {
                // SAFETY: the mailbox handed it out just now.
                drop(unsafe { FiberWaker::take(link) });
            }
        }
    }
}
