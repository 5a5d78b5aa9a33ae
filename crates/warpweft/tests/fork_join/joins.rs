//! Fork-join: results, panics, waits, and whom a blocked half keeps waiting.

use crate::everywhere::everywhere;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use warpweft::policy::Count;
use warpweft::{ForkCx, Runtime, SpawnError, join, spawn_job};

fn fib(cx: ForkCx<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = cx.join(|cx| fib(cx, n - 1), |cx| fib(cx, n - 2));
    a + b
}

fn free_fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| free_fib(n - 1), || free_fib(n - 2));
    a + b
}

#[test]
fn fib_in_both_forms() {
    everywhere(|runtime| {
        assert_eq!(runtime.install(|cx| fib(cx, 22)).expect("open"), 17_711);
        assert_eq!(runtime.install(|_| free_fib(22)).expect("open"), 17_711);
    });
}

#[test]
fn outside_of_any_pool_it_runs_on_the_default_runtime() {
    let (here, there) = join(
        || thread::current().name().map(str::to_owned),
        || thread::current().name().map(str::to_owned),
    );
    for name in [here, there] {
        assert!(name.expect("a worker's").starts_with("warpweft-"));
    }
}

/// Which pool's thread this is.
fn pool() -> String {
    let name = thread::current().name().unwrap_or_default().to_owned();
    name.split('-').next().unwrap_or_default().to_owned()
}

#[test]
fn a_visit_forks_where_it_is() {
    for workers in [1, 2, 4] {
        let builder = Runtime::builder().workers(workers).name("visited");
        let runtime = builder.build().expect("threads");
        let of_all = |both: (String, String)| assert_eq!(both, ("visited".into(), "visited".into()));
        runtime.block_on(async {
            of_all(join(pool, pool));
            let mut job = String::new();
            let body = warpweft::scope(|scope| {
                scope.spawn(|_| job = pool());
                pool()
            });
            of_all((body, job));
            warpweft::par_for(0..10, 1, |_| assert_eq!(pool(), "visited"));
        });
        // Its threads for closures that block are of no worker, and visit it.
        let blocking = runtime.spawn_blocking(|| join(pool, pool));
        of_all(runtime.block_on(blocking).expect("no panic"));
        // The visit within counts, and the one around it counts again.
        let other = Runtime::builder().workers(1).name("within").build();
        let other = other.expect("threads");
        runtime.block_on(async {
            let (within, _) = other.block_on(async { join(pool, pool) });
            assert_eq!(within, "within");
            of_all(join(pool, pool));
        });
        // A task has a pool, and forks there whatever it visits.
        let job = runtime.spawn_job(move || other.block_on(async { join(pool, pool) }));
        of_all(job.wait().expect("no panic"));
    }
}

#[test]
fn a_fork_in_a_visit_of_a_pool_that_has_closed_says_so() {
    let runtime = Runtime::builder().workers(1).build().expect("threads");
    runtime.shutdown();
    let panic = catch_unwind(AssertUnwindSafe(|| runtime.block_on(async { join(|| 1, || 2) })));
    let panic = panic.expect_err("there is no worker");
    let text = panic.downcast_ref::<String>().expect("a message");
    assert!(text.contains("shutting down"), "{text}");
}

#[test]
fn slow_halves_are_shared() {
    everywhere(|runtime| {
        let rounds = if runtime.workers() == 1 { 1 } else { 50 };
        for _ in 0..rounds {
            let sum = runtime.install(|cx| {
                let (a, b) = cx.join(
                    |_| thread::sleep(Duration::from_millis(1)),
                    |cx| cx.join(|_| thread::sleep(Duration::from_millis(1)), |_| ()),
                );
                (a, b)
            });
            sum.expect("open");
        }
        if runtime.workers() > 1 {
            assert!(runtime.counters().total().get(Count::ForksTaken) > 0);
        }
    });
}

