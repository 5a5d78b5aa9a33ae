//! Fibers that are spawned on their thread, under every schedule that a seed can make: each starts, or ends
//! with its pool.
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;
use std::sync::Arc;
use support::{Gate, check, runtime};
use warpweft::{JoinError, block_on, fiber};

#[test]
fn a_local_fiber_starts_while_its_thread_is_blocked() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let (waits, opens) = (gate.clone(), gate);
        let spawner = runtime.spawn_fiber(move || {
            let job = warpweft::spawn_job(move || block_on(waits));
            fiber::spawn_here(move || {
                fiber::yield_now();
                opens.open();
            })
            .detach();
            job
        });
        spawner.wait().expect("no panic").wait().expect("no panic");
    });
}

struct Counts(Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Some fibers start and wait, and some have not started yet.
#[test]
fn a_pool_closes_over_fibers_that_have_not_started() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&dropped);
        let spawner = runtime.spawn_fiber(move || {
            let gate = Gate::default();
            let waits = |_| {
                let (gate, counts) = (gate.clone(), Counts(Arc::clone(&counted)));
                move || {
                    let _counts = counts;
                    fiber::yield_now();
                    block_on(gate);
                }
            };
            let handles: Vec<_> = (0..2)
                .map(waits)
                .map(fiber::spawn_here)
                .chain((0..2).map(waits).map(fiber::spawn))
                .collect();
            fiber::yield_now();
            handles
        });
        let runtime = Arc::new(runtime);
        let closing = Arc::clone(&runtime);
        let end = thread::spawn(move || closing.shutdown());
        if let Ok(handles) = spawner.wait() {
            for handle in handles {
                assert!(matches!(handle.wait(), Err(JoinError::Shutdown)));
            }
            end.join().expect("no panic");
            assert_eq!(dropped.load(Ordering::Relaxed), 4);
        } else {
            end.join().expect("no panic");
        }
        assert_eq!(runtime.fibers().live, 0);
    });
}
