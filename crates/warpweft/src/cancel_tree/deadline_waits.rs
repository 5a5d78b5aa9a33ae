//! The tasks that wait under a token with a deadline, for reports: at that time their waits end.
//!
//! # Invariants
//!
//! - It has its own place on the heap: a node is moved when its drop goes up the tree.

use crate::observe::listed::Listed;
use crate::observe::raw::{RawWait, RawWhat, Watched};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::task::Waker;
use warpweft_platform::sync::Mutex;

/// The waits of a node with a deadline; nothing for another node.
#[derive(Debug, Default)]
pub(super) struct DeadlineWaits(OnceLock<Box<Waits>>);

#[derive(Debug)]
struct Waits {
    // First, so that no report looks at the rest when that is dropped.
    listed: Listed,
    deadline_ns: u64,
    /// The address of the waker's data, by the waker's place in the node.
    wakers: Mutex<BTreeMap<usize, usize>>,
}

impl Watched for Waits {
    fn look(&self, see: &mut dyn FnMut(RawWait)) {
        // In a forked child the lock may be lost.
        let Some(wakers) = self.wakers.lock_unless_lost() else {
            return;
        };
        for &waiter in wakers.values() {
            see(RawWait {
                waiter,
                task: 0,
                object: std::ptr::from_ref(self).addr(),
                since_ns: None,
                told: false,
                what: RawWhat::Deadline {
                    until_ns: self.deadline_ns,
                },
            });
        }
    }
}

impl DeadlineWaits {
    /// Notes the waker in that place, if there is a deadline.
    pub(super) fn note(&self, deadline_ns: u64, place: usize, waker: usize) {
        if deadline_ns == u64::MAX {
            return;
        }
        let waits = self.0.get_or_init(|| {
            Box::new(Waits {
                listed: Listed::default(),
                deadline_ns,
                wakers: Mutex::default(),
            })
        });
        if let Some(mut wakers) = waits.wakers.lock_unless_lost() {
            wakers.insert(place, waker);
        }
        // SAFETY: the entry is a part of the waits, and dropped first. The box does not move.
        unsafe { waits.listed.register(&**waits) };
    }

    /// Notes that the place is free again.
    pub(super) fn forget(&self, place: usize) {
        if let Some(mut wakers) = self.0.get().and_then(|waits| waits.wakers.lock_unless_lost()) {
            wakers.remove(&place);
        }
    }
}

/// Returns by what reports know the task of a waker.
pub(super) fn task_of(waker: &Waker) -> usize {
    waker.data().addr()
}
