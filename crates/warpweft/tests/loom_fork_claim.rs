//! A joiner and the stealable jobs of its fork, under loom: one claim, one run, and no look at a frame that
//! may be gone.
#![cfg(warpweft_loom)]

#[path = "../src/fork/fork_claim.rs"]
mod fork_claim;
#[allow(
    dead_code,
    reason = "the models have no owner that runs what it told nobody of"
)]
#[path = "../src/fork/stealable.rs"]
mod stealable;

use fork_claim::ForkClaim;
use std::ptr::NonNull;
use std::sync::Arc as Shared;
use stealable::{By, Stealable};
use warpweft_platform::cell::UnsafeCell;
use warpweft_platform::sync::Arc;
use warpweft_platform::{loom, thread};
use warpweft_task::Latch;

/// A fork in its frame. The thread that has it writes to `runs`. When the joiner continues, it alone has the
/// frame again.
#[repr(C)]
struct Frame {
    head: Stealable,
    runs: UnsafeCell<u32>,
    done: Latch,
}

// SAFETY: shared as the claim allows; loom checks that.
unsafe impl Sync for Frame {}
// SAFETY: as above.
unsafe impl Send for Frame {}

impl Frame {
    fn new() -> Self {
        Self {
            head: Stealable { run: Self::run },
            runs: UnsafeCell::new(0),
            done: Latch::new(),
        }
    }

    /// Contract: as for [`Stealable::run`]; the runnable is the head of a frame.
    unsafe fn run(head: NonNull<Stealable>, by: By) {
        assert_eq!(by, By::Taker);
        // SAFETY: by contract.
        let frame = unsafe { head.cast::<Self>().as_ref() };
        frame.count();
        frame.done.set();
    }

    fn count(&self) {
        self.runs.with_mut(|runs| {
            // SAFETY: the thread that has the fork alone has this; loom checks that.
            unsafe { *runs += 1 };
        });
    }

    /// Ends the join: the joiner runs the fork itself, or waits for the thread that has it. Then the frame is
    /// gone.
    fn join(&self, claim: &ForkClaim) {
        if claim.take() {
            self.count();
        } else {
            while !self.done.is_set() {
                thread::yield_now();
            }
        }
        self.runs.with_mut(|runs| {
            // SAFETY: no other thread may touch the frame any more; loom checks that.
            let runs = unsafe { &mut *runs };
            assert_eq!(*runs, 1, "the fork ran once");
            *runs = u32::MAX;
        });
    }
}

fn model(tickets: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(move || {
        // All threads keep it, so that a look at a dead frame is a race and not a crash.
        let frame = Arc::new(Frame::new());
        let claim = Shared::new(ForkClaim::new(NonNull::from(&*frame).cast()));
        let others: Vec<_> = (0..tickets)
            .map(|_| {
                let (claim, frame) = (Shared::clone(&claim), Arc::clone(&frame));
                thread::spawn(move || {
                    if let Some(fork) = claim.steal() {
                        fork.run();
                    }
                    drop(frame);
                })
            })
            .collect();
        frame.join(&claim);
        for other in others {
            other.join().expect("no panic");
        }
    });
}

#[test]
fn a_stealable_and_its_joiner() {
    model(1);
}

#[test]
fn two_claimants_and_the_joiner() {
    model(2);
}
