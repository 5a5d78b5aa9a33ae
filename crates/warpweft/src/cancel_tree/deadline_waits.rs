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
    wakers: Mutex<NodeWakers>,
}

/// The wakers' places in the node, and the addresses of their data. Most tokens have one waiter at a time,
/// which costs no allocation.
#[derive(Debug, Default)]
struct NodeWakers {
    first: Option<(usize, usize)>,
    others: BTreeMap<usize, usize>,
}

impl NodeWakers {
    fn addresses(&self) -> impl Iterator<Item = usize> {
        let first = self.first.iter().map(|&(_, waker)| waker);
        first.chain(self.others.values().copied())
    }

    fn insert(&mut self, place: usize, waker: usize) {
        let is_first = self
            .first
            .map_or(self.others.is_empty(), |(first, _)| first == place);
        if is_first {
            self.first = Some((place, waker));
        } else {
            self.others.insert(place, waker);
        }
    }

    fn remove(&mut self, place: usize) {
        if self.first.is_some_and(|(first, _)| first == place) {
            self.first = None;
        } else {
            self.others.remove(&place);
        }
    }
}

impl Watched for Waits {
    fn look(&self, see: &mut dyn FnMut(RawWait)) {
        // In a forked child the lock may be lost.
        let Some(wakers) = self.wakers.lock_unless_lost() else {
            return;
        };
        for waiter in wakers.addresses() {
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
            wakers.remove(place);
        }
    }
}

/// Returns by what reports know the task of a waker.
pub(super) fn task_of(waker: &Waker) -> usize {
    waker.data().addr()
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::NodeWakers;
    use std::collections::BTreeMap;

    #[test]
    fn each_place_has_its_latest_waker() {
        let (mut wakers, mut model) = (NodeWakers::default(), BTreeMap::new());
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for number in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let place = (random >> 33) as usize % 5;
            if random >> 62 == 0 {
                wakers.remove(place);
                model.remove(&place);
            } else {
                wakers.insert(place, number);
                model.insert(place, number);
            }
            let mut found: Vec<_> = wakers.addresses().collect();
            found.sort_unstable();
            let mut expected: Vec<_> = model.values().copied().collect();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }
}
