//! A task forks: in parent and child together each other task runs once, and the child ends when its task
//! does.

use crate::children::{End, FAILED, RETURNED, Shared, end_of, fork};
use crate::runtime;
use std::future::poll_fn;
use std::hint::black_box;
use std::mem::replace;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use warpweft::sync::Notify;
use warpweft::{Runtime, blocking, fiber, join, scope, spawn, spawn_job, time, yield_now};

const ROUNDS: usize = 20;
const TASKS: usize = 100;

/// Calls the test in rounds, with 1, 2 and 4 workers.
fn rounds(test: impl Fn(&Runtime, usize)) {
    for workers in [1, 2, 4] {
        for round in 0..ROUNDS {
            test(&runtime(workers), round);
        }
    }
}

/// Checks that each of `counts` is 1, and that of the task which forked is 2.
fn once_each(counts: &[u32], forked: usize) {
    let twice = counts.iter().enumerate().filter(|(_, count)| **count != 1);
    let twice: Vec<_> = twice.collect();
    assert_eq!(twice, [(forked, &2)], "of {counts:?}");
}

#[test]
fn jobs_run_once_and_are_dropped_once() {
    rounds(|runtime, round| {
        let (ran, dropped) = (Shared::new(TASKS), Shared::new(TASKS));
        let forks = round * 7 % TASKS;
        let jobs: Vec<_> = (0..TASKS)
            .map(|n| {
                let guard = dropped.guard(n);
                runtime.spawn_job(move || {
                    let child = if n == forks { fork() } else { -1 };
                    ran.count(n);
                    drop(guard);
                    child
                })
            })
            .collect();
        let ends: Vec<_> = jobs
            .into_iter()
            .map(|job| job.wait().expect("no panic"))
            .collect();
        assert_eq!(end_of(ends[forks]), RETURNED);
        once_each(&ran.all(), forks);
        once_each(&dropped.all(), forks);
    });
}

#[test]
fn futures_run_once_and_the_one_that_forked_goes_on_in_the_child() {
    rounds(|runtime, round| {
        let (ran, dropped) = (Shared::new(TASKS), Shared::new(TASKS));
        let forks = round * 7 % TASKS;
        let tasks: Vec<_> = (0..TASKS)
            .map(|n| {
                let guard = dropped.guard(n);
                runtime.spawn(async move {
                    let _guard = guard;
                    yield_now().await;
                    let child = if n == forks { fork() } else { -1 };
                    for _ in 0..3 {
                        yield_now().await;
                    }
                    ran.count(n);
                    child
                })
            })
            .collect();
        let ends: Vec<_> = tasks
            .into_iter()
            .map(|task| task.wait().expect("no panic"))
            .collect();
        assert_eq!(end_of(ends[forks]), RETURNED);
        once_each(&ran.all(), forks);
        once_each(&dropped.all(), forks);
    });
}

/// What a fiber does in the child after it forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Returns,
    Yields,
    Panics,
    WaitsInVain,
}

fn fibers_run_once(then: Then) {
    rounds(|runtime, round| {
        let (ran, dropped) = (Shared::new(TASKS), Shared::new(TASKS));
        let forks = round * 7 % TASKS;
        let begin = Arc::new(AtomicBool::new(false));
        let fibers: Vec<_> = (0..TASKS)
            .map(|n| {
                let guard = dropped.guard(n);
                let begin = Arc::clone(&begin);
                runtime.spawn_fiber(move || {
                    let _guard = guard;
                    // Until then all of them yield to each other.
                    while !begin.load(Ordering::SeqCst) {
                        fiber::yield_now();
                    }
                    let child = if n == forks { fork() } else { -1 };
                    if child == 0 {
                        // Counted after what the child does, if that returns.
                        let _counts = ran.guard(n);
                        in_child(then);
                        return 0;
                    }
                    fiber::yield_now();
                    fiber::wait(yield_now());
                    ran.count(n);
                    child
                })
            })
            .collect();
        begin.store(true, Ordering::SeqCst);
        let ends: Vec<_> = fibers
            .into_iter()
            .map(|fiber| fiber.wait().expect("no panic"))
            .collect();
        let fails = matches!(then, Then::Panics | Then::WaitsInVain);
        assert_eq!(
            end_of(ends[forks]),
            if fails { FAILED } else { RETURNED },
            "{then:?}"
        );
        once_each(&ran.all(), forks);
        // A task that panics in the child drops what it has, too.
        once_each(&dropped.all(), forks);
    });
}

