//! Loom models of a worker that sleeps in a poller: a thread that chooses it must wake it there, and it may
//! wake by itself meanwhile. The poller is a parker that any thread may notify, before or during the sleep.
//!
//! Run: `RUSTFLAGS="--cfg warpweft_loom" cargo test -p warpweft-queue --release --test loom_elsewhere`.
#![cfg(warpweft_loom)]

use loom::thread;
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::park::Parker;
use warpweft_platform::sync::Arc;
use warpweft_queue::EventCount;

fn check(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.check(model);
}

struct Pool {
    idle: EventCount,
    poller: Arc<Parker>,
    work: AtomicBool,
}

impl Pool {
    fn new() -> Arc<Self> {
        let poller = Arc::new(Parker::new());
        let idle = EventCount::new(1, 1, Asymmetric::new());
        let waker = Arc::clone(&poller);
        idle.unpark_by(move || waker.unpark());
        Arc::new(Self {
            idle,
            poller,
            work: AtomicBool::new(false),
        })
    }

    fn push(&self) {
        self.work.store(true, Ordering::Release);
        self.idle.notify_one();
    }

    fn take(&self) -> bool {
        self.work.load(Ordering::Relaxed) && self.work.swap(false, Ordering::Acquire)
    }

    /// One task, by the protocol.
    fn next(&self) {
        let mut searching = false;
        loop {
            let mut found = searching && self.take();
            if !found {
                self.idle.prepare(0, searching);
                found = self.take();
                if found {
                    self.idle.cancel(0);
                } else {
                    self.idle.park_elsewhere(0, || self.poller.park());
                }
                searching = true;
            }
            if found {
                if self.idle.found() {
                    self.idle.notify_one();
                }
                return;
            }
        }
    }
}

#[test]
fn a_push_against_a_sleep_elsewhere() {
    check(None, || {
        let pool = Pool::new();
        let worker = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.next()
        });
        pool.push();
        worker.join().unwrap();
        assert_eq!(pool.idle.snapshot(), (0, 0), "a count did not return to zero");
    });
}

#[test]
fn a_push_against_a_sleeper_that_wakes_by_itself() {
    check(Some(3), || {
        let pool = Pool::new();
        let worker = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.next()
        });
        // An event, which ends the sleep for its own reason.
        let event = thread::spawn({
            let poller = Arc::clone(&pool.poller);
            move || poller.unpark()
        });
        pool.push();
        worker.join().unwrap();
        event.join().unwrap();
        assert_eq!(pool.idle.snapshot(), (0, 0), "a count did not return to zero");
    });
}