/// What must hold whichever half panics, wherever the second one runs.
#[test]
fn a_panic_arrives_when_both_halves_have_ended() {
    everywhere(|runtime| {
        for (first, second) in [(true, false), (false, true), (true, true)] {
            for slow in [false, true] {
                let ended = AtomicUsize::new(0);
                let started = AtomicUsize::new(0);
                let half = |name: &'static str, panics: bool, wait: bool| {
                    started.fetch_add(1, Ordering::Relaxed);
                    if wait {
                        thread::sleep(Duration::from_millis(1));
                    }
                    ended.fetch_add(1, Ordering::Relaxed);
                    if panics {
                        std::panic::resume_unwind(Box::new(name));
                    }
                };
                let caught = runtime
                    .install(|cx| {
                        let join =
                            || cx.join(|_| half("first", first, slow), |_| half("second", second, slow));
                        let caught = catch_unwind(AssertUnwindSafe(join));
                        // Nobody works on the frame any more.
                        assert_eq!(started.load(Ordering::Relaxed), ended.load(Ordering::Relaxed));
                        caught.err().map(|panic| *panic.downcast::<&str>().expect("ours"))
                    })
                    .expect("open");
                assert_eq!(caught, Some(if first { "first" } else { "second" }));
                // And the stack can fork again: chili leaves a pointer into the dead frame behind.
                assert_eq!(runtime.install(|cx| fib(cx, 10)).expect("open"), 55);
            }
        }
    });
}

#[test]
fn a_panic_in_a_drop_while_another_one_unwinds_is_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("bomb"));
        }
    }
    everywhere(|runtime| {
        let caught = runtime.install(|cx| {
            let bomb = Bomb;
            let caught = catch_unwind(AssertUnwindSafe(|| {
                cx.join(
                    |_| std::panic::resume_unwind(Box::new("first")),
                    move |_| {
                        let _keep = bomb;
                    },
                )
            }));
            caught
                .map(|((), ())| ())
                .err()
                .map(|panic| *panic.downcast::<&str>().expect("ours"))
        });
        assert_eq!(caught.expect("open"), Some("first"));
    });
}

#[test]
fn a_second_half_is_dropped_once_when_the_first_panics() {
    struct Drops<'a>(&'a AtomicUsize);
    impl Drop for Drops<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    everywhere(|runtime| {
        let drops = AtomicUsize::new(0);
        for _ in 0..100 {
            let drops = &drops;
            let result = runtime.install(move |cx| {
                catch_unwind(AssertUnwindSafe(|| {
                    let one = Drops(drops);
                    cx.join(
                        |_| std::panic::resume_unwind(Box::new("first")),
                        move |_| drop(one),
                    )
                }))
                .map(|((), ())| ())
                .is_err()
            });
            assert!(result.expect("open"));
        }
        assert_eq!(drops.load(Ordering::Relaxed), 100);
    });
}

#[test]
fn a_first_half_may_use_what_cannot_be_sent() {
    let runtime = Runtime::builder().workers(2).build().expect("two");
    let sum = runtime.install(|cx| {
        let here = Cell::new(1);
        let (a, b) = cx.join(
            |_| {
                here.set(2);
                here.get()
            },
            |_| 3,
        );
        a + b
    });
    assert_eq!(sum.expect("open"), 5);
}

#[test]
fn a_half_may_wait_for_a_task() {
    everywhere(|runtime| {
        let sum = runtime.install(|cx| {
            let (a, b) = cx.join(
                |cx| {
                    // The older fork is latent or on offer; this wait makes a task of it.
                    let (a, b) = cx.join(
                        |_| spawn_job(|| 1).wait().expect("no panic"),
                        |_| spawn_job(|| 2).wait().expect("no panic"),
                    );
                    a + b
                },
                |_| spawn_job(|| 3).wait().expect("no panic"),
            );
            a + b
        });
        assert_eq!(sum.expect("open"), 6);
    });
}

/// The halves need each other: on one worker, too.
#[test]
fn halves_that_wait_for_each_other() {
    everywhere(|runtime| {
        for _ in 0..20 {
            let (to_second, from_first) = channel();
            let (to_first, from_second) = channel();
            let both = runtime.install(|cx| {
                cx.join(
                    |_| {
                        to_second.send(1);
                        from_second.recv()
                    },
                    |_| {
                        to_first.send(2);
                        from_first.recv()
                    },
                )
            });
            assert_eq!(both.expect("open"), (2, 1));
        }
    });
}