fn in_child(then: Then) {
    match then {
        Then::Returns => {}
        Then::Yields => {
            for _ in 0..40 {
                assert!(!fiber::yield_now(), "there is nothing that it could give way to");
                fiber::wait(yield_now());
            }
        }
        Then::Panics => std::panic::resume_unwind(Box::new("on purpose")),
        Then::WaitsInVain => Notify::new().notified().wait(),
    }
}

#[test]
fn fibers_run_once_if_the_child_returns() {
    fibers_run_once(Then::Returns);
}

#[test]
fn fibers_run_once_if_the_child_yields() {
    fibers_run_once(Then::Yields);
}

#[test]
fn fibers_run_once_if_the_child_panics() {
    fibers_run_once(Then::Panics);
}

#[test]
fn fibers_run_once_if_the_child_waits() {
    fibers_run_once(Then::WaitsInVain);
}

#[test]
fn a_task_that_is_woken_in_the_child_neither_runs_nor_is_dropped_there() {
    rounds(|runtime, round| {
        let (ran, dropped) = (Shared::new(3), Shared::new(3));
        let (wakes, asleep) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let sleeps = |n: usize| {
            let (guard, wakes, asleep) = (dropped.guard(n), Arc::clone(&wakes), Arc::clone(&asleep));
            async move {
                let _guard = guard;
                let mut notified = pin!(wakes.notified());
                let mut is_counted = false;
                poll_fn(|cx| {
                    let polled = notified.as_mut().poll(cx);
                    // After the poll: the child would need the lock of `wakes`.
                    if !replace(&mut is_counted, true) {
                        asleep.fetch_add(1, Ordering::SeqCst);
                    }
                    polled
                })
                .await;
                ran.count(n);
            }
        };
        let (future, in_fiber) = (sleeps(0), sleeps(1));
        let sleepers = [
            runtime.spawn(future),
            runtime.spawn_fiber(|| fiber::wait(in_fiber)),
        ];
        // On one of the threads both sleep.
        while asleep.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(200));
        let theirs = Arc::clone(&wakes);
        let body = move || {
            let child = fork();
            if child == 0 {
                theirs.notify_all();
            }
            ran.count(2);
            child
        };
        let forker = if round % 2 == 0 {
            runtime.spawn_job(body)
        } else {
            runtime.spawn_fiber(body)
        };
        assert_eq!(end_of(forker.wait().expect("no panic")), RETURNED);
        assert_eq!((ran.all(), dropped.all()), (vec![0, 0, 2], vec![0; 3]));
        while !sleepers.iter().all(warpweft::JoinHandle::is_finished) {
            wakes.notify_all();
            std::thread::yield_now();
        }
        assert_eq!((ran.all(), dropped.all()), (vec![1, 1, 2], vec![1, 1, 0]));
    });
}

#[test]
fn fibers_that_are_to_start_on_the_thread_start_once() {
    rounds(|runtime, round| {
        let ran = Shared::new(11);
        let leader = runtime.spawn_fiber(move || {
            let others: Vec<_> = (0..10)
                .map(|n| {
                    fiber::spawn_here(move || {
                        fiber::yield_now();
                        ran.count(n);
                    })
                })
                .collect();
            if round % 2 == 0 {
                fiber::yield_now();
            }
            let child = fork();
            ran.count(10);
            if child > 0 {
                others
                    .into_iter()
                    .for_each(|other| other.wait().expect("no panic"));
            }
            child
        });
        assert_eq!(end_of(leader.wait().expect("no panic")), RETURNED);
        once_each(&ran.all(), 10);
    });
}

