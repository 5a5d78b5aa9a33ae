//! Scopes: borrowing, nesting, panics, spawns from anywhere, the end of the pool.

use crate::everywhere::everywhere;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::policy::Count;
use warpweft::{Runtime, Scope, scope, spawn_job};

#[test]
fn jobs_borrow_from_the_frame() {
    everywhere(|runtime| {
        let mut numbers = vec![0; 1000];
        let total = AtomicUsize::new(0);
        runtime
            .install(|cx| {
                cx.scope(|scope| {
                    for (n, number) in numbers.iter_mut().enumerate() {
                        let total = &total;
                        scope.spawn(move |_| {
                            *number = n;
                            total.fetch_add(n, Ordering::Relaxed);
                        });
                    }
                });
            })
            .expect("open");
        assert!(numbers.iter().enumerate().all(|(n, number)| n == *number));
        assert_eq!(total.load(Ordering::Relaxed), 499_500);
    });
}

#[test]
fn slow_jobs_are_shared() {
    let runtime = Runtime::builder().workers(4).build().expect("four");
    runtime
        .install(|cx| {
            cx.scope(|scope| {
                for _ in 0..40 {
                    scope.spawn(|_| thread::sleep(Duration::from_millis(1)));
                }
            });
        })
        .expect("open");
    assert!(runtime.counters().total().get(Count::ForksTaken) > 0);
}

/// The first of its jobs that the owner runs is long, so the other workers need not wait for the next one.
/// The others meet, all workers at a time.
#[test]
fn jobs_behind_a_long_one_are_there_for_all() {
    let runtime = Runtime::builder().workers(4).build().expect("four");
    let (come, alone) = (AtomicUsize::new(0), AtomicBool::new(false));
    let meet = || {
        let all = come.fetch_add(1, Ordering::SeqCst) / 4 * 4 + 4;
        let start = Instant::now();
        while come.load(Ordering::SeqCst) < all && !alone.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_micros(100));
            alone.fetch_or(start.elapsed() > Duration::from_secs(20), Ordering::SeqCst);
        }
    };
    runtime
        .install(|cx| {
            let (owner, is_first) = (thread::current().id(), AtomicBool::new(true));
            cx.scope(|scope| {
                for _ in 0..13 {
                    scope.spawn(|_| {
                        if thread::current().id() == owner && is_first.swap(false, Ordering::Relaxed) {
                            thread::sleep(Duration::from_millis(5));
                        } else {
                            meet();
                        }
                    });
                }
            });
        })
        .expect("open");
    assert!(!alone.into_inner(), "{} have come", come.into_inner());
}

/// Where no thread can be had, the owner runs other tasks on its stack while it waits: also a job of the
/// scope that spawns more of them.
#[test]
fn jobs_are_spawned_on_the_stack_of_an_owner_that_waits() {
    for workers in [1, 2, 3] {
        let runtime = Runtime::builder().workers(workers).max_threads(workers);
        let runtime = runtime.build().expect("workers");
        let count = AtomicUsize::new(0);
        let add = |_: &Scope<'_, '_>| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        runtime
            .install(|cx| {
                cx.scope(|scope| {
                    for worker in 0..workers {
                        scope.spawn_pinned(worker, move |scope| {
                            thread::sleep(Duration::from_millis(1));
                            scope.spawn(move |scope| {
                                add(scope);
                                scope.spawn(add);
                            });
                        });
                    }
                });
            })
            .expect("open");
        assert_eq!(count.load(Ordering::Relaxed), 2 * workers);
    }
}

#[test]
fn jobs_spawn_jobs_wherever_they_run() {
    fn grow<'scope>(scope: &'scope Scope<'scope, '_>, count: &'scope AtomicUsize, depth: usize) {
        count.fetch_add(1, Ordering::Relaxed);
        if depth > 0 {
            for _ in 0..2 {
                scope.spawn(move |scope| {
                    thread::sleep(Duration::from_micros(20));
                    grow(scope, count, depth - 1);
                });
            }
        }
    }
    everywhere(|runtime| {
        let count = AtomicUsize::new(0);
        runtime
            .install(|cx| cx.scope(|scope| grow(scope, &count, 7)))
            .expect("open");
        assert_eq!(count.load(Ordering::Relaxed), 255);
    });
}

