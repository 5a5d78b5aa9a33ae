//! The permits of a bounded pool.

use crate::observe::raw::POOL;
use crate::pool::info;
use crate::sync::Semaphore;

/// A semaphore with one permit for each task that the pool admits.
#[derive(Debug)]
pub(crate) struct PlacePermits {
    pub(crate) capacity: usize,
    pub(crate) free: Semaphore,
}

impl PlacePermits {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            // There cannot be more tasks than `MAX_PERMITS`.
            free: Semaphore::of_tasks(capacity.min(Semaphore::MAX_PERMITS), POOL),
        }
    }
}

impl info::PlaceLimit for PlacePermits {
    fn give_back(&self) {
        self.free.add(1);
    }

    fn object(&self) -> usize {
        self.free.object()
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn close(&self) {
        self.free.close();
    }
}
