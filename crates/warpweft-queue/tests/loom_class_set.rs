//! Every interleaving of pushers and takers that find nothing: no class that has elements is left out of the
//! set.
#![cfg(warpweft_loom)]

mod support;

use loom::sync::Arc;
use loom::thread;
use std::num::NonZeroUsize;
use support::loom::model;
use warpweft_queue::{ClassSet, Locked};

struct Classes {
    queue: Locked<NonZeroUsize>,
    set: ClassSet,
}

impl Classes {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Locked::new(),
            set: ClassSet::new(),
        })
    }

    fn push(&self, n: usize) {
        self.queue.push(NonZeroUsize::new(n).unwrap());
        self.set.insert(0);
    }

    /// A taker that trusts the set. It clears the bit when it finds nothing.
    fn take(&self) -> Option<NonZeroUsize> {
        self.set.first()?;
        let taken = self.queue.pop();
        if taken.is_none() {
            self.set.remove_if(0, || self.queue.is_empty());
        }
        taken
    }

    /// The content of the set once all calls are done.
    fn is_honest(&self) {
        assert!(
            self.queue.is_empty() || self.set.first() == Some(0),
            "an element lies there, and its class is not in the set"
        );
    }
}

#[test]
fn a_push_while_another_clears_is_not_forgotten() {
    model(3, || {
        let classes = Classes::new();
        // The bit is set, and there is nothing.
        classes.set.insert(0);
        let pusher = {
            let classes = Arc::clone(&classes);
            thread::spawn(move || classes.push(1))
        };
        let taken = classes.take();
        pusher.join().unwrap();
        classes.is_honest();
        assert!(taken.is_some() || classes.take().is_some());
    });
}

#[test]
fn two_pushers_and_one_who_clears() {
    model(2, || {
        let classes = Classes::new();
        classes.push(1);
        let pusher = {
            let classes = Arc::clone(&classes);
            thread::spawn(move || classes.push(2))
        };
        let taker = {
            let classes = Arc::clone(&classes);
            thread::spawn(move || [classes.take(), classes.take()].into_iter().flatten().count())
        };
        let here = usize::from(classes.take().is_some());
        pusher.join().unwrap();
        let taken = here + taker.join().unwrap();
        classes.is_honest();
        let left = std::iter::from_fn(|| classes.take()).count();
        assert_eq!(taken + left, 2);
    });
}
