//! Joins and scopes in whole pools, under every schedule that a seed can make.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use support::{Gate, check, runtime};
use warpweft::{ForkCx, JoinHandle, Runtime, Scope, SpawnError, block_on, spawn_job};

fn fib(cx: ForkCx<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = cx.join(|cx| fib(cx, n - 1), |cx| fib(cx, n - 2));
    thread::yield_now();
    a + b
}

/// Two workers, and at most that many threads.
fn small_pool(threads: usize) -> Runtime {
    Runtime::builder()
        .workers(2)
        .max_threads(threads)
        .build()
        .expect("a small pool")
}

fn until_done(done: &AtomicUsize) {
    while done.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
}

#[test]
fn a_tree_on_two_workers() {
    check(|| assert_eq!(runtime(2, "fifo").install(|cx| fib(cx, 6)), Ok(8)));
}

#[test]
fn a_tree_on_three_workers_last_in_first_out() {
    check(|| assert_eq!(runtime(3, "lifo").install(|cx| fib(cx, 5)), Ok(5)));
}

#[test]
fn a_panic_on_either_side() {
    for first in [true, false] {
        let model = move || {
            let ended = Arc::new(AtomicUsize::new(0));
            let caught = runtime(2, "fifo").install(|cx| {
                let half = |panics: bool| {
                    thread::yield_now();
                    ended.fetch_add(1, Ordering::Relaxed);
                    if panics {
                        resume_unwind(Box::new(()));
                    }
                };
                let both = || {
                    cx.join(
                        |_| half(first),
                        |cx| {
                            let ((), ()) = cx.join(|_| (), |_| ());
                            half(!first);
                        },
                    )
                };
                catch_unwind(AssertUnwindSafe(both)).is_err()
            });
            assert_eq!(caught, Ok(true));
        };
        support::check_with(Arc::new(model));
    }
}

/// Each half needs the other one, and there may be one worker.
#[test]
fn halves_that_wait_for_each_other() {
    for workers in [1, 2] {
        support::check_with(Arc::new(move || {
            let (first, second) = (Gate::default(), Gate::default());
            let both = runtime(workers, "fifo").install(|cx| {
                cx.join(
                    |_| {
                        first.open();
                        block_on(second.clone());
                    },
                    |_| {
                        second.open();
                        block_on(first.clone());
                    },
                )
            });
            assert_eq!(both, Ok(((), ())));
        }));
    }
}

/// What runs while a join waits must not need the lock that its frame holds.
#[test]
fn a_lock_is_held_across_a_join() {
    check(|| {
        let lock = Mutex::new(0);
        let locked = |cx: ForkCx<'_>| {
            let mut sum = lock.lock().expect("unpoisoned");
            let (a, b) = cx.join(|_| thread::yield_now(), |_| thread::yield_now());
            *sum += 1;
            (a, b)
        };
        let both = runtime(2, "fifo").install(|cx| cx.join(locked, locked));
        assert!(both.is_ok());
        assert_eq!(*lock.lock().expect("unpoisoned"), 2);
    });
}

#[test]
fn a_fork_that_is_older_than_a_wait_is_run_by_others() {
    check(|| {
        let runtime = runtime(2, "lifo");
        let gate = Gate::default();
        let done = runtime.install(|cx| {
            // The first half waits for the second one, which no worker may have noticed.
            cx.join(
                |cx| cx.join(|_| block_on(gate.clone()), |_| 1).1,
                |_| {
                    gate.open();
                    2
                },
            )
        });
        assert_eq!(done, Ok((1, 2)));
    });
}

#[test]
fn without_a_spare_thread() {
    check(|| {
        let runtime = small_pool(2);
        let sum = runtime.install(|cx| {
            let (a, b) = cx.join(|cx| fib(cx, 4), |_| spawn_job(|| 1).wait().expect("no panic"));
            a + b
        });
        assert_eq!(sum, Ok(4));
    });
}

