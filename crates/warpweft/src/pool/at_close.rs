//! What a closing pool closes for waits that only its workers could end.
//!
//! # Invariants
//!
//! - What is entered is closed once: by the pool, or at once if the pool has closed.
//! - Nothing foreign is called under the lock.

use std::fmt;
use std::sync::Arc;
use warpweft_platform::panics::contain;
use warpweft_platform::sync::Mutex;

/// Something that waits are refused by, once it is closed.
pub(crate) trait ClosesWithPool: Send + Sync {
    fn close_with_pool(&self);
}

/// What is entered; `None` once the pool has closed.
pub(crate) struct AtClose(Mutex<Option<Vec<Arc<dyn ClosesWithPool>>>>);

/// An entry, until it is dropped.
pub(crate) struct CloseEntry<'a> {
    all: &'a AtClose,
    what: Arc<dyn ClosesWithPool>,
}

impl AtClose {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }

    /// Enters what is to be closed with the pool.
    pub(crate) fn enter(&self, what: Arc<dyn ClosesWithPool>) -> CloseEntry<'_> {
        let is_open = match &mut *self.0.lock() {
            Some(entries) => {
                entries.push(Arc::clone(&what));
                true
            }
            None => false,
        };
        if !is_open {
            what.close_with_pool();
        }
        CloseEntry { all: self, what }
    }

    /// The pool closes.
    pub(super) fn close(&self) {
        // In a forked child the lock may be lost, and no wait of the parent is here.
        let entries = self.0.lock_unless_lost().and_then(|mut entries| entries.take());
        for what in entries.into_iter().flatten() {
            // A waker is foreign code; the pool continues to close.
            contain(|| what.close_with_pool());
        }
    }
}

impl Drop for CloseEntry<'_> {
    fn drop(&mut self) {
        if let Some(mut entries) = self.all.0.lock_unless_lost()
            && let Some(entries) = &mut *entries
            && let Some(place) = entries.iter().position(|entry| Arc::ptr_eq(entry, &self.what))
        {
            entries.swap_remove(place);
        }
    }
}

impl fmt::Debug for AtClose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtClose").finish_non_exhaustive()
    }
}