#[test]
fn closures_that_block_run_once() {
    for round in 0..ROUNDS {
        let runtime = Runtime::builder()
            .workers(1)
            .max_blocking_threads(1 + round % 2)
            .build();
        let runtime = runtime.expect("a worker");
        let (ran, dropped) = (Shared::new(10), Shared::new(10));
        // As many may wait as there are threads.
        let jobs: Vec<_> = (0..10)
            .map(|n| {
                let guard = dropped.guard(n);
                let closure = move || {
                    let child = if n == round % 10 { fork() } else { -1 };
                    ran.count(n);
                    drop(guard);
                    child
                };
                runtime.spawn(runtime.spawn_blocking(closure))
            })
            .collect();
        let ends: Vec<_> = jobs
            .into_iter()
            .map(|job| job.wait().expect("no panic").expect("no panic"))
            .collect();
        assert_eq!(end_of(ends[round % 10]), RETURNED);
        once_each(&ran.all(), round % 10);
        once_each(&dropped.all(), round % 10);
    }
}

#[test]
fn a_frame_that_forked_in_blocking_goes_on_without_a_worker() {
    rounds(|runtime, round| {
        let ran = Shared::new(TASKS);
        let body = move || {
            let child = blocking(|| {
                if round % 2 == 0 {
                    // The spare thread has come, and has the worker.
                    std::thread::sleep(Duration::from_millis(1));
                }
                fork()
            });
            ran.count(0);
            child
        };
        let first = if round % 3 == 0 {
            runtime.spawn_fiber(body)
        } else {
            runtime.spawn_job(body)
        };
        let jobs: Vec<_> = (1..TASKS)
            .map(|n| runtime.spawn_job(move || ran.count(n)))
            .collect();
        assert_eq!(end_of(first.wait().expect("no panic")), RETURNED);
        jobs.into_iter().for_each(|job| job.wait().expect("no panic"));
        once_each(&ran.all(), 0);
    });
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn forks_that_nobody_took_are_run_by_their_owner_in_the_child() {
    rounds(|runtime, _| {
        // Without compensating workers: one could carry a job of those below, and leave a worker idle.
        let runtime = Runtime::builder()
            .workers(runtime.workers())
            .stuck_after(None)
            .build();
        let runtime = runtime.expect("workers");
        // No worker takes them: the other workers have jobs.
        let over = Arc::new(AtomicBool::new(false));
        let busy = Arc::new(AtomicUsize::new(0));
        let others: Vec<_> = (1..runtime.workers())
            .map(|_| {
                let (over, busy) = (Arc::clone(&over), Arc::clone(&busy));
                runtime.spawn_job(move || {
                    busy.fetch_add(1, Ordering::SeqCst);
                    while !over.load(Ordering::SeqCst) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        while busy.load(Ordering::SeqCst) < others.len() {
            std::thread::yield_now();
        }
        let ran = Shared::new(3);
        let child = runtime.spawn_job(move || {
            let (child, sum) = join(
                || {
                    let child = fork();
                    ran.count(0);
                    child
                },
                || {
                    ran.count(1);
                    // Many forks in the child, on the stack that has lost its worker.
                    let mut sums = [0; 8];
                    scope(|scope| {
                        for sum in &mut sums {
                            scope.spawn(|_| *sum = fib(10));
                        }
                    });
                    ran.count(2);
                    sums.iter().sum::<u64>()
                },
            );
            assert_eq!(sum, 8 * 55);
            child
        });
        let child = child.wait().expect("no panic");
        over.store(true, Ordering::SeqCst);
        others
            .into_iter()
            .for_each(|other| other.wait().expect("no panic"));
        assert_eq!(end_of(child), RETURNED);
        assert_eq!(ran.all(), [2, 2, 2]);
    });
}

#[test]
fn a_fork_that_was_taken_is_waited_for_by_a_panic() {
    for workers in [2, 4] {
        for round in 0..ROUNDS {
            let runtime = runtime(workers);
            let ran = Shared::new(2);
            let taken = Arc::new(AtomicBool::new(false));
            let over = Arc::new(AtomicBool::new(false));
            let body = move || {
                let (child, ()) = join(
                    || {
                        while !taken.load(Ordering::SeqCst) {
                            black_box(0);
                        }
                        let child = fork();
                        over.store(child > 0, Ordering::SeqCst);
                        child
                    },
                    || {
                        taken.store(true, Ordering::SeqCst);
                        while !over.load(Ordering::SeqCst) {
                            black_box(0);
                        }
                        ran.count(1);
                    },
                );
                ran.count(0);
                child
            };
            let forker = if round % 2 == 0 {
                runtime.spawn_fiber(body)
            } else {
                runtime.spawn_job(body)
            };
            assert_eq!(end_of(forker.wait().expect("no panic")), FAILED);
            assert_eq!(ran.all(), [1, 1]);
        }
    }
}

#[test]
fn a_half_that_was_taken_forks_and_its_owner_goes_on_in_the_parent_alone() {
    for workers in [2, 4] {
        for _ in 0..ROUNDS {
            let runtime = runtime(workers);
            let ran = Shared::new(TASKS + 2);
            let jobs: Vec<_> = (0..TASKS)
                .map(|n| {
                    runtime.spawn_job(move || {
                        std::thread::sleep(Duration::from_micros(20));
                        ran.count(n);
                    })
                })
                .collect();
            let taken = AtomicBool::new(false);
            let ((), child) = runtime
                .install(|cx| {
                    cx.join(
                        |_| {
                            while !taken.load(Ordering::SeqCst) {
                                std::thread::yield_now();
                            }
                        },
                        |_| {
                            taken.store(true, Ordering::SeqCst);
                            let child = fork();
                            ran.count(TASKS);
                            child
                        },
                    )
                })
                .expect("open");
            ran.count(TASKS + 1);
            assert_eq!(end_of(child), RETURNED);
            jobs.into_iter().for_each(|job| job.wait().expect("no panic"));
            once_each(&ran.all(), TASKS);
        }
    }
}

/// Everything at once: tasks of all kinds, which spawn, sleep and wait, and some of which fork.
#[test]
fn many_fork_under_load() {
    rounds(|runtime, round| {
        let ran = Shared::new(TASKS + 3);
        let forkers = [round % TASKS, (round + 31) % TASKS, (round + 62) % TASKS];
        let may_fork = move |n: usize| if forkers.contains(&n) { fork() } else { -1 };
        let tasks: Vec<_> = (0..TASKS)
            .map(|n| match n % 3 {
                0 => runtime.spawn(async move {
                    time::sleep(Duration::from_micros(n as u64)).await;
                    let child = may_fork(n);
                    if child != 0 {
                        spawn(async move { yield_now().await }).await.expect("no panic");
                    }
                    ran.count(n);
                    child
                }),
                1 => runtime.spawn_fiber(move || {
                    fiber::wait(time::sleep(Duration::from_micros(n as u64)));
                    let child = may_fork(n);
                    if child != 0 {
                        fiber::spawn(fiber::yield_now).wait().expect("no panic");
                    }
                    ran.count(n);
                    child
                }),
                _ => runtime.spawn_job(move || {
                    let child = may_fork(n);
                    assert_eq!(fib(8), 21);
                    if child != 0 {
                        spawn_job(|| ()).wait().expect("no panic");
                    }
                    ran.count(n);
                    child
                }),
            })
            .collect();
        for (n, task) in tasks.into_iter().enumerate() {
            let child = task.wait().expect("no panic");
            if forkers.contains(&n) {
                assert_eq!(end_of(child), RETURNED, "task {n}");
            }
            let times = if forkers.contains(&n) { 2 } else { 1 };
            assert_eq!(ran.get(n), times, "task {n}");
        }
    });
}

#[test]
fn a_child_is_told_from_one_that_hangs() {
    let child = fork();
    if child == 0 {
        // SAFETY: it takes a number, and sets the clock of the child.
        unsafe { libc::alarm(1) };
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    assert_eq!(end_of(child), End::Signal(libc::SIGALRM));
}
