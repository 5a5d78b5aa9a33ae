//! Elements that detect whether they were dropped exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Makes numbered boxes and counts the drops of each.
#[derive(Clone)]
pub struct Drops(Arc<[AtomicUsize]>);

/// An element: `Box<Counted>` is a word.
pub struct Counted {
    pub id: usize,
    drops: Drops,
}

impl Drops {
    /// A counter for the elements `0..count`.
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| AtomicUsize::new(0)).collect())
    }

    /// The element `id`; to be made once.
    pub fn make(&self, id: usize) -> Box<Counted> {
        Box::new(Counted {
            id,
            drops: self.clone(),
        })
    }

    /// Panics unless each of the elements was dropped exactly once.
    pub fn assert_each_once(&self) {
        for (id, count) in self.0.iter().enumerate() {
            assert_eq!(count.load(Ordering::SeqCst), 1, "drops of element {id}");
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.drops.0[self.id].fetch_add(1, Ordering::SeqCst);
    }
}
