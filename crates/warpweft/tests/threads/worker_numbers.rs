//! The contract of workers' numbers and of the number of threads: "Workers and threads" in the documentation
//! of `Runtime`.

use crate::everywhere::everywhere_with;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::time::sleep;
use warpweft::{Pool, Runtime, block_on, blocking, fiber, join, par_for, spawn_job, yield_now};

const LIMIT: Duration = Duration::from_secs(30);

/// The threads at work: an entry for each worker number.
struct Slots {
    taken: Vec<AtomicBool>,
    at_work: AtomicUsize,
    most_at_work: AtomicUsize,
    highest: AtomicUsize,
    threads: Mutex<HashSet<thread::ThreadId>>,
}

impl Slots {
    fn new(runtime: &Runtime) -> Arc<Self> {
        Arc::new(Self {
            taken: (0..runtime.worker_slots())
                .map(|_| AtomicBool::new(false))
                .collect(),
            at_work: AtomicUsize::new(0),
            most_at_work: AtomicUsize::new(0),
            highest: AtomicUsize::new(0),
            threads: Mutex::new(HashSet::new()),
        })
    }

    /// Works for a moment, without a wait, under the number that the caller has.
    fn work(&self) {
        let number = Pool::current_worker().expect("a task has a worker");
        assert!(number < self.taken.len(), "{number} of {}", self.taken.len());
        assert!(
            !self.taken[number].swap(true, Ordering::AcqRel),
            "two threads carry worker {number}"
        );
        let at_work = self.at_work.fetch_add(1, Ordering::AcqRel) + 1;
        assert!(at_work <= self.taken.len());
        self.most_at_work.fetch_max(at_work, Ordering::Relaxed);
        self.highest.fetch_max(number, Ordering::Relaxed);
        self.threads
            .lock()
            .expect("no panic")
            .insert(thread::current().id());
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(20) {
            std::hint::spin_loop();
        }
        assert_eq!(Pool::current_worker(), Some(number), "it did not wait");
        self.at_work.fetch_sub(1, Ordering::AcqRel);
        assert!(self.taken[number].swap(false, Ordering::AcqRel));
    }
}

/// Work before and after each kind of wait.
fn waits(slots: &Slots) {
    slots.work();
    block_on(sleep(Duration::from_micros(300)));
    slots.work();
    blocking(|| {
        assert_eq!(Pool::current_worker(), None);
        thread::sleep(Duration::from_micros(300));
    });
    slots.work();
    join(
        || {
            slots.work();
            block_on(yield_now());
            slots.work();
        },
        || slots.work(),
    );
    slots.work();
    spawn_job(|| ()).wait().expect("no panic");
    slots.work();
    par_for(0..8, 1, |_| slots.work());
    fiber::yield_now();
    slots.work();
}

/// A crowd of jobs, fibers and futures.
fn crowd(runtime: &Runtime, slots: &Arc<Slots>) {
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let [job, fiber, future] = [(); 3].map(|()| Arc::clone(slots));
        tasks.push(runtime.spawn_job(move || waits(&job)));
        tasks.push(runtime.spawn_fiber(move || waits(&fiber)));
        tasks.push(runtime.spawn(async move {
            for _ in 0..5 {
                future.work();
                yield_now().await;
                future.work();
                sleep(Duration::from_micros(100)).await;
            }
        }));
    }
    for task in tasks {
        task.wait().expect("no panic");
    }
}

#[test]
fn no_two_threads_have_the_same_number() {
    everywhere_with(
        |builder| builder.stuck_after(Some(Duration::from_micros(200))),
        |runtime| {
            let compensating = runtime.counters().compensating.len();
            assert!(compensating > 0);
            assert_eq!(runtime.worker_slots(), runtime.workers() + compensating);
            let slots = Slots::new(runtime);
            let start = Instant::now();
            // Jobs that hold their workers up are made up for by compensating workers, which have numbers
            // from `workers` on.
            while slots.highest.load(Ordering::Relaxed) < runtime.workers() {
                assert!(start.elapsed() < LIMIT, "no compensating worker has come");
                let hogs: Vec<_> = (0..runtime.workers())
                    .map(|_| {
                        let slots = Arc::clone(&slots);
                        runtime.spawn_job(move || {
                            slots.work();
                            thread::sleep(Duration::from_millis(10));
                            slots.work();
                        })
                    })
                    .collect();
                crowd(runtime, &slots);
                for hog in hogs {
                    hog.wait().expect("no panic");
                }
            }
            assert!(slots.highest.load(Ordering::Relaxed) < runtime.worker_slots());
            // A broadcast is for those that were asked for.
            let numbers = runtime.broadcast(|number| (number, Pool::current_worker()));
            let wanted: Vec<_> = (0..runtime.workers()).map(|n| (n, Some(n))).collect();
            assert_eq!(numbers.expect("it is open"), wanted);
        },
    );
}

