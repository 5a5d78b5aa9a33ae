//! A closure that waits for a blocking thread, under a token: the cancellation takes it out of the queue.
//! Else its joiner would wait until a thread is free, and closures that block may keep all of them for ever.

use crate::cancel_tree::node::Node;
use crate::pool::dyn_pool::DynPool;
use crate::threads::blocking_threads::AdmissionNumber;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

/// Takes the closure out of the queue when it is woken.
struct Evicts {
    pool: Weak<dyn DynPool>,
    number: AdmissionNumber,
}

impl Wake for Evicts {
    fn wake(self: Arc<Self>) {
        if let Some(pool) = self.pool.upgrade().filter(|pool| !pool.is_in_forked_child()) {
            pool.core().threads.blocking().evict(self.number);
        }
    }
}

/// A place among those that wait for the token. Dropped when the closure begins, or is dropped.
pub(super) struct WhileQueued {
    node: Arc<Node>,
    place: Option<usize>,
}

impl WhileQueued {
    pub(super) fn new(node: &Arc<Node>, pool: &Arc<dyn DynPool>, number: AdmissionNumber) -> Self {
        let pool = Arc::downgrade(pool);
        let waker = Waker::from(Arc::new(Evicts { pool, number }));
        Self {
            node: Arc::clone(node),
            place: node.insert_waker(waker),
        }
    }

    /// Returns true if the token was cancelled before: nobody takes the closure out of the queue.
    pub(super) fn is_over(&self) -> bool {
        self.place.is_none()
    }
}

impl Drop for WhileQueued {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.node.remove_waker(place);
        }
    }
}
