//! Loom models of workers that rest, because their pool has become smaller, and that continue.
//!
//! What only such a worker can do is done, its own half goes from thread to thread, and no wake-up is lost.
//! A lost wake-up is a deadlock, which loom reports.
//!
//! Run: `RUSTFLAGS="--cfg warpweft_loom" cargo test -p warpweft-queue --release --test loom_rest`.
#![cfg(warpweft_loom)]

use loom::cell::UnsafeCell;
use loom::thread;
use warpweft_platform::atomic::{AtomicBool, AtomicUsize, Ordering};
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::sync::Arc;
use warpweft_queue::EventCount;

/// The worker that rests.
const W: usize = 1;

struct Pool {
    idle: EventCount,
    /// Tasks that are pinned to worker `W`.
    pinned: [AtomicBool; 2],
    /// A task for any worker.
    task: AtomicBool,
    /// How many workers run.
    size: AtomicUsize,
    /// The half of worker `W`: how many pinned tasks it ran.
    local: UnsafeCell<usize>,
}

impl Pool {
    fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            idle: EventCount::new(2, 1, Asymmetric::new()),
            pinned: std::array::from_fn(|_| AtomicBool::new(false)),
            task: AtomicBool::new(false),
            size: AtomicUsize::new(size),
            local: UnsafeCell::new(0),
        })
    }

    /// Carries worker `W`: runs what is pinned to it until it may rest.
    fn carry(&self) {
        loop {
            for task in &self.pinned {
                if task.load(Ordering::Relaxed) && task.swap(false, Ordering::Acquire) {
                    // SAFETY: only the thread that carries the worker is here. Loom checks it.
                    self.local.with_mut(|ran| unsafe { *ran += 1 });
                }
            }
            if self.size.load(Ordering::Relaxed) > W {
                return;
            }
            self.idle.rest(W);
            let pinned = self.pinned.iter().any(|task| task.load(Ordering::Relaxed));
            let rests = self.size.load(Ordering::Relaxed) <= W;
            if rests && !pinned || !self.idle.end_rest(W) {
                return;
            }
        }
    }

    fn pin(&self, task: usize) {
        self.pinned[task].store(true, Ordering::Release);
        if self.idle.end_rest(W) {
            self.carry();
        }
    }

    /// Takes the one task, as worker 0, by the idle protocol.
    fn next(&self) {
        let mut searching = false;
        loop {
            self.idle.prepare(0, searching);
            let found = self.take();
            if found {
                self.idle.cancel(0);
            } else {
                self.idle.park(0);
            }
            searching = true;
            if found || self.take() {
                if self.idle.found() {
                    self.idle.notify_one();
                }
                return;
            }
        }
    }

    fn take(&self) -> bool {
        self.task.load(Ordering::Relaxed) && self.task.swap(false, Ordering::Acquire)
    }
}

/// Explores `model` with at most two preemptions per execution; `LOOM_MAX_PREEMPTIONS` overrides the bound.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(model);
}

/// A task is pinned to a worker that begins to rest: one of the two threads runs it.
#[test]
fn a_pinned_task_against_rest() {
    check(|| {
        let pool = Pool::new(1);
        let worker = thread::spawn({
            let pool = pool.clone();
            move || pool.carry()
        });
        pool.pin(0);
        worker.join().unwrap();
        // SAFETY: no thread carries the worker.
        let ran = pool.local.with(|ran| unsafe { *ran });
        assert_eq!(ran, 1, "a task was left behind");
        assert!(pool.idle.is_resting(W));
    });
}

/// Two threads find the worker at rest: one of them continues it.
#[test]
fn two_pinned_tasks_end_one_rest() {
    check(|| {
        let pool = Pool::new(1);
        pool.idle.rest(W);
        let other = thread::spawn({
            let pool = pool.clone();
            move || pool.pin(1)
        });
        pool.pin(0);
        other.join().unwrap();
        // SAFETY: no thread carries the worker.
        assert_eq!(pool.local.with(|ran| unsafe { *ran }), 2);
        assert!(pool.idle.is_resting(W));
    });
}

/// The pool becomes larger while its worker begins to rest: the worker continues.
#[test]
fn a_larger_size_against_rest() {
    check(|| {
        let pool = Pool::new(1);
        let worker = thread::spawn({
            let pool = pool.clone();
            move || pool.carry()
        });
        pool.size.store(2, Ordering::Relaxed);
        if pool.idle.end_rest(W) {
            pool.carry();
        }
        worker.join().unwrap();
        assert!(
            !pool.idle.is_resting(W),
            "it rests in a pool that is large enough"
        );
    });
}

/// A worker has pushed a task without a wake-up, since it was awake. Then it rests.
#[test]
fn what_a_worker_would_have_found_itself() {
    check(|| {
        let pool = Pool::new(1);
        let other = thread::spawn({
            let pool = pool.clone();
            move || pool.next()
        });
        pool.task.store(true, Ordering::Release);
        pool.idle.rest(W);
        pool.idle.notify_one();
        other.join().unwrap();
        assert_eq!(pool.idle.snapshot(), (0, 0));
    });
}

/// A push chooses a worker that sleeps and has to rest. That one looks no more, and leaves a successor.
#[test]
fn a_push_against_a_sleeper_that_must_rest() {
    check(|| {
        let pool = Pool::new(2);
        let resting = thread::spawn({
            let pool = pool.clone();
            move || {
                pool.idle.prepare(W, false);
                if pool.size.load(Ordering::Relaxed) <= W {
                    pool.idle.cancel(W);
                } else {
                    pool.idle.park(W);
                }
                // It was woken for the task, or to rest. It does not look.
                if pool.idle.found() {
                    pool.idle.notify_one();
                }
                pool.idle.rest(W);
                pool.idle.notify_one();
            }
        });
        let other = thread::spawn({
            let pool = pool.clone();
            move || pool.next()
        });
        pool.task.store(true, Ordering::Release);
        pool.idle.notify_one();
        pool.size.store(1, Ordering::Relaxed);
        pool.idle.notify_only(W);
        resting.join().unwrap();
        other.join().unwrap();
        assert_eq!(pool.idle.snapshot(), (0, 0));
    });
}
