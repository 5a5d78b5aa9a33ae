//! The places of a bounded pool.

use crate::pool::info;
use crate::sync::Semaphore;

/// As many permits as the pool has places.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) capacity: usize,
    pub(crate) free: Semaphore,
}

impl Places {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            // More tasks than that there cannot be.
            free: Semaphore::new(capacity.min(Semaphore::MAX_PERMITS)),
        }
    }
}

impl info::Places for Places {
    fn give_back(&self) {
        self.free.add(1);
    }

    fn close(&self) {
        self.free.close();
    }
}