#[test]
fn a_scope_on_two_workers() {
    check(|| {
        let sum = AtomicUsize::new(0);
        let opened = runtime(2, "fifo").install(|cx| {
            cx.scope(|scope: &Scope<'_, '_>| {
                for n in 1..=3 {
                    let sum = &sum;
                    scope.spawn(move |scope| {
                        thread::yield_now();
                        sum.fetch_add(n, Ordering::Relaxed);
                        scope.spawn(move |_| {
                            sum.fetch_add(10 * n, Ordering::Relaxed);
                        });
                    });
                }
            });
        });
        assert_eq!(opened, Ok(()));
        assert_eq!(sum.load(Ordering::Relaxed), 66);
    });
}

#[test]
fn a_scope_that_waits_inside() {
    check(|| {
        let sum = AtomicUsize::new(0);
        let opened = runtime(1, "fifo").install(|cx| {
            cx.scope(|scope| {
                let gate = Gate::default();
                let other = gate.clone();
                let sum = &sum;
                scope.spawn(move |_| {
                    sum.fetch_add(1, Ordering::Relaxed);
                    other.open();
                });
                block_on(gate);
                scope.spawn(move |_| {
                    sum.fetch_add(1, Ordering::Relaxed);
                });
            });
        });
        assert_eq!(opened, Ok(()));
        assert_eq!(sum.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn the_pool_closes_under_a_tree() {
    check(|| {
        let runtime = Arc::new(runtime(2, "fifo"));
        let other = Arc::clone(&runtime);
        let tree = thread::spawn(move || other.install(|cx| fib(cx, 5)));
        runtime.shutdown();
        let tree = tree.join().expect("no panic");
        assert!(matches!(tree, Ok(5) | Err(SpawnError::Closed)), "{tree:?}");
    });
}

/// The first half waits, so the second becomes a stealable job. When the first half comes back, the joiner
/// and the job want the same fork.
#[test]
fn a_stealable_and_its_joiner_meet() {
    check(|| {
        let runs = AtomicUsize::new(0);
        let both = runtime(2, "fifo").install(|cx| {
            cx.join(
                |_| spawn_job(|| ()).wait().expect("no panic"),
                |_| {
                    thread::yield_now();
                    runs.fetch_add(1, Ordering::Relaxed);
                },
            )
        });
        assert_eq!(both, Ok(((), ())));
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    });
}

/// A worker must notice an offer although its owner and the watcher are busy for good. They wait for that
/// very fork.
#[test]
fn an_offer_is_noticed_when_its_watcher_gets_other_work() {
    support::check_fairly(|| {
        let done = Arc::new(AtomicUsize::new(0));
        let runtime = runtime(3, "fifo");
        // Forks come and go, so that one worker watches.
        assert_eq!(runtime.install(|cx| fib(cx, 2)), Ok(1));
        let busy = Arc::clone(&done);
        let busy = runtime.spawn_job(move || until_done(&busy));
        let both = runtime.install(|cx| {
            // Time for the third worker to go to sleep.
            (0..60).for_each(|_| thread::yield_now());
            cx.join(|_| until_done(&done), |_| done.store(1, Ordering::Relaxed))
        });
        assert_eq!(both, Ok(((), ())));
        busy.wait().expect("no panic");
    });
}

/// Does the same when the watcher took a task before the offer came.
#[test]
fn an_offer_is_noticed_when_its_watcher_takes_a_task() {
    support::check_fairly(|| {
        let done = Arc::new(AtomicUsize::new(0));
        let both = runtime(3, "fifo").install(|cx| {
            (0..40).for_each(|_| thread::yield_now());
            // A worker is woken, and watches from now on.
            cx.join(|_| (0..5).for_each(|_| thread::yield_now()), |_| ());
            let busy = Arc::clone(&done);
            spawn_job(move || until_done(&busy)).detach();
            (0..60).for_each(|_| thread::yield_now());
            cx.join(|_| until_done(&done), |_| done.store(1, Ordering::Relaxed))
        });
        assert_eq!(both, Ok(((), ())));
    });
}

/// As many jobs as workers want the lock that a frame holds across its join, and come before the frame. It
/// continues all the same.
#[test]
fn a_lock_is_held_across_a_join_while_all_workers_want_it() {
    check(|| {
        let lock = Arc::new(Mutex::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        let runtime = runtime(2, "fifo");
        let (held, wanted, jobs) = (Arc::clone(&lock), Arc::clone(&lock), Arc::clone(&done));
        let frame = runtime.spawn_job(move || {
            let _guard = held.lock().expect("unpoisoned");
            let ((), ()) = warpweft::join(
                || (0..10).for_each(|_| thread::yield_now()),
                || {
                    (0..20).for_each(|_| thread::yield_now());
                    for _ in 0..2 {
                        let (wanted, done) = (Arc::clone(&wanted), Arc::clone(&jobs));
                        spawn_job(move || {
                            *wanted.lock().expect("unpoisoned") += 1;
                            done.fetch_add(1, Ordering::Relaxed);
                        })
                        .detach();
                    }
                    (0..20).for_each(|_| thread::yield_now());
                },
            );
        });
        frame.wait().expect("no panic");
        while done.load(Ordering::Relaxed) < 2 {
            thread::yield_now();
        }
        assert_eq!(*lock.lock().expect("unpoisoned"), 2);
    });
}

/// Waits with a fork, one of whose parts is `part`, and for which this frame itself waits as a rule.
fn wait_with_part(part: impl FnOnce() + Send) {
    let (has_fork, has_part) = (AtomicUsize::new(0), AtomicUsize::new(0));
    warpweft::join(
        || until_done(&has_fork),
        || {
            warpweft::join(
                || {
                    has_fork.store(1, Ordering::Relaxed);
                    until_done(&has_part);
                },
                || {
                    has_part.store(1, Ordering::Relaxed);
                    part();
                    // The owner of this part begins to wait for it.
                    (0..10).for_each(|_| thread::yield_now());
                },
            );
        },
    );
}

/// A frame that holds a lock runs a part of its fork. The owner of the part waits for it, and then continues
/// with the frame's worker, ends the fork, and takes a job that wants the lock. The frame continues all the
/// same.
#[test]
fn a_lock_is_held_while_the_owner_of_a_part_ends_the_fork() {
    check(|| {
        let lock = Arc::new(Mutex::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        let runtime = runtime(2, "fifo");
        let (held, wanted, jobs) = (Arc::clone(&lock), Arc::clone(&lock), Arc::clone(&done));
        let frame = runtime.spawn_job(move || {
            let _guard = held.lock().expect("unpoisoned");
            wait_with_part(|| {
                for _ in 0..2 {
                    let (wanted, done) = (Arc::clone(&wanted), Arc::clone(&jobs));
                    spawn_job(move || {
                        *wanted.lock().expect("unpoisoned") += 1;
                        done.fetch_add(1, Ordering::Relaxed);
                    })
                    .detach();
                }
            });
        });
        frame.wait().expect("no panic");
        while done.load(Ordering::Relaxed) < 2 {
            thread::yield_now();
        }
        assert_eq!(*lock.lock().expect("unpoisoned"), 2);
    });
}

/// The owner of the part has a worker already, for the fibers of its thread: the frame gives its own one to
/// another thread, or goes on with it.
#[test]
fn the_owner_of_a_part_has_a_worker_for_its_fibers() {
    for threads in [2, 3, 8] {
        support::check_with(Arc::new(move || {
            let runtime = small_pool(threads);
            let gates = [Gate::default(), Gate::default(), Gate::default()];
            let fibers = gates
                .clone()
                .map(|gate| runtime.spawn_fiber(move || block_on(gate)));
            let frame = runtime.spawn_job(move || wait_with_part(|| gates.iter().for_each(Gate::open)));
            frame.wait().expect("no panic");
            fibers
                .into_iter()
                .for_each(|fiber| fiber.wait().expect("no panic"));
        }));
    }
}

/// Waits a while for the flag.
fn until_some_time(flag: &AtomicUsize) {
    for _ in 0..60 {
        if flag.load(Ordering::SeqCst) != 0 {
            return;
        }
        thread::yield_now();
    }
}

/// Opens its gates after `turns`, and gives others some more.
fn open_after(turns: usize, gates: &[Gate]) {
    (0..turns).for_each(|_| thread::yield_now());
    gates.iter().for_each(Gate::open);
    (0..10).for_each(|_| thread::yield_now());
}

/// A frame that has no spare thread for its worker is given a second worker, by the owner of the part that it
/// ran. It does not keep both.
#[test]
fn two_workers_come_to_one_thread() {
    support::check_fairly(|| {
        let runtime = small_pool(3);
        let began = Arc::new(AtomicUsize::new(0));
        let flags: Arc<[AtomicUsize; 5]> = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
        let apart = Gate::default();
        let gates = [Gate::default(), Gate::default(), Gate::default()];
        let fibers = gates.clone().map(|gate| {
            let began = Arc::clone(&began);
            runtime.spawn_fiber(move || {
                began.fetch_add(1, Ordering::SeqCst);
                block_on(gate);
            })
        });
        while began.load(Ordering::SeqCst) < 3 {
            thread::yield_now();
        }
        let on_top = apart.clone();
        let frame = runtime.spawn_job(move || {
            let threads = Arc::new(Mutex::new(Vec::new()));
            let note = || threads.lock().expect("no panic").push(thread::current().id());
            let begin = |flag: usize| {
                flags[flag].store(1, Ordering::SeqCst);
                until_some_time(&flags[flag + 1]);
            };
            // In a thread of none of these frames it waits, so that no spare is left.
            let job = || {
                let (apart, threads, flags) = (apart.clone(), Arc::clone(&threads), Arc::clone(&flags));
                move || {
                    let is_apart = !threads
                        .lock()
                        .expect("no panic")
                        .contains(&thread::current().id());
                    flags[4].store(1, Ordering::SeqCst);
                    if is_apart {
                        block_on(apart);
                    }
                }
            };
            let innermost = || {
                note();
                flags[3].store(1, Ordering::SeqCst);
                (0..10).for_each(|_| thread::yield_now());
                spawn_job(job()).detach();
                until_some_time(&flags[4]);
                open_after(5, &gates);
            };
            let inner = || {
                note();
                warpweft::join(|| begin(2), innermost);
            };
            let outer = || {
                note();
                warpweft::join(|| begin(1), inner);
            };
            note();
            warpweft::join(|| until_some_time(&flags[1]), outer);
            on_top.open();
        });
        frame.wait().expect("no panic");
        fibers
            .into_iter()
            .for_each(|fiber| fiber.wait().expect("no panic"));
    });
}

/// The pool closes while a frame waits for a worker, and its thread has fibers that end.
#[test]
fn the_pool_closes_while_the_owner_of_a_part_has_fibers() {
    for threads in [2, 3, 4] {
        support::check_with(Arc::new(move || {
            let runtime = small_pool(threads);
            let gates = [Gate::default(), Gate::default(), Gate::default()];
            let flags: Arc<[AtomicUsize; 3]> = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
            let fibers = gates
                .clone()
                .map(|gate| runtime.spawn_fiber(move || block_on(gate)));
            let of_frame = Arc::clone(&flags);
            let frame = runtime.spawn_job(move || {
                let part = || {
                    of_frame[1].store(1, Ordering::SeqCst);
                    (0..6).for_each(|_| thread::yield_now());
                    gates.iter().for_each(Gate::open);
                    of_frame[2].store(1, Ordering::SeqCst);
                    (0..6).for_each(|_| thread::yield_now());
                };
                let begin = || {
                    of_frame[0].store(1, Ordering::SeqCst);
                    until_some_time(&of_frame[1]);
                };
                let fork = || {
                    warpweft::join(begin, part);
                };
                warpweft::join(|| until_some_time(&of_frame[0]), fork);
            });
            frame.detach();
            fibers.into_iter().for_each(JoinHandle::detach);
            until_some_time(&flags[2]);
            drop(runtime);
        }));
    }
}
