//! Fibers that start beside others: on the same thread, soon, and without harm to anybody.

use crate::everywhere::everywhere;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use warpweft::sync::oneshot;
use warpweft::{JoinError, Runtime, TaskBuilder, blocking, fiber, spawn_job};

fn here() -> ThreadId {
    thread::current().id()
}

/// Returns true if the condition becomes true before what is tested counts as lost.
fn soon(condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > Duration::from_secs(20) {
            return false;
        }
        thread::sleep(Duration::from_micros(100));
    }
    true
}

#[test]
fn it_starts_on_the_thread_of_the_caller() {
    everywhere(|runtime| {
        let leaders: Vec<_> = (0..20)
            .map(|_| {
                runtime.spawn_fiber(|| {
                    let fibers = here();
                    let beside: Vec<_> = (0..5)
                        .map(|_| {
                            fiber::spawn_here(|| {
                                let first = here();
                                fiber::yield_now();
                                // Those beside it, too.
                                let next = fiber::spawn_here(here).wait().expect("no panic");
                                (first, next)
                            })
                        })
                        .collect();
                    for handle in beside {
                        assert_eq!(handle.wait().expect("no panic"), (fibers, fibers));
                    }
                })
            })
            .collect();
        for leader in leaders {
            leader.wait().expect("no panic");
        }
        assert!(soon(|| runtime.fibers().live == 0), "{:?}", runtime.fibers());
    });
}

#[test]
fn it_starts_though_the_caller_has_ended_and_nobody_waits() {
    everywhere(|runtime| {
        let (tell, told) = oneshot::channel();
        let caller = runtime.spawn_fiber(move || {
            fiber::spawn_here(move || tell.send(here()).expect("somebody waits")).detach();
            here()
        });
        assert_eq!(told.wait().expect("it starts"), caller.wait().expect("no panic"));
    });
}

#[test]
fn elsewhere_it_is_spawned_as_usual() {
    everywhere(|runtime| {
        let outside = TaskBuilder::new()
            .on(runtime)
            .name("outside")
            .spawn_fiber_here(|| 1);
        assert_eq!(outside.info().name(), Some("outside"));
        let job = runtime.spawn_job(|| fiber::spawn_here(|| 2).wait().expect("no panic"));
        let future = runtime.spawn(async { fiber::spawn_here(|| 3).await.expect("no panic") });
        assert_eq!(outside.wait().expect("no panic"), 1);
        assert_eq!(job.wait().expect("no panic"), 2);
        assert_eq!(future.wait().expect("no panic"), 3);
    });
}

#[test]
fn on_another_runtime_it_is_spawned_as_usual() {
    let [one, other] = [1, 1].map(|workers| Runtime::builder().workers(workers).build().expect("workers"));
    let other = Arc::new(other);
    let theirs = other.spawn_job(here).wait().expect("no panic");
    let told = one.spawn_fiber(move || {
        let there = TaskBuilder::new().on(&other).spawn_fiber_here(here);
        (here(), there.wait().expect("no panic"))
    });
    let (ours, there) = told.wait().expect("no panic");
    assert_eq!(there, theirs);
    assert_ne!(there, ours);
}

/// The thread of the caller is in the closure, and its worker elsewhere.
#[test]
fn in_blocking_it_is_spawned_as_usual() {
    everywhere(|runtime| {
        let caller = runtime.spawn_fiber(|| {
            blocking(|| {
                let (tell, told) = std::sync::mpsc::channel();
                fiber::spawn_here(move || tell.send(()).expect("somebody waits")).detach();
                told.recv().expect("it starts on another thread");
            });
        });
        caller.wait().expect("no panic");
    });
}

/// Behind the caller the thread takes a job that waits, without its worker, for what only the fiber beside
/// the caller says.
#[test]
fn it_starts_though_its_thread_is_blocked_by_a_job() {
    everywhere(|runtime| {
        let caller = runtime.spawn_fiber(|| {
            let (tell, told) = oneshot::channel();
            let job = spawn_job(move || told.wait().expect("it starts"));
            fiber::spawn_here(move || {
                fiber::yield_now();
                tell.send(1).expect("the job waits");
            })
            .detach();
            job
        });
        let job = caller.wait().expect("no panic");
        assert_eq!(job.wait().expect("no panic"), 1);
    });
}

/// The thread's other fibers give way for ever, and the policy always has a task.
#[test]
fn it_starts_among_those_that_give_way() {
    everywhere(|runtime| {
        let over = Arc::new(AtomicBool::new(false));
        let caller = {
            let over = Arc::clone(&over);
            runtime.spawn_fiber(move || {
                let yields = |_| {
                    let over = Arc::clone(&over);
                    fiber::spawn_here(move || {
                        while !over.load(Ordering::Relaxed) {
                            fiber::yield_now();
                        }
                    })
                };
                let busy: Vec<_> = (0..10).map(yields).collect();
                fiber::yield_now();
                let flag = Arc::clone(&over);
                fiber::spawn_here(move || flag.store(true, Ordering::Relaxed)).detach();
                busy
            })
        };
        let started = soon(|| over.load(Ordering::Relaxed));
        over.store(true, Ordering::Relaxed);
        assert!(started);
        for busy in caller.wait().expect("no panic") {
            busy.wait().expect("no panic");
        }
    });
}