/// rayon#592: a lock is held across a join, and what runs meanwhile wants the same lock.
#[test]
fn a_lock_may_be_held_across_a_join() {
    everywhere(|runtime| {
        let lock = warpweft_lock();
        let done = AtomicUsize::new(0);
        fn work(cx: ForkCx<'_>, lock: &Mutex<u64>, done: &AtomicUsize, depth: usize) {
            if depth == 0 {
                let _guard = lock.lock().expect("not poisoned");
                cx.join(|_| spin(20), |_| spin(60));
                done.fetch_add(1, Ordering::Relaxed);
                return;
            }
            cx.join(
                |cx| work(cx, lock, done, depth - 1),
                |cx| work(cx, lock, done, depth - 1),
            );
        }
        runtime.install(|cx| work(cx, &lock, &done, 6)).expect("open");
        assert_eq!(done.load(Ordering::Relaxed), 64);
    });
}

fn warpweft_lock() -> Mutex<u64> {
    Mutex::new(0)
}

fn spin(micros: u64) {
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_micros(micros) {
        std::hint::spin_loop();
    }
}

/// rayon#957: a short join is not kept by a long job that its worker picked up meanwhile.
#[test]
fn a_join_is_not_stuck_under_a_stranger() {
    let runtime = Runtime::builder().workers(2).build().expect("two");
    for _ in 0..20 {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let long = std::sync::Arc::clone(&stop);
        runtime
            .install(|cx| {
                cx.join(
                    |_| {
                        spin(20);
                        spawn_job(move || {
                            while !long.load(Ordering::Relaxed) {
                                thread::yield_now();
                            }
                        })
                        .detach();
                    },
                    |_| spin(200),
                )
            })
            .expect("open");
        // The join came back although the long job runs somewhere, or waits for a worker.
        stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn install_on_another_runtime_suspends_the_caller() {
    everywhere(|runtime| {
        let other = Runtime::builder().workers(1).name("other").build().expect("one");
        let names = runtime
            .install(|_| {
                let name = |_: ForkCx<'_>| thread::current().name().map(str::to_owned).expect("named");
                let there = other.install(name).expect("open");
                // And back again, while the other one waits: rayon#1105.
                let back = other
                    .install(|_| runtime.install(name).expect("open"))
                    .expect("open");
                (there, back)
            })
            .expect("open");
        assert!(names.0.starts_with("other-"), "{names:?}");
        assert!(names.1.starts_with("warpweft-"), "{names:?}");
    });
}

#[test]
fn a_closed_runtime_installs_nothing() {
    let runtime = Runtime::builder().workers(1).build().expect("one");
    runtime.shutdown();
    assert_eq!(runtime.install(|_| ()), Err(SpawnError::Closed));
}

#[test]
fn a_panic_of_an_installed_closure_is_the_callers() {
    let runtime = Runtime::builder().workers(1).build().expect("one");
    let caught = catch_unwind(AssertUnwindSafe(|| {
        runtime.install(|_| -> () { std::panic::resume_unwind(Box::new(7_i32)) })
    }));
    assert_eq!(caught.expect_err("it panicked").downcast_ref::<i32>(), Some(&7));
}

/// A one-shot channel whose `recv` waits as a task should.
fn channel() -> (Sender, Receiver) {
    let shared = std::sync::Arc::new(Mutex::new((None, None::<std::task::Waker>)));
    (Sender(std::sync::Arc::clone(&shared)), Receiver(shared))
}

type Slot = std::sync::Arc<Mutex<(Option<i32>, Option<std::task::Waker>)>>;

struct Sender(Slot);

impl Sender {
    fn send(&self, value: i32) {
        let waker = {
            let mut slot = self.0.lock().expect("not poisoned");
            slot.0 = Some(value);
            slot.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct Receiver(Slot);

impl Receiver {
    fn recv(&self) -> i32 {
        warpweft::block_on(std::future::poll_fn(|cx| {
            let mut slot = self.0.lock().expect("not poisoned");
            match slot.0.take() {
                Some(value) => std::task::Poll::Ready(value),
                None => {
                    slot.1 = Some(cx.waker().clone());
                    std::task::Poll::Pending
                }
            }
        }))
    }
}

#[test]
fn a_broadcast_runs_once_on_each_worker() {
    everywhere(|runtime| {
        let names = runtime
            .broadcast(|worker| (worker, thread::current().id()))
            .expect("open");
        assert!(names.iter().enumerate().all(|(n, (worker, _))| n == *worker));
        assert_eq!(names.len(), runtime.workers());
        // From inside, too, where it needs the caller's own worker.
        let inside = runtime.install(|_| runtime.broadcast(|worker| worker).expect("open"));
        assert_eq!(inside.expect("open"), (0..runtime.workers()).collect::<Vec<_>>());
    });
}

#[test]
fn a_broadcast_reaches_busy_workers() {
    let runtime = Runtime::builder().workers(2).build().expect("two");
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    for _ in 0..4 {
        let stop = std::sync::Arc::clone(&stop);
        runtime
            .spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    warpweft::yield_now().await;
                }
            })
            .detach();
    }
    assert_eq!(runtime.broadcast(|worker| worker).expect("open"), [0, 1]);
    stop.store(true, Ordering::Relaxed);
}

#[test]
fn a_broadcast_on_a_closed_runtime_is_refused() {
    let runtime = Runtime::builder().workers(2).build().expect("two");
    runtime.shutdown();
    assert_eq!(runtime.broadcast(|worker| worker), Err(SpawnError::Closed));
}

/// What a task finds below it on the stack does not depend on how many came before it.
#[test]
fn the_stack_does_not_grow_with_the_number_of_tasks() {
    fn depth_of(tasks: usize) -> usize {
        let runtime = Runtime::builder().workers(2).build().expect("two");
        let deepest = AtomicUsize::new(0);
        // Each thread has a stack of its own.
        thread_local!(static FOOT: Cell<usize> = const { Cell::new(0) });
        runtime
            .install(|cx| {
                cx.scope(|scope| {
                    for _ in 0..tasks {
                        let deepest = &deepest;
                        scope.spawn(move |_| {
                            let here = std::ptr::from_ref(&deepest).addr();
                            let foot = FOOT.with(|foot| {
                                foot.set(foot.get().max(here));
                                foot.get()
                            });
                            deepest.fetch_max(foot - here, Ordering::Relaxed);
                            // A wait, which elsewhere would take another task on top.
                            spawn_job(|| ()).wait().expect("no panic");
                        });
                    }
                });
            })
            .expect("open");
        deepest.into_inner()
    }
    let (few, many) = (depth_of(10), depth_of(2000));
    assert!(
        many <= few.max(2048) * 2,
        "{few} bytes with 10 tasks, {many} with 2000"
    );
}

/// The frame that waits runs a part of what it waits for, on its thread, while it holds a lock. Another
/// thread may be faster, but not always.
#[test]
fn a_frame_that_waits_runs_parts_of_its_other_half() {
    let runtime = Runtime::builder()
        .workers(2)
        .stuck_after(None)
        .build()
        .expect("workers");
    let until = |flag: &AtomicBool| {
        while !flag.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    };
    let locked = Mutex::new(());
    let runs_a_part = || {
        let (stolen, ran) = (AtomicBool::new(false), AtomicBool::new(false));
        let second = |cx: ForkCx<'_>| {
            stolen.store(true, Ordering::SeqCst);
            let part = |_: ForkCx<'_>| {
                ran.store(true, Ordering::SeqCst);
                thread::current().id()
            };
            cx.join(|_| until(&ran), part).1
        };
        let threads = runtime.install(|cx| {
            let _held = locked.lock().expect("no panic");
            let owner = thread::current().id();
            (owner, cx.join(|_| until(&stolen), second).1)
        });
        let (owner, part) = threads.expect("it is open");
        owner == part
    };
    assert!((0..1000).any(|_| runs_a_part()));
}
