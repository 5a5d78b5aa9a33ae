//! What a pool is called, what it promises, and its places if it is bounded.
//!
//! # Places
//!
//! A bounded pool has so many places. A task that came from elsewhere has one until it goes elsewhere or
//! ends: it is in the pool's register from the moment in which it is admitted, and whoever strikes it off
//! gives the place back.
//!
//! Who has a place in one bounded pool may wait for a place in another only if that comes later in the same
//! runtime: so there is no circle of tasks that wait for each other's places.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct PoolInfo {
    pub(crate) name: String,
    /// Its policy, as text.
    pub(crate) policy: String,
    pub(crate) priorities: u8,
    /// How many workers were asked for.
    pub(crate) workers: usize,
    /// How many there may be with the compensating workers.
    pub(crate) slots: usize,
    pub(crate) order: Order,
    pub(crate) places: Option<Box<dyn Places>>,
}

/// Which pool of which runtime.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) runtime: Arc<()>,
    pub(crate) index: usize,
}

/// The places of a bounded pool: a task from elsewhere has one while it is there.
pub(crate) trait Places: Any + fmt::Debug + Send + Sync {
    /// A task gives its place up.
    fn give_back(&self);
    /// The pool closes: those who wait for places hear of it.
    fn close(&self);
}

impl PoolInfo {
    /// Whether a task that has a place here may wait for one there.
    pub(crate) fn may_wait_for(&self, there: &Self) -> bool {
        self.places.is_none()
            || Arc::ptr_eq(&self.order.runtime, &there.order.runtime) && self.order.index < there.order.index
    }

    /// A task that had a place gives it up.
    pub(crate) fn give_back(&self) {
        if let Some(places) = &self.places {
            // Unwind: those who wait may have wakers of anybody's, and the caller ends a task or moves it.
            let _ = catch_unwind(AssertUnwindSafe(|| places.give_back()));
        }
    }

    /// The pool closes: those who wait for places hear of it.
    pub(crate) fn close(&self) {
        if let Some(places) = &self.places {
            // Unwind: as above; the pool goes on closing.
            let _ = catch_unwind(AssertUnwindSafe(|| places.close()));
        }
    }
}
