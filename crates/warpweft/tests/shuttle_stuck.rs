//! Stuck workers and their compensating workers under shuttle: nothing that waits behind a stuck worker is
//! left there, and the pool ends.
#![cfg(warpweft_shuttle)]

mod support {
    pub(crate) mod models;
}

use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;
use std::sync::Arc;
use support::models::{check_fairly, hog, watched};
use warpweft::{spawn_job, yield_now};

/// The only worker waits for a task behind it, without reporting that it waits.
fn the_only_worker_is_stuck(policy: &str) {
    let runtime = watched(1, policy);
    let flag = Arc::new(AtomicBool::new(false));
    let (seen, set) = (Arc::clone(&flag), flag);
    let stuck = runtime.spawn_job(move || {
        let behind = spawn_job(move || set.store(true, Ordering::SeqCst));
        hog(&seen);
        behind
    });
    let behind = stuck.wait().expect("no panic");
    behind.wait().expect("no panic");
    runtime.shutdown();
}

#[test]
fn the_only_worker_is_stuck_first_in_first_out() {
    check_fairly(|| the_only_worker_is_stuck("fifo"));
}

#[test]
fn the_only_worker_is_stuck_last_in_first_out() {
    check_fairly(|| the_only_worker_is_stuck("lifo"));
}

/// The monitor slept because all workers did; then a worker wakes up and is stuck at once.
#[test]
fn a_quiet_pool_is_watched_again() {
    check_fairly(|| {
        let runtime = watched(1, "fifo");
        assert_eq!(runtime.spawn_job(|| 1).wait().expect("no panic"), 1);
        let flag = Arc::new(AtomicBool::new(false));
        let (seen, set) = (Arc::clone(&flag), flag);
        let stuck = runtime.spawn_job(move || hog(&seen));
        let other = runtime.spawn_job(move || set.store(true, Ordering::SeqCst));
        other.wait().expect("no panic");
        stuck.wait().expect("no panic");
    });
}

/// A future continues under the compensating worker, and comes back to the worker; a stream of steps does not
/// keep the compensating worker.
#[test]
fn a_future_goes_to_and_fro() {
    check_fairly(|| {
        let runtime = watched(1, "fifo");
        let flag = Arc::new(AtomicBool::new(false));
        let (seen, set) = (Arc::clone(&flag), flag);
        let stuck = runtime.spawn_job(move || hog(&seen));
        let steps = runtime.spawn(async move {
            yield_now().await;
            set.store(true, Ordering::SeqCst);
            for _ in 0..3 {
                yield_now().await;
            }
        });
        steps.wait().expect("no panic");
        stuck.wait().expect("no panic");
    });
}

#[test]
fn the_pool_closes_while_a_compensating_comes_or_works_or_goes() {
    check_fairly(|| {
        let runtime = Arc::new(watched(1, "fifo"));
        let flag = Arc::new(AtomicBool::new(false));
        let (seen, set) = (Arc::clone(&flag), flag);
        drop(runtime.spawn_job(move || hog(&seen)));
        drop(runtime.spawn(async {
            for _ in 0..3 {
                yield_now().await;
            }
        }));
        let closing = Arc::clone(&runtime);
        let end = thread::spawn(move || closing.shutdown());
        set.store(true, Ordering::SeqCst);
        end.join().expect("no panic");
    });
}
