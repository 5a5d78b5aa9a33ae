//! Cancellation: what a token reaches and how soon, and that nothing of it starts, leaks or returns a wrong
//! value afterwards.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/in_time.rs"]
mod in_time;

#[cfg(feature = "macros")]
mod cooperative;
mod deadlines;
mod destructors;
mod fibers;
mod forks;
mod storm;
mod streams;
mod tasks;
mod waits;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use warpweft::Runtime;

use in_time::in_time;

/// Longer than any test takes.
const HOUR: Duration = Duration::from_secs(3600);
/// A grace after which a test fails that should not wait for its end.
const LONG_GRACE: Duration = Duration::from_secs(30);

fn runtime(workers: usize) -> Runtime {
    Runtime::builder()
        .workers(workers)
        // A compensating worker would run what is meant to wait in a queue.
        .stuck_after(None)
        .build()
        .expect("threads")
}

/// Measures rounds until at least half of the last twenty took less than the limit. So a single short one,
/// which may be luck, is not enough. On a machine with much else to do most are long: after half a minute one
/// short round of them all is enough.
///
/// # Panics
///
/// If no round was short in that time: the message has the last ones.
fn half_take_less(limit: Duration, mut round: impl FnMut() -> Duration) {
    const ROUNDS: usize = 20;
    let start = Instant::now();
    let mut last = VecDeque::new();
    let mut best = Duration::MAX;
    while last.len() < ROUNDS || start.elapsed() < Duration::from_secs(30) {
        last.push_back(round());
        if last.len() > ROUNDS {
            last.pop_front();
        }
        best = best.min(last[last.len() - 1]);
        let short = last.iter().filter(|took| **took < limit).count();
        if last.len() == ROUNDS && short >= ROUNDS / 2 {
            return;
        }
    }
    assert!(best < limit, "{best:?} at best, at last {last:?}");
}

/// Waits until `is` says so. A test that waits in vain fails.
fn until(is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never comes");
        std::thread::yield_now();
    }
}

/// Counts the values that were made and are not dropped.
#[derive(Clone, Default)]
struct Alive(Arc<AtomicUsize>);

struct Counted(Arc<AtomicUsize>);

impl Alive {
    fn hold(&self) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(&self.0))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