#[test]
fn without_compensatings_numbers_are_below_the_number_of_workers() {
    everywhere_with(
        |builder| builder.stuck_after(None),
        |runtime| {
            assert_eq!(runtime.worker_slots(), runtime.workers());
            assert!(runtime.counters().compensating.is_empty());
            let slots = Slots::new(runtime);
            for _ in 0..3 {
                crowd(runtime, &slots);
            }
            assert!(slots.most_at_work.load(Ordering::Relaxed) <= runtime.workers());
        },
    );
}

#[test]
fn where_there_is_no_worker_there_is_no_number() {
    let runtime = Runtime::builder().workers(1).name("one").build();
    let runtime = Arc::new(runtime.expect("a worker"));
    let slots = runtime.worker_slots();
    assert_eq!(Pool::current_worker(), None);
    runtime.block_on(async {
        assert!(Pool::current().is_some());
        assert_eq!(Pool::current_worker(), None, "a visit");
    });
    let closure = runtime.spawn_blocking(Pool::current_worker);
    assert_eq!(runtime.block_on(closure).expect("no panic"), None);
    // In a visit to another pool, too; and in a task of that one it is that one's.
    let other = Runtime::builder().workers(1).name("other").build();
    let other = Arc::new(other.expect("a worker"));
    let there = Arc::clone(&other);
    let job = runtime.spawn_job(move || {
        let here = Pool::current_worker();
        let access = there.block_on(async { Pool::current_worker() });
        let other = there.install(|_| {
            (
                Pool::current().map(|pool| pool.name().to_owned()),
                Pool::current_worker(),
            )
        });
        (here, access, other.expect("it is open"), Pool::current_worker())
    });
    let (here, access, (name, number), after) = job.wait().expect("no panic");
    assert_eq!((access, name.as_deref()), (None, Some("other")));
    for number in [here, number, after] {
        assert!(number.is_some_and(|number| number < slots));
    }
}

/// Frames that wait cost a thread each, and no more.
#[test]
fn as_many_threads_as_workers_and_frames_that_wait() {
    const FRAMES: usize = 20;
    for workers in [1, 2, 4] {
        for stuck_after in [None, Some(Duration::from_millis(1))] {
            let runtime = Runtime::builder()
                .workers(workers)
                .stuck_after(stuck_after)
                .build()
                .expect("workers");
            let slots = Slots::new(&runtime);
            let gate = Arc::new(warpweft::sync::Barrier::new(FRAMES));
            let jobs: Vec<_> = (0..FRAMES)
                .map(|_| {
                    let (slots, gate) = (Arc::clone(&slots), Arc::clone(&gate));
                    runtime.spawn_job(move || {
                        slots.work();
                        gate.arrive().wait();
                        slots.work();
                    })
                })
                .collect();
            for job in jobs {
                job.wait().expect("no panic");
            }
            let threads = runtime.threads();
            // Two that may be kept in reserve.
            let bound = runtime.worker_slots() + FRAMES + 2;
            assert!(threads.most <= bound, "{threads:?}, {bound} at most");
            let seen = slots.threads.lock().expect("no panic").len();
            assert!(seen <= threads.most, "{seen}: {threads:?}");
            assert!(
                seen > workers,
                "closures run on more threads than there are workers"
            );
            assert_eq!(threads.blocked, 0, "{threads:?}");
            // They go, but for those in reserve.
            let start = Instant::now();
            while runtime.threads().all > runtime.worker_slots() + 2 {
                assert!(start.elapsed() < LIMIT, "{:?}", runtime.threads());
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// A limit of threads holds, whatever waits.
#[test]
fn no_more_threads_than_were_allowed() {
    for limit in [2, 3, 5] {
        let runtime = Runtime::builder()
            .workers(2)
            .max_threads(limit)
            .stuck_after(Some(Duration::from_micros(500)))
            .build()
            .expect("workers");
        let slots = Slots::new(&runtime);
        for _ in 0..3 {
            let jobs: Vec<_> = (0..20)
                .map(|_| {
                    let slots = Arc::clone(&slots);
                    runtime.spawn_job(move || {
                        slots.work();
                        block_on(sleep(Duration::from_millis(1)));
                        slots.work();
                        thread::sleep(Duration::from_micros(500));
                        slots.work();
                    })
                })
                .collect();
            for job in jobs {
                job.wait().expect("no panic");
            }
        }
        let threads = runtime.threads();
        assert!(threads.most <= limit, "{threads:?}");
        assert!(slots.threads.lock().expect("no panic").len() <= limit);
    }
}