/// Each starts the next one, for ever; a fiber that is ready has its turn all the same, and so has a task.
#[test]
fn starts_do_not_keep_those_away_that_are_ready() {
    fn goes_on(over: Arc<AtomicBool>) {
        if !over.load(Ordering::Relaxed) {
            fiber::spawn_here(move || goes_on(over)).detach();
        }
    }
    everywhere(|runtime| {
        let over = Arc::new(AtomicBool::new(false));
        let turns = Arc::new(AtomicUsize::new(0));
        let (flag, counts) = (Arc::clone(&over), Arc::clone(&turns));
        let caller = runtime.spawn_fiber(move || {
            let relay = Arc::clone(&flag);
            fiber::spawn_here(move || goes_on(relay)).detach();
            while !flag.load(Ordering::Relaxed) {
                fiber::yield_now();
                counts.fetch_add(1, Ordering::Relaxed);
            }
        });
        let went_on = soon(|| turns.load(Ordering::Relaxed) >= 100);
        // With a thread of its own this says nothing; with one worker it is behind the fibers.
        let task = runtime.spawn_job(|| ());
        let ran = soon(|| task.is_finished());
        over.store(true, Ordering::Relaxed);
        assert!(went_on && ran, "{went_on} {ran}");
        caller.wait().expect("no panic");
    });
}

#[test]
fn its_panic_and_its_cancellation_are_its_own() {
    everywhere(|runtime| {
        let caller = runtime.spawn_fiber(|| {
            let panics = fiber::spawn_here(|| panic!("as told"));
            let cancelled = fiber::spawn_here(|| unreachable!("nobody runs it"));
            // The caller has not given way since.
            cancelled.cancel();
            let error = panics.wait().expect_err("it panics");
            assert!(matches!(error, JoinError::Panicked(_)), "{error}");
            let error = cancelled.wait().expect_err("it was cancelled");
            assert!(matches!(error, JoinError::Cancelled), "{error}");
        });
        caller.wait().expect("no panic");
    });
}

#[test]
fn a_cancelled_callers_fibers_go_on() {
    everywhere(|runtime| {
        let (tell, told) = oneshot::channel();
        let (begun, begins) = oneshot::channel();
        let caller = runtime.spawn_fiber(move || {
            fiber::spawn_here(move || {
                fiber::yield_now();
                tell.send(1).expect("somebody waits");
            })
            .detach();
            begun.send(()).expect("somebody waits");
        });
        begins.wait().expect("it begins");
        caller.cancel();
        drop(caller);
        assert_eq!(told.wait().expect("it goes on"), 1);
    });
}

struct Counts(Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The caller does not give way before the pool closes.
#[test]
fn a_pool_that_closes_drops_those_that_have_not_started() {
    everywhere(|runtime| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&dropped);
        let (begun, begins) = std::sync::mpsc::channel();
        let over = Arc::new(AtomicBool::new(false));
        let closed = Arc::clone(&over);
        let caller = runtime.spawn_fiber(move || {
            let spawn = |_| {
                let counts = Counts(Arc::clone(&counted));
                fiber::spawn_here(move || drop(counts))
            };
            let handles: Vec<_> = (0..10).map(spawn).collect();
            begun.send(()).expect("somebody waits");
            while !closed.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            // From here on there is nobody who could take it.
            let counts = Counts(Arc::clone(&counted));
            let late = fiber::spawn_here(move || drop(counts));
            (handles, late)
        });
        begins.recv().expect("it begins");
        thread::scope(|scope| {
            scope.spawn(|| runtime.shutdown());
            let is_closing = || {
                let refused = runtime.spawn_job(|| ());
                refused.is_finished() && refused.wait().is_err()
            };
            assert!(soon(is_closing));
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(dropped.load(Ordering::Relaxed), 11);
        let (handles, late) = caller.wait().expect("no panic");
        for handle in handles.into_iter().chain([late]) {
            assert!(matches!(handle.wait(), Err(JoinError::Shutdown)));
        }
        assert_eq!(runtime.fibers().live, 0);
    });
}

/// The first timer makes the driver, on the fiber's stack. It has to leave room for the program also in a
/// debug build, whose frames are several times as large.
#[test]
fn the_first_timer_takes_less_than_half_of_a_stack() {
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    let short = Duration::from_millis(1);
    let sleeps = runtime.spawn_fiber(move || fiber::wait(warpweft::time::sleep(short)));
    sleeps.wait().expect("its stack is enough");
    let deepest = runtime.fibers().deepest;
    println!("{deepest} bytes");
    assert!((1..32 << 10).contains(&deepest), "{deepest} bytes");
}