#[test]
fn scopes_nest_and_mix_with_joins() {
    everywhere(|runtime| {
        let count = AtomicUsize::new(0);
        let one = |_: &Scope<'_, '_>| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        runtime
            .install(|cx| {
                cx.scope(|outer| {
                    for _ in 0..10 {
                        outer.spawn(one);
                        cx.join(
                            |cx| {
                                // On the outer scope while forks of this frame are younger, and older.
                                outer.spawn(one);
                                cx.scope(|inner| {
                                    inner.spawn(one);
                                    outer.spawn(one);
                                    inner.spawn(|_| {
                                        scope(|innermost| innermost.spawn(one));
                                    });
                                });
                            },
                            |_| {
                                outer.spawn(one);
                                thread::sleep(Duration::from_micros(50));
                            },
                        );
                    }
                });
            })
            .expect("open");
        assert_eq!(count.load(Ordering::Relaxed), 60);
    });
}

#[test]
fn a_panic_waits_for_all_jobs() {
    everywhere(|runtime| {
        for (body_panics, job_panics) in [(true, false), (false, true), (true, true)] {
            let ended = AtomicUsize::new(0);
            let caught = runtime.install(|cx| {
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    cx.scope(|scope| {
                        for n in 0..20 {
                            let ended = &ended;
                            scope.spawn(move |_| {
                                thread::sleep(Duration::from_micros(50));
                                ended.fetch_add(1, Ordering::Relaxed);
                                if job_panics && n % 7 == 3 {
                                    resume_unwind(Box::new("job"));
                                }
                            });
                        }
                        if body_panics {
                            resume_unwind(Box::new("body"));
                        }
                    });
                }));
                caught.err().map(|panic| *panic.downcast::<&str>().expect("ours"))
            });
            assert_eq!(ended.load(Ordering::Relaxed), 20);
            assert_eq!(
                caught.expect("open"),
                Some(if body_panics { "body" } else { "job" })
            );
        }
    });
}

#[test]
fn a_job_may_wait_for_another_one() {
    everywhere(|runtime| {
        let sum = AtomicUsize::new(0);
        runtime
            .install(|cx| {
                cx.scope(|scope| {
                    for n in 0..20 {
                        let sum = &sum;
                        scope.spawn(move |_| {
                            let task = spawn_job(move || n);
                            sum.fetch_add(task.wait().expect("no panic"), Ordering::Relaxed);
                        });
                    }
                    // The body waits: its jobs become tasks, and others may run them meanwhile.
                    spawn_job(|| ()).wait().expect("no panic");
                });
            })
            .expect("open");
        assert_eq!(sum.load(Ordering::Relaxed), 190);
    });
}

#[test]
fn other_threads_spawn_into_a_scope() {
    everywhere(|runtime| {
        let count = AtomicUsize::new(0);
        runtime
            .install(|cx| {
                cx.scope(|scope| {
                    thread::scope(|threads| {
                        for _ in 0..3 {
                            threads.spawn(|| {
                                for _ in 0..10 {
                                    scope.spawn(|_| {
                                        count.fetch_add(1, Ordering::Relaxed);
                                    });
                                }
                            });
                        }
                    });
                });
            })
            .expect("open");
        assert_eq!(count.load(Ordering::Relaxed), 30);
    });
}

#[test]
fn outside_of_any_pool_it_runs_on_the_default_runtime() {
    let mut name = None;
    scope(|scope| {
        scope.spawn(|_| name = thread::current().name().map(str::to_owned));
    });
    assert!(name.expect("a worker's").starts_with("warpweft-"));
}

#[test]
fn a_scope_whose_pool_closes_runs_its_own_jobs_to_the_end() {
    everywhere(|runtime| {
        let count = AtomicUsize::new(0);
        thread::scope(|threads| {
            let (started, wait) = std::sync::mpsc::channel();
            let count = &count;
            let scoped = threads.spawn(move || {
                runtime.install(move |cx| {
                    cx.scope(|scope| {
                        for _ in 0..50 {
                            scope.spawn(|_| {
                                thread::sleep(Duration::from_micros(100));
                                count.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                        started.send(()).expect("the test waits");
                    });
                })
            });
            wait.recv().expect("it runs");
            runtime.shutdown();
            scoped.join().expect("no panic").expect("it was open");
        });
        assert_eq!(count.load(Ordering::Relaxed), 50);
    });
}
