//! Scopes with a limit of jobs.

use crate::in_time::in_time;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use warpweft::cancel::CancelToken;
use warpweft::{Runtime, block_on, fiber, scope_bounded};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("threads")
}

/// Counts what is there at a time.
#[derive(Default)]
struct Together {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// One of them, until it is dropped.
struct One(Arc<Together>);

impl One {
    fn new(together: &Arc<Together>) -> Self {
        let now = together.now.fetch_add(1, SeqCst) + 1;
        together.most.fetch_max(now, SeqCst);
        Self(Arc::clone(together))
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, SeqCst);
    }
}

#[test]
fn no_more_jobs_than_the_limit_are_there() {
    for workers in [1, 2] {
        for limit in [1, 2, 7] {
            let runtime = runtime(workers);
            let (together, ran) = (Arc::new(Together::default()), AtomicUsize::new(0));
            let fill = || {
                scope_bounded(limit, |scope| {
                    for _ in 0..500 {
                        let (together, ran) = (&together, &ran);
                        scope.spawn(move || {
                            let _one = One::new(together);
                            ran.fetch_add(1, SeqCst);
                        });
                    }
                })
            };
            assert_eq!(runtime.install(|_| fill()), Ok(Ok(())));
            assert_eq!(ran.load(SeqCst), 500);
            let most = together.most.load(SeqCst);
            assert!((1..=limit).contains(&most), "{most} of {limit}");
        }
    }
}

#[test]
fn what_waits_behind_the_limit_does_not_pile_up() {
    let runtime = runtime(1);
    let items = Arc::new(Together::default());
    let filled = runtime.install(|_| {
        scope_bounded(3, |scope| {
            for _ in 0..100 {
                let item = One::new(&items);
                scope.spawn(move || drop(item));
            }
        })
    });
    assert_eq!(filled, Ok(Ok(())));
    // Three jobs, and the one that is made while its place is waited for.
    assert!(items.most.load(SeqCst) <= 4, "{}", items.most.load(SeqCst));
}

#[test]
fn a_fiber_may_wait_for_a_place_too() {
    let runtime = runtime(1);
    let ran = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&ran);
    let fiber = runtime.spawn_fiber(move || {
        scope_bounded(2, |scope| {
            for _ in 0..50 {
                let counts = &counts;
                scope.spawn(move || {
                    block_on(warpweft::yield_now());
                    counts.fetch_add(1, SeqCst);
                });
            }
            fiber::yield_now();
        })
    });
    assert_eq!(fiber.wait().expect("no panic"), Ok(()));
    assert_eq!(ran.load(SeqCst), 50);
}

#[test]
fn a_full_scope_gives_the_job_back() {
    let runtime = runtime(2);
    let (release, waits) = mpsc::channel::<()>();
    let (begins, begun) = mpsc::channel();
    let given_back = runtime.install(|_| {
        scope_bounded(1, move |scope| {
            scope.spawn(move || {
                begins.send(()).expect("the test waits");
                assert!(waits.recv().is_err());
            });
            begun.recv().expect("it begins");
            let job = scope.try_spawn(|| unreachable!("there is no place")).err();
            let late = scope.spawn_within(Duration::from_millis(5), || unreachable!("there is no place"));
            let both = job.is_some() && late.is_err();
            drop(release);
            both && scope.spawn_within(Duration::from_secs(100), || ()).is_ok()
        })
    });
    assert_eq!(given_back, Ok(Ok(true)));
    let error = scope_bounded(0, |_| ()).expect_err("no job would run");
    assert!(error.to_string().contains("at least 1"), "{error}");
    assert_eq!(runtime.install(|_| scope_bounded(usize::MAX, |_| 1)), Ok(Ok(1)));
}

#[test]
fn a_job_that_panics_gives_its_place_back() {
    let runtime = runtime(1);
    let ran = AtomicUsize::new(0);
    let filled = runtime.install(|_| {
        catch_unwind(AssertUnwindSafe(|| {
            scope_bounded(1, |scope| {
                scope.spawn(|| panic!("on purpose"));
                for _ in 0..10 {
                    let ran = &ran;
                    scope.spawn(move || {
                        ran.fetch_add(1, SeqCst);
                    });
                }
            })
        }))
    });
    assert!(filled.expect("the pool is open").is_err());
    assert_eq!(ran.load(SeqCst), 10);
}

#[test]
fn a_cancelled_body_does_not_wait_for_ever() {
    let runtime = runtime(2);
    let token = CancelToken::new();
    let (used, under) = (Arc::new(()), token.clone());
    let uses = Arc::clone(&used);
    let filled = runtime.spawn_job(move || {
        under.run(|| {
            scope_bounded(1, |scope| {
                loop {
                    let uses = Arc::clone(&uses);
                    scope.spawn(move || {
                        thread::sleep(Duration::from_micros(100));
                        drop(uses);
                    });
                }
            })
        })
    });
    thread::sleep(Duration::from_millis(5));
    token.cancel();
    assert!(filled.wait().expect("it ended").is_err());
    assert_eq!(Arc::strong_count(&used), 1, "no job is left");
}

/// The body waits for places of jobs that a closing pool drops.
#[test]
fn the_end_of_the_runtime_leaves_no_body_waiting() {
    in_time(|| {
        for (workers, limit) in [
            (1, None),
            (2, None),
            (1, Some(Duration::MAX)),
            (2, Some(Duration::MAX)),
        ] {
            let runtime = Runtime::builder().workers(workers).build().expect("workers");
            let (begins, begun) = mpsc::channel();
            let ran = AtomicUsize::new(0);
            let (ran, runtime) = (&ran, &runtime);
            thread::scope(|threads| {
                threads.spawn(move || {
                    let all = runtime.install(|_| {
                        scope_bounded(4, |scope| {
                            for _ in 0..200 {
                                let begins = begins.clone();
                                let job = move || {
                                    let _ = begins.send(());
                                    thread::sleep(Duration::from_millis(1));
                                    ran.fetch_add(1, SeqCst);
                                };
                                match limit {
                                    Some(limit) => assert!(scope.spawn_within(limit, job).is_ok()),
                                    None => scope.spawn(job),
                                }
                            }
                        })
                    });
                    assert!(matches!(all, Ok(Ok(()))), "{all:?}");
                });
                begun.recv().expect("one begins");
                runtime.shutdown();
            });
            assert_eq!(ran.load(SeqCst), 200, "all jobs run in any case");
        }
    });
}
