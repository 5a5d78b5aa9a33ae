//! A pool's end against external threads, under loom: every interleaving and every weak-memory outcome.
#![cfg(warpweft_loom)]

#[allow(dead_code, reason = "the pool asks more of it than these models")]
#[path = "../src/pool/lifecycle.rs"]
mod lifecycle;

use lifecycle::Lifecycle;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use warpweft_platform::cell::UnsafeCell;

/// The data that the last worker drops: loom reports an access that races with that.
struct Policy(UnsafeCell<bool>);

// SAFETY: that accesses do not race is what the models show.
unsafe impl Sync for Policy {}
// SAFETY: a plain value.
unsafe impl Send for Policy {}

impl Policy {
    fn push(&self) {
        let alive = self.0.with(|alive| {
            // SAFETY: loom checks that no thread writes meanwhile.
            unsafe { *alive }
        });
        assert!(alive, "a external thread met a policy that was dropped");
    }

    fn drop(&self) {
        self.0.with_mut(|alive| {
            // SAFETY: loom checks that no other thread accesses it.
            unsafe { *alive = false };
        });
    }
}

/// Runs one external thread per entry of `externals`, which enters that many times, against the end of the
/// pool.
fn end_against(externals: &'static [usize]) {
    let mut model = loom::model::Builder::new();
    // Three preemptions; the models end within seconds.
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let pool = Arc::new((
            Lifecycle::new(1),
            Policy(UnsafeCell::new(true)),
            AtomicUsize::new(0),
        ));
        let externals: Vec<_> = externals
            .iter()
            .map(|&accesses| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || {
                    for _ in 0..accesses {
                        let access = pool.0.access();
                        if access.is_open() {
                            pool.1.push();
                        } else {
                            pool.2.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        assert!(pool.0.close());
        assert!(!pool.0.close(), "only one caller begins the end");
        assert!(pool.0.leave(1), "the last worker");
        pool.0.wait_for_accesses();
        pool.1.drop();
        externals
            .into_iter()
            .for_each(|external| external.join().expect("no panic"));
        assert!(!pool.0.access().is_open());
    });
}

#[test]
fn the_policy_is_dropped_after_external_threads_left() {
    end_against(&[2]);
}

#[test]
fn two_external_threads_and_the_end() {
    end_against(&[1, 1]);
}

#[test]
fn one_of_two_workers_is_the_last() {
    loom::model(|| {
        let lifecycle = Arc::new(Lifecycle::new(2));
        let other = {
            let lifecycle = Arc::clone(&lifecycle);
            thread::spawn(move || lifecycle.leave(1))
        };
        let me = lifecycle.leave(1);
        assert!(me ^ other.join().expect("no panic"));
    });
}

/// A compensating worker enters while the only worker leaves: either it comes too late, or the worker was not
/// the last.
#[test]
fn a_compensating_enters_while_the_last_worker_leaves() {
    loom::model(|| {
        let lifecycle = Arc::new(Lifecycle::new(1));
        let entering = Arc::clone(&lifecycle);
        let compensating = thread::spawn(move || entering.enter() && entering.leave(1));
        let last = lifecycle.leave(1);
        let last_too = compensating.join().expect("no panic");
        assert!(last != last_too, "exactly one is the last");
        assert!(!lifecycle.enter(), "nobody enters what has ended");
    });
}
