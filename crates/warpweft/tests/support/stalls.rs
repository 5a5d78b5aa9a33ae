//! Runtimes that report stuck workers, and what keeps a worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::{Builder, Runtime, Stall};

/// How long a report may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(100);

pub(crate) type Stalls = Arc<Mutex<Vec<Stall>>>;

/// A runtime with a worker, and what it reports.
pub(crate) fn watched(builder: Builder, stuck_after: Duration) -> (Runtime, Stalls) {
    let stalls = Stalls::default();
    let heard = Arc::clone(&stalls);
    let runtime = builder
        .workers(1)
        .stuck_after(Some(stuck_after))
        .on_stall(move |stall| heard.lock().expect("no panic").push(stall.clone()))
        .build()
        .expect("threads");
    (runtime, stalls)
}

/// Waits for a report that fits.
pub(crate) fn report(stalls: &Stalls, fits: impl Fn(&Stall) -> bool) -> Stall {
    let start = Instant::now();
    loop {
        let all = stalls.lock().expect("no panic").clone();
        if let Some(stall) = all.iter().find(|stall| fits(stall)) {
            return stall.clone();
        }
        assert!(start.elapsed() < PATIENCE, "no such report: {all:#?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Sets the flag when it is dropped, so that what spins ends also if the test fails.
pub(crate) struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(crate) fn flag() -> (Arc<AtomicBool>, Over) {
    let flag = Arc::new(AtomicBool::new(false));
    (Arc::clone(&flag), Over(flag))
}
