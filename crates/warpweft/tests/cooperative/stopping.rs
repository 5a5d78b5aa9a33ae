//! Code that is cancelled or shut down stops.

use super::{loops, loops_plain, runtime, work};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use warpweft::{JoinError, cooperate, cooperative, fiber, uncooperative};

#[cooperative]
fn compute_for_ever(started: &AtomicBool) {
    loop {
        started.store(true, Ordering::Relaxed);
    }
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
}

#[test]
fn what_is_cancelled_stops_and_drops_what_it_holds() {
    for workers in [1, 2] {
        let runtime = runtime(workers, 100);
        let dropped = Arc::new(AtomicUsize::new(0));
        for kind in 0..3 {
            let started = Arc::new(AtomicBool::new(false));
            let held = Counted(Arc::clone(&dropped));
            let flag = Arc::clone(&started);
            let direct = |held: Counted, flag: Arc<AtomicBool>| {
                move || {
                    let _held = held;
                    compute_for_ever(&flag);
                }
            };
            let task = match kind {
                0 => runtime.spawn_fiber(direct(held, flag)),
                1 => runtime.spawn_job(direct(held, flag)),
                _ => runtime.spawn(cooperate!(async move {
                    let _held = held;
                    loop {
                        flag.store(true, Ordering::Relaxed);
                    }
                })),
            };
            wait_for(&started);
            assert!(task.cancel());
            assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
            assert_eq!(dropped.load(Ordering::Relaxed), kind + 1);
        }
    }
}

#[test]
fn who_catches_the_unwinding_is_unwound_again() {
    let runtime = runtime(1, 10);
    let started = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&started);
    let caught = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&caught);
    let task = runtime.spawn_fiber(move || {
        for _ in 0..3 {
            let stopped = catch_unwind(AssertUnwindSafe(|| compute_for_ever(&flag)));
            assert!(stopped.is_err());
            count.fetch_add(1, Ordering::Relaxed);
        }
        compute_for_ever(&flag);
    });
    wait_for(&started);
    task.cancel();
    assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
    assert_eq!(caught.load(Ordering::Relaxed), 3);
}

#[test]
fn a_half_of_a_join_stops_with_its_task() {
    let runtime = runtime(1, 100);
    for kind in 0..2 {
        let started = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&started);
        let body = move || {
            warpweft::join(|| compute_for_ever(&flag), || work(10));
        };
        let task = if kind == 0 {
            runtime.spawn_fiber(body)
        } else {
            runtime.spawn_job(body)
        };
        wait_for(&started);
        task.cancel();
        assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
    }
}

#[test]
fn a_task_on_top_or_beside_is_not_stopped_in_place_of_the_cancelled_one() {
    let runtime = runtime(1, 50);
    let started = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&started);
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    let bystander = runtime.spawn_fiber(move || {
        cooperate!(while !seen.load(Ordering::Relaxed) {});
        7
    });
    let hog = runtime.spawn_fiber(move || compute_for_ever(&flag));
    wait_for(&started);
    hog.cancel();
    assert!(matches!(hog.wait(), Err(JoinError::Cancelled)));
    // The thread's next jobs and fibers run to their ends.
    assert_eq!(
        runtime.spawn_job(|| loops(10)).wait().expect("no panic"),
        loops_plain(10)
    );
    over.store(true, Ordering::Relaxed);
    assert_eq!(bystander.wait().expect("not cancelled"), 7);
}

#[test]
fn a_runtime_that_shuts_down_stops_them() {
    for kind in 0..3 {
        let runtime = runtime(1, 100);
        let started = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&started);
        let task = match kind {
            0 => runtime.spawn_fiber(move || compute_for_ever(&flag)),
            1 => runtime.spawn_job(move || compute_for_ever(&flag)),
            _ => runtime.spawn(cooperate!(async move {
                loop {
                    flag.store(true, Ordering::Relaxed);
                }
            })),
        };
        wait_for(&started);
        runtime.shutdown();
        assert!(matches!(task.wait(), Err(JoinError::Shutdown)), "kind {kind}");
    }
}

#[test]
fn nothing_switches_while_it_panics() {
    struct Works(Arc<AtomicUsize>, Arc<AtomicUsize>);
    impl Drop for Works {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            let before = self.0.load(Ordering::Relaxed);
            work(1000);
            self.1
                .fetch_add(self.0.load(Ordering::Relaxed) - before, Ordering::Relaxed);
        }
    }
    let runtime = runtime(1, 10);
    let (count, during) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let over = Arc::new(AtomicBool::new(false));
    let (counted, until, during_it) = (Arc::clone(&count), Arc::clone(&over), Arc::clone(&during));
    let panics = runtime.spawn_fiber(move || {
        let until_then = Arc::clone(&until);
        let other = Arc::clone(&counted);
        drop(fiber::spawn(move || {
            while !until_then.load(Ordering::Relaxed) {
                other.fetch_add(1, Ordering::Relaxed);
                fiber::yield_now();
            }
        }));
        while counted.load(Ordering::Relaxed) == 0 {
            fiber::yield_now();
        }
        let _works = Works(counted, during_it);
        std::panic::resume_unwind(Box::new("as planned"));
    });
    assert!(matches!(panics.wait(), Err(JoinError::Panicked(_))));
    over.store(true, Ordering::Relaxed);
    assert_eq!(during.load(Ordering::Relaxed), 0);
}

#[test]
fn a_cancelled_task_is_not_stopped_in_its_destructors_nor_where_it_is_uncooperative() {
    struct Works(Arc<AtomicUsize>);
    impl Drop for Works {
        fn drop(&mut self) {
            assert!(work(1000) > 0);
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let runtime = runtime(1, 10);
    let worked = Arc::new(AtomicUsize::new(0));
    for kind in 0..2 {
        let started = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&started);
        let go = Arc::new(AtomicBool::new(false));
        let may = Arc::clone(&go);
        let works = Works(Arc::clone(&worked));
        let body = move || {
            let _works = works;
            let kept = uncooperative(|| {
                flag.store(true, Ordering::Relaxed);
                cooperate!(while !may.load(Ordering::Relaxed) {});
                work(1000)
            });
            // Here it ends.
            (kept, work(1000))
        };
        let task = if kind == 0 {
            runtime.spawn_fiber(body)
        } else {
            runtime.spawn_job(body)
        };
        wait_for(&started);
        task.cancel();
        go.store(true, Ordering::Relaxed);
        assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
        assert_eq!(worked.load(Ordering::Relaxed), kind + 1, "to the end");
    }
}
