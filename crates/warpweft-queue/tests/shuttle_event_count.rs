//! The idle protocol of a pool of three and four workers under seeded random schedules.
//!
//! The schedules are sequentially consistent, so they cannot show a missing barrier (loom does). But they are
//! larger than any loom model: workers from start to end, several pushers, wake-ups by number, shutdown. A
//! lost wake-up is a deadlock, which shuttle reports.
//!
//! Run: `RUSTFLAGS="--cfg warpweft_shuttle" cargo test -p warpweft-queue
//! --release --test shuttle_event_count`.
#![cfg(warpweft_shuttle)]

use shuttle::thread;
use warpweft_platform::atomic::{AtomicBool, AtomicUsize, Ordering};
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::park::Parker;
use warpweft_platform::sync::Arc;
use warpweft_queue::EventCount;

/// Schedules per test; `WARPWEFT_SHUTTLE_ITERATIONS` overrides it.
fn iterations() -> usize {
    std::env::var("WARPWEFT_SHUTTLE_ITERATIONS").map_or(10_000, |n| n.parse().expect("a number of schedules"))
}

/// Random schedules find bugs that need many switches, PCT those that need few switches at the right place.
fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(model.clone(), iterations());
    shuttle::check_pct(model, iterations(), 3);
}

struct Pool {
    idle: EventCount,
    /// Items for any worker, in two queues, and for one worker each behind them.
    lanes: Vec<AtomicUsize>,
    left: AtomicUsize,
    all_done: Parker,
    stop: AtomicBool,
}

const SHARED: usize = 2;

impl Pool {
    fn new(workers: usize, items: usize) -> Arc<Self> {
        Arc::new(Self {
            idle: EventCount::new(workers, (workers / 2).max(1), Asymmetric::new()),
            lanes: (0..SHARED + workers).map(|_| AtomicUsize::new(0)).collect(),
            left: AtomicUsize::new(items),
            all_done: Parker::new(),
            stop: AtomicBool::new(false),
        })
    }

    fn push(&self, lane: usize) {
        self.lanes[lane].fetch_add(1, Ordering::Release);
    }

    fn take(&self, w: usize) -> bool {
        [0, 1, SHARED + w].into_iter().any(|i| {
            let lane = &self.lanes[i];
            lane.load(Ordering::Relaxed) > 0
                && lane
                    .fetch_update(Ordering::Acquire, Ordering::Relaxed, |n| n.checked_sub(1))
                    .is_ok()
        })
    }

    /// Runs a worker until shutdown.
    fn run(&self, w: usize) {
        let mut searching = false;
        loop {
            let mut found = self.take(w);
            if !found && !searching {
                searching = self.idle.try_search();
                found = searching && self.take(w);
            }
            if !found {
                self.idle.prepare(w, searching);
                let stop = self.stop.load(Ordering::Acquire);
                found = self.take(w);
                if found || stop {
                    self.idle.cancel(w);
                } else {
                    self.idle.park(w);
                }
                searching = true;
                if stop && !found {
                    if self.idle.found() {
                        self.idle.notify_one();
                    }
                    return;
                }
            }
            if found {
                if std::mem::take(&mut searching) && self.idle.found() {
                    self.idle.notify_one();
                }
                if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.all_done.unpark();
                }
            }
        }
    }
}

/// Starts the workers, runs `pushers` beside them, and waits until all work is done (forever, if a wake-up is
/// lost). Only then it shuts down, so that shutdown cannot hide a lost wake-up.
fn life(workers: usize, items: usize, pushers: Vec<fn(&Pool)>) {
    let pool = Pool::new(workers, items);
    let start = |body: Box<dyn FnOnce(&Pool) + Send>| {
        let pool = pool.clone();
        thread::spawn(move || body(&pool))
    };
    let workers: Vec<_> = (0..workers)
        .map(|w| start(Box::new(move |pool| pool.run(w))))
        .collect();
    let pushers: Vec<_> = pushers
        .into_iter()
        .map(|pusher| start(Box::new(pusher)))
        .collect();
    pool.all_done.park();
    for pusher in pushers {
        pusher.join().unwrap();
    }
    pool.stop.store(true, Ordering::Release);
    pool.idle.notify_all();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(pool.idle.snapshot(), (0, 0));
}

/// Three workers, two pushers of work for any worker.
#[test]
fn work_for_anybody() {
    check(|| {
        let pusher: fn(&Pool) = |pool| {
            for lane in [0, 1, 0] {
                pool.push(lane);
                pool.idle.notify_one();
            }
        };
        life(3, 6, vec![pusher, pusher]);
    });
}

/// Four workers; one pusher wakes by preference, one for certain workers only, one for any worker.
#[test]
fn work_for_certain_workers() {
    check(|| {
        life(
            4,
            6,
            vec![
                |pool| {
                    for w in [3, 1] {
                        pool.push(1);
                        pool.idle.notify(w);
                    }
                },
                |pool| {
                    for w in [1, 3] {
                        pool.push(SHARED + w);
                        pool.idle.notify_only(w);
                    }
                },
                |pool| {
                    for lane in [0, 1] {
                        pool.push(lane);
                        pool.idle.notify_one();
                    }
                },
            ],
        );
    });
}

/// Shutdown as soon as there is nothing to do, with workers anywhere between start and sleep.
#[test]
fn shutdown_finds_everybody() {
    check(|| {
        life(
            4,
            1,
            vec![|pool| {
                pool.push(0);
                pool.idle.notify_one();
            }],
        );
    });
}
