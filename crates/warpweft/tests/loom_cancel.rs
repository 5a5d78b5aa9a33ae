//! Cancelling a node of the tree against children, wakers and deadlines that come and go, under loom.
#![cfg(warpweft_loom)]

#[allow(dead_code, unused_imports, reason = "the models need a part of it")]
#[path = "../src/cancel_tree/mod.rs"]
mod cancel_tree;

/// What reports need of a node, which they are not asked for here.
#[allow(dead_code, reason = "the models make no reports")]
mod observe {
    pub(crate) mod listed {
        use super::raw::Watched;

        #[derive(Debug, Default)]
        pub(crate) struct Listed(());

        impl Listed {
            #[allow(clippy::unused_self, reason = "as the one that enters it")]
            pub(crate) unsafe fn register(&self, _: &(dyn Watched + '_)) {}
        }
    }

    pub(crate) mod raw {
        pub(crate) struct RawWait {
            pub(crate) waiter: usize,
            pub(crate) task: usize,
            pub(crate) object: usize,
            pub(crate) since_ns: Option<u64>,
            pub(crate) told: bool,
            pub(crate) what: RawWhat,
        }

        pub(crate) enum RawWhat {
            Deadline { until_ns: u64 },
        }

        pub(crate) trait Watched {
            fn look(&self, see: &mut dyn FnMut(RawWait));
        }
    }
}

use cancel_tree::node::{Limits, Node, Reason};
use std::sync::Arc;
use std::task::{Wake, Waker};
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::{loom, thread};

const NONE: Limits = Limits {
    deadline_ns: u64::MAX,
    grace_ns: 0,
};

struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counts() -> (Arc<Counts>, Waker) {
    let counts = Arc::new(Counts(AtomicUsize::new(0)));
    (Arc::clone(&counts), Waker::from(counts))
}

#[test]
fn a_child_that_is_born_meanwhile_is_cancelled() {
    loom::model(|| {
        let root = Node::root(NONE);
        let other = Arc::clone(&root);
        let birth = thread::spawn(move || {
            let child = Node::child([Some(&other), None], NONE);
            let grandchild = Node::child([Some(&child), None], NONE);
            (child, grandchild)
        });
        root.cancel(Reason::Asked);
        let (child, grandchild) = birth.join().expect("no panic");
        assert!(child.is_cancelled() && grandchild.is_cancelled());
    });
}

#[test]
fn a_waker_that_comes_meanwhile_is_called_or_refused() {
    loom::model(|| {
        let root = Node::root(NONE);
        let (counts, waker) = counts();
        let other = Arc::clone(&root);
        let waits = thread::spawn(move || other.insert_waker(waker).is_some());
        root.cancel(Reason::Asked);
        let entered = waits.join().expect("no panic");
        assert!(root.is_cancelled());
        assert_eq!(counts.0.load(Ordering::Relaxed), usize::from(entered));
        assert_eq!(Arc::strong_count(&counts), 1);
    });
}

#[test]
fn a_waker_that_leaves_meanwhile_is_called_at_most_once() {
    loom::model(|| {
        let root = Node::root(NONE);
        let (counts, waker) = counts();
        let place = root.insert_waker(waker).expect("live");
        let other = Arc::clone(&root);
        let leaves = thread::spawn(move || other.remove_waker(place));
        root.cancel(Reason::Asked);
        leaves.join().expect("no panic");
        assert!(counts.0.load(Ordering::Relaxed) <= 1);
        assert_eq!(Arc::strong_count(&counts), 1);
    });
}

#[test]
fn a_child_that_is_dropped_meanwhile_leaves_nothing() {
    loom::model(|| {
        let root = Node::root(NONE);
        let child = Node::child([Some(&root), None], NONE);
        let drops = thread::spawn(move || drop(child));
        root.cancel(Reason::Asked);
        drops.join().expect("no panic");
        assert_eq!((Arc::strong_count(&root), Arc::weak_count(&root)), (1, 0));
    });
}

#[test]
fn two_parents_that_are_cancelled_at_once_cancel_once() {
    loom::model(|| {
        let parents = [Node::root(NONE), Node::root(NONE)];
        let child = Node::child([Some(&parents[0]), Some(&parents[1])], NONE);
        let (counts, waker) = counts();
        child.insert_waker(waker).expect("live");
        let [first, second] = parents;
        let cancels = thread::spawn(move || first.cancel(Reason::Asked));
        assert!(second.cancel(Reason::Deadline));
        assert!(cancels.join().expect("no panic"));
        assert!(child.is_cancelled());
        assert_eq!(counts.0.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn what_was_done_before_is_seen_by_who_sees_the_flag() {
    loom::model(|| {
        let root = Node::root(NONE);
        let done = Arc::new(AtomicUsize::new(0));
        let (other, before) = (Arc::clone(&root), Arc::clone(&done));
        let cancels = thread::spawn(move || {
            before.store(1, Ordering::Relaxed);
            other.cancel(Reason::Asked);
        });
        if root.is_cancelled() {
            assert_eq!(done.load(Ordering::Relaxed), 1);
        }
        cancels.join().expect("no panic");
    });
}
