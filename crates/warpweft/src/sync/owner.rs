//! The task that has a lock, or that used an object last, for reports.
//!
//! The words are a hint: they are written after the lock was taken, and a report reads them at any time.

use warpweft_platform::atomic::{AtomicPtr, AtomicUsize, Ordering};
use warpweft_task::frame::Who;

#[derive(Debug)]
pub(crate) struct Owner {
    id: AtomicUsize,
    origin: AtomicPtr<()>,
}

impl Default for Owner {
    fn default() -> Self {
        Self {
            id: AtomicUsize::new(0),
            origin: AtomicPtr::new(std::ptr::null_mut()),
        }
    }
}

impl Owner {
    #[inline]
    pub(crate) fn set(&self, who: Who) {
        // Ordering: Relaxed, here and below; a report compares the words, and looks twice.
        self.id.store(who.id, Ordering::Relaxed);
        self.origin.store(who.origin.cast_mut(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn forget(&self) {
        self.id.store(0, Ordering::Relaxed);
    }

    pub(crate) fn set_if_unknown(&self, who: Who) {
        if self.id.load(Ordering::Relaxed) == 0 {
            self.set(who);
        }
    }

    pub(crate) fn get(&self) -> Who {
        Who {
            id: self.id.load(Ordering::Relaxed),
            origin: self.origin.load(Ordering::Relaxed),
        }
    }
}
