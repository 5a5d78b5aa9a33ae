//! A future that waits for a cancellation, as a report sees it.

use crate::observe::listed::Listed;
use crate::observe::raw::{RawWait, RawWhat, Watched};
use crate::sync::wait_list::behind;
use std::task::Waker;
use warpweft_platform::clock::coarse_ns;
use warpweft_platform::counter::Gauge;

/// The wait of a future for a token, made when it begins.
#[derive(Debug)]
pub(super) struct Listening {
    listed: Listed,
    /// The address of the token's node.
    node: usize,
    since_ns: u64,
    /// The address of the waker's data.
    waiter: Gauge,
    /// What identifies the task that waits, if the waker does not; otherwise 0.
    task: Gauge,
}

impl Listening {
    /// In a box: it does not move.
    pub(super) fn new(node: usize, waker: &Waker) -> Box<Self> {
        let listening = Box::new(Self {
            listed: Listed::default(),
            node,
            since_ns: coarse_ns(),
            waiter: Gauge::new(),
            task: Gauge::new(),
        });
        listening.note(waker);
        // SAFETY: the entry is a part of what it enters, which is in a box.
        unsafe { listening.listed.register(&*listening) };
        listening
    }

    /// Notes who waits.
    pub(super) fn note(&self, waker: &Waker) {
        self.waiter.set(waker.data().addr() as u64);
        self.task.set(behind(waker) as u64);
    }
}

impl Watched for Listening {
    fn look(&self, see: &mut dyn FnMut(RawWait)) {
        see(RawWait {
            waiter: self.waiter.get() as usize,
            task: self.task.get() as usize,
            object: self.node,
            since_ns: Some(self.since_ns),
            told: false,
            what: RawWhat::Cancellation,
        });
    }
}
