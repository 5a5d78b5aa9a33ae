//! Fibers: every way to wait, on pools of several sizes.

use crate::eventually::eventually;
use crate::everywhere::{everywhere, everywhere_with};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use warpweft::effect::Coroutine;
use warpweft::{Builder, JoinError, Runtime, block_on, fiber, join, scope, spawn, spawn_job, yield_now};

fn here() -> ThreadId {
    thread::current().id()
}

#[test]
fn a_fiber_waits_for_handles_of_every_kind() {
    everywhere(|runtime| {
        let sum = runtime.spawn_fiber(|| {
            let parts = [
                fiber::spawn(|| {
                    fiber::yield_now();
                    1
                }),
                spawn_job(|| 2),
                spawn(async {
                    yield_now().await;
                    3
                }),
            ];
            parts
                .map(|part| part.wait().expect("no panic"))
                .iter()
                .sum::<i32>()
        });
        assert_eq!(sum.wait().expect("no panic"), 6);
    });
}

#[test]
fn every_kind_waits_for_a_fiber() {
    everywhere(|runtime| {
        let slow = || {
            fiber::spawn(|| {
                for _ in 0..3 {
                    fiber::wait(yield_now());
                    fiber::yield_now();
                }
                1
            })
        };
        let job = runtime.spawn_job(move || slow().wait().expect("no panic"));
        let future = runtime.spawn(async move { slow().await.expect("no panic") });
        let blocking = runtime.spawn(async move { slow().wait().expect("no panic") });
        let outside = runtime.block_on(async move { slow().await.expect("no panic") });
        assert_eq!(outside, 1);
        for handle in [job, future, blocking] {
            assert_eq!(handle.wait().expect("no panic"), 1);
        }
    });
}

#[test]
fn a_fiber_stays_on_its_thread() {
    everywhere(|runtime| {
        let fibers: Vec<_> = (0..50)
            .map(|n: usize| {
                runtime.spawn_fiber(move || {
                    let fibers = here();
                    for round in 0..10 {
                        match (n + round) % 5 {
                            0 => block_on(yield_now()),
                            1 => spawn_job(|| ()).wait().expect("no panic"),
                            2 => {
                                join(thread::yield_now, thread::yield_now);
                            }
                            3 => fiber::scope(|scope| scope.spawn(|_| assert!(fiber::yield_now()))),
                            _ => assert!(fiber::yield_now()),
                        }
                        assert_eq!(here(), fibers, "moved in round {round}");
                    }
                })
            })
            .collect();
        for fiber in fibers {
            fiber.wait().expect("no panic");
        }
    });
}

#[test]
fn joins_and_scopes_in_fibers() {
    fn fib(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        if n.is_multiple_of(3) {
            fiber::yield_now();
        }
        let (a, b) = join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    everywhere(|runtime| {
        let fibers: Vec<_> = (0..8).map(|_| runtime.spawn_fiber(|| fib(15))).collect();
        for fiber in fibers {
            assert_eq!(fiber.wait().expect("no panic"), 610);
        }
        let sum = runtime.spawn_fiber(|| {
            let mut squares = [0; 64];
            scope(|scope| {
                for (n, square) in squares.iter_mut().enumerate() {
                    scope.spawn(move |_| *square = n * n);
                    if n % 16 == 0 {
                        fiber::yield_now();
                    }
                }
            });
            squares.iter().sum::<usize>()
        });
        assert_eq!(sum.wait().expect("no panic"), (0..64).map(|n| n * n).sum());
    });
}

#[test]
fn latent_forks_are_run_by_others_while_their_fiber_waits() {
    everywhere(|runtime| {
        let fiber = runtime.spawn_fiber(|| {
            let (sender, receiver) = gate();
            // The first half waits for the second, with one worker, too.
            join(|| block_on(receiver), || sender.open());
        });
        fiber.wait().expect("no panic");
    });
}

#[test]
fn a_scope_of_fibers_borrows() {
    everywhere(|runtime| {
        for from_a_fiber in [false, true] {
            let body = || {
                let mut words = vec![String::new(); 20];
                let nested = AtomicUsize::new(0);
                fiber::scope(|scope| {
                    for (n, word) in words.iter_mut().enumerate() {
                        let nested = &nested;
                        scope.spawn(move |scope| {
                            fiber::wait(yield_now());
                            *word = n.to_string();
                            scope.spawn(move |_| {
                                fiber::yield_now();
                                nested.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
                assert_eq!(nested.into_inner(), 20);
                words.concat()
            };
            let words = if from_a_fiber {
                runtime.spawn_fiber(body).wait()
            } else {
                runtime.spawn_job(body).wait()
            };
            assert_eq!(words.expect("no panic"), "012345678910111213141516171819");
        }
    });
}

#[test]
fn a_lock_may_be_held_across_a_wait_that_others_do_not_want_meanwhile() {
    everywhere(|runtime| {
        let lock = Arc::new(Mutex::new(0));
        let fibers: Vec<_> = (0..20)
            .map(|_| {
                let lock = Arc::clone(&lock);
                runtime.spawn_fiber(move || {
                    let one = fiber::spawn(|| 1);
                    let Ok(mut sum) = lock.try_lock() else {
                        return one.wait().map(drop).expect("no panic");
                    };
                    let (a, b) = join(|| one.wait().expect("no panic"), || 1);
                    *sum += a + b;
                })
            })
            .collect();
        for fiber in fibers {
            fiber.wait().expect("no panic");
        }
        assert!(*lock.lock().expect("not poisoned") >= 2);
    });
}

#[test]
fn a_fiber_runs_while_another_frame_of_its_thread_waits() {
    everywhere(|runtime| {
        let (open, closed) = gate();
        let (first, second) = (closed.clone(), closed);
        // The fiber waits; then a job waits on each thread, also on the fiber's.
        let fiber = runtime.spawn_fiber(move || {
            let fibers = here();
            block_on(first);
            for _ in 0..10 {
                fiber::yield_now();
                spawn_job(|| ()).wait().expect("no panic");
            }
            assert_eq!(here(), fibers);
            7
        });
        let (told, ended) = gate();
        let jobs: Vec<_> = (0..8)
            .map(|_| {
                let ended = ended.clone();
                runtime.spawn_job(move || block_on(ended))
            })
            .collect();
        eventually("all jobs wait", || runtime.threads().blocked == 8);
        open.open();
        block_on(second);
        assert_eq!(fiber.wait().expect("no panic"), 7);
        told.open();
        for job in jobs {
            job.wait().expect("no panic");
        }
    });
}

#[test]
fn a_panic_three_frames_deep_is_the_joiners() {
    fn deep(frames: usize) {
        if frames == 0 {
            fiber::yield_now();
            panic_any(42_u32);
        }
        deep(frames - 1);
    }
    everywhere(|runtime| {
        let fiber = runtime.spawn_fiber(|| deep(3));
        let panic = fiber.wait().expect_err("it panics").into_panic();
        assert_eq!(
            panic.and_then(|panic| panic.downcast().ok()),
            Some(Box::new(42_u32))
        );
        // If the panic is caught inside, the fiber continues.
        let fiber = runtime.spawn_fiber(|| {
            let caught = catch_unwind(|| deep(3)).is_err();
            fiber::wait(yield_now());
            caught
        });
        assert!(fiber.wait().expect("no panic"));
        // In a fiber of a scope the panic goes to the scope.
        let fiber = runtime.spawn_fiber(|| fiber::scope(|scope| scope.spawn(|_| deep(3))));
        assert!(fiber.wait().expect_err("it panics").is_panic());
    });
}

#[test]
fn a_wait_in_a_destructor_that_runs_because_of_a_panic() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            assert!(thread::panicking());
            let fibers = here();
            assert_eq!(spawn_job(|| 5).wait().expect("no panic"), 5);
            block_on(yield_now());
            assert!(!fiber::yield_now(), "nothing switches while it is panicking");
            assert_eq!(here(), fibers);
        }
    }
    everywhere(|runtime| {
        let fibers: Vec<_> = (0..10)
            .map(|_| {
                runtime.spawn_fiber(|| {
                    let _waits = Waits;
                    fiber::yield_now();
                    resume_unwind(Box::new("on purpose"));
                })
            })
            .collect();
        let others: Vec<_> = (0..10)
            .map(|_| {
                runtime.spawn_fiber(|| {
                    for _ in 0..10 {
                        assert!(!thread::panicking(), "a fiber sees the panic of another one");
                        fiber::yield_now();
                    }
                })
            })
            .collect();
        for fiber in fibers {
            let _: () = fiber.wait().map(|()| unreachable!()).unwrap_or_else(|error| {
                assert!(error.is_panic());
            });
        }
        for fiber in others {
            fiber.wait().expect("no panic");
        }
    });
}

#[test]
fn a_panic_in_a_destructor_at_the_end_of_a_fiber() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            resume_unwind(Box::new("in a destructor"));
        }
    }
    everywhere(|runtime| {
        let fiber = runtime.spawn_fiber(|| {
            let _panics = Panics;
            fiber::yield_now();
        });
        assert!(fiber.wait().expect_err("it panics").is_panic());
        let fiber = runtime.spawn_fiber(|| fiber::wait(yield_now()));
        fiber.wait().expect("no panic");
    });
}

#[test]
fn thread_locals_are_the_same_before_and_after() {
    thread_local!(static MINE: Cell<usize> = const { Cell::new(0) });
    everywhere(|runtime| {
        let fibers: Vec<_> = (1..=20)
            .map(|n| {
                runtime.spawn_fiber(move || {
                    let place = MINE.with(|mine| std::ptr::from_ref(mine).addr());
                    for _ in 0..5 {
                        MINE.set(n);
                        assert_eq!(MINE.get(), n);
                        fiber::wait(yield_now());
                        let now = MINE.with(|mine| std::ptr::from_ref(mine).addr());
                        assert_eq!(now, place);
                    }
                })
            })
            .collect();
        for fiber in fibers {
            fiber.wait().expect("no panic");
        }
    });
}

#[test]
fn visits_of_other_runtimes_keep_apart() {
    everywhere(|runtime| {
        let other = Arc::new(Runtime::builder().workers(1).name("other").build().expect("one"));
        let fibers: Vec<_> = (0..5)
            .map(|_| {
                let other = Arc::clone(&other);
                runtime.spawn_fiber(move || {
                    let name = || thread::current().name().map(str::to_owned).expect("named");
                    let there = other.block_on(async {
                        yield_now().await;
                        spawn_job(name).await.expect("no panic")
                    });
                    let here = spawn_job(name).wait().expect("no panic");
                    let installed = other.install(|_| name()).expect("open");
                    (there, here, installed)
                })
            })
            .collect();
        for fiber in fibers {
            let (there, here, installed) = fiber.wait().expect("no panic");
            assert!(there.starts_with("other-"), "{there}");
            assert!(here.starts_with("warpweft-"), "{here}");
            assert!(installed.starts_with("other-"), "{installed}");
        }
    });
}

#[test]
fn a_crowd_of_fibers_waits_for_one_gate() {
    everywhere(|runtime| {
        let (open, closed) = gate();
        let fibers: Vec<_> = (0..1000)
            .map(|n| {
                let closed = closed.clone();
                runtime.spawn_fiber(move || {
                    block_on(closed);
                    n
                })
            })
            .collect();
        eventually("all wait", || runtime.fibers().live == 1000);
        // No thread is blocked. Some may compensate for workers that the machine delays.
        assert!(runtime.threads().all <= 2 * runtime.workers() + 2);
        open.open();
        for (n, fiber) in fibers.into_iter().enumerate() {
            assert_eq!(fiber.wait().expect("no panic"), n);
        }
        eventually("none is left", || runtime.fibers().live == 0);
    });
}

#[test]
fn a_fiber_without_a_stack_is_an_error() {
    let runtime = Runtime::builder()
        .workers(1)
        .max_fiber_stacks(2)
        .build()
        .expect("one worker");
    let (open, closed) = gate();
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let closed = closed.clone();
            runtime.spawn_fiber(move || block_on(closed))
        })
        .collect();
    eventually("both wait", || runtime.fibers().live == 2);
    let refused = runtime.spawn_fiber(|| ()).wait().expect_err("no stack");
    assert!(matches!(refused, JoinError::NoStack));
    let refused = runtime.try_spawn_fiber(|| ()).map(drop).expect_err("no stack");
    assert!(refused.to_string().contains("no stack"), "{refused}");
    let scoped = runtime.spawn_job(|| fiber::scope(|scope| scope.spawn(|_| ())));
    assert!(scoped.wait().expect_err("no stack").is_panic());
    open.open();
    for fiber in waiting {
        fiber.wait().expect("no panic");
    }
    eventually("none is left", || runtime.fibers().live == 0);
    runtime.spawn_fiber(|| ()).wait().expect("there is one again");
}

/// The limit counts stacks in use. Stacks that threads keep for later are not in use, whichever thread keeps
/// them.
#[test]
fn stacks_that_nobody_uses_do_not_count() {
    let builder = Runtime::builder().workers(2).max_fiber_stacks(2);
    let runtime = builder.build().expect("two workers");
    // A handle is done just before the fiber leaves its stack.
    for _ in 0..100 {
        let started = || match runtime.try_spawn_fiber(|| ()) {
            Ok(fiber) => fiber.wait().is_ok(),
            Err(_) => false,
        };
        eventually("nobody uses one", started);
        eventually("nobody uses one", || runtime.spawn_fiber(|| ()).wait().is_ok());
        let handled = || runtime.spawn_job(|| Coroutine::try_new(|| ()).is_ok()).wait();
        eventually("nobody uses one", || handled().expect("no panic"));
    }
}

/// A thread keeps more stacks than may be in use: it does not use more, and keeps the others for later.
#[test]
fn a_thread_that_may_not_use_its_stack_keeps_it() {
    let builder = Runtime::builder().workers(1).stuck_after(None);
    let runtime = builder.max_fiber_stacks(2).build().expect("one worker");
    // On a stack that no thread keeps.
    let ends = || {
        let fiber = runtime.try_spawn_fiber(|| ());
        fiber.is_ok_and(|fiber| fiber.wait().is_ok())
    };
    for _ in 0..40 {
        (0..5).for_each(|_| eventually("the one before has left its stack", ends));
        // A fiber ends on its stack, and its worker runs nothing else before it has left it.
        runtime.spawn_job(|| ()).wait().expect("behind the last of them");
        let (open, closed) = gate();
        let waits = |_| {
            let closed = closed.clone();
            runtime.spawn_fiber(move || block_on(closed))
        };
        let fibers: Vec<_> = (0..5).map(waits).collect();
        // Which of them start first depends on when the worker looks at what came from outside.
        let refused = || fibers.iter().filter(|fiber| fiber.is_finished()).count();
        eventually("three have no stack", || refused() == 3);
        open.open();
        let ended = fibers.into_iter().filter_map(|fiber| fiber.wait().ok()).count();
        assert_eq!(ended, 2);
    }
    // 64 are kept; the rest comes back to the pool, and is taken again.
    let made = runtime.fibers().stacks;
    assert!((5..=66).contains(&made), "{made}");
}

#[test]
fn a_stack_is_taken_before_the_fiber_starts() {
    let runtime = Runtime::builder()
        .workers(1)
        .max_fiber_stacks(1)
        .build()
        .expect("one worker");
    let (open, closed) = gate();
    let busy = runtime.spawn_job(move || while !closed.is_open() {});
    let fiber = runtime.try_spawn_fiber(|| 1).expect("there is one");
    assert!(runtime.try_spawn_fiber(|| 1).is_err(), "there is none any more");
    open.open();
    assert_eq!(fiber.wait().expect("no panic"), 1);
    busy.wait().expect("no panic");
}

#[test]
fn stacks_of_an_impossible_size_are_refused() {
    for bytes in [0, 1000, usize::MAX] {
        let error = Runtime::builder().fiber_stack_size(bytes).build().map(drop);
        let error = error.expect_err("out of range").to_string();
        assert!(error.contains("16384 to 1073741824"), "{error}");
    }
    let runtime = Runtime::builder()
        .workers(1)
        .fiber_stack_size(1 << 20)
        .build()
        .expect("1 MiB");
    let fiber = runtime.spawn_fiber(|| {
        let mut bytes = [0_u8; 512 << 10];
        fiber::yield_now();
        std::hint::black_box(&mut bytes);
    });
    fiber.wait().expect("no panic");
    let told = runtime.fibers();
    assert_eq!(told.stack_bytes, 1 << 20);
    if cfg!(target_os = "linux") {
        assert!((512 << 10..600 << 10).contains(&told.deepest), "{told:?}");
    }
}

/// An event of a test that happens once.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Vec<std::task::Waker>)>>);

fn gate() -> (Gate, Gate) {
    let gate = Gate::default();
    (gate.clone(), gate)
}

impl Gate {
    fn open(&self) {
        let wakers = {
            let mut gate = self.0.lock().expect("unpoisoned");
            gate.0 = true;
            std::mem::take(&mut gate.1)
        };
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    fn is_open(&self) -> bool {
        self.0.lock().expect("unpoisoned").0
    }
}

impl Future for Gate {
    type Output = ();

    fn poll(self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        let mut gate = self.0.lock().expect("unpoisoned");
        if gate.0 {
            return std::task::Poll::Ready(());
        }
        gate.1.push(cx.waker().clone());
        std::task::Poll::Pending
    }
}

#[test]
fn a_pool_that_closes_unwinds_its_fibers_on_their_threads() {
    struct Marks(ThreadId, Arc<AtomicUsize>);
    impl Drop for Marks {
        fn drop(&mut self) {
            assert_eq!(here(), self.0, "unwound elsewhere");
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    everywhere(|runtime| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let (_open, closed) = gate();
        let fibers: Vec<_> = (0..100)
            .map(|_| {
                let (dropped, closed) = (Arc::clone(&dropped), closed.clone());
                runtime.spawn_fiber(move || {
                    let _marks = Marks(here(), dropped);
                    block_on(closed);
                })
            })
            .collect();
        eventually("all wait", || runtime.fibers().live == 100);
        runtime.shutdown();
        assert_eq!(dropped.load(Ordering::Relaxed), 100);
        let told = runtime.fibers();
        assert_eq!((told.live, told.unwound), (0, 100));
        assert_eq!(told.stacks, told.free, "{told:?}");
        for fiber in fibers {
            assert!(matches!(fiber.wait(), Err(JoinError::Shutdown)));
        }
    });
}

/// Fibers that yield are in a list, which they leave when they are unwound.
#[test]
fn a_pool_that_closes_unwinds_fibers_that_give_way() {
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    everywhere(|runtime| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let turns = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let (counts, turns) = (Counts(Arc::clone(&dropped)), Arc::clone(&turns));
            drop(runtime.spawn_fiber(move || {
                let _counts = counts;
                while fiber::yield_now() {
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        eventually("all give way", || {
            runtime.fibers().live == 100 && turns.load(Ordering::Relaxed) > 1000
        });
        runtime.shutdown();
        assert_eq!(dropped.load(Ordering::Relaxed), 100);
        let told = runtime.fibers();
        assert_eq!((told.live, told.unwound), (0, 100));
        assert_eq!(told.stacks, told.free, "{told:?}");
    });
}

#[test]
fn a_fiber_that_catches_the_unwinding_is_unwound_again() {
    everywhere(|runtime| {
        let (_open, closed) = gate();
        let fiber = runtime.spawn_fiber(move || {
            for _ in 0..3 {
                let caught = catch_unwind(AssertUnwindSafe(|| block_on(closed.clone())));
                assert!(caught.is_err());
            }
            // It may still use what it has, and end in any way.
            3
        });
        eventually("it waits", || runtime.fibers().live == 1);
        runtime.shutdown();
        assert_eq!(fiber.wait().expect("it ended of its own accord"), 3);
        assert_eq!(runtime.fibers().unwound, 3);
    });
}

#[test]
fn a_scope_outlives_its_fibers_also_at_the_end_of_the_pool() {
    everywhere(|runtime| {
        for job in [false, true] {
            let (_open, closed) = gate();
            let body = move || {
                let mut borrowed = vec![0; 40];
                let unwound = catch_unwind(AssertUnwindSafe(|| {
                    fiber::scope(|scope| {
                        for place in &mut borrowed {
                            let closed = closed.clone();
                            scope.spawn(move |_| {
                                struct Writes<'a>(&'a mut i32);
                                impl Drop for Writes<'_> {
                                    fn drop(&mut self) {
                                        *self.0 = 1;
                                    }
                                }
                                let _writes = Writes(place);
                                block_on(closed);
                            });
                        }
                    });
                }));
                assert!(unwound.is_err());
                borrowed.iter().sum::<i32>()
            };
            let runtime = Runtime::builder()
                .workers(runtime.workers())
                .build()
                .expect("workers");
            let outer = if job {
                runtime.spawn_job(body)
            } else {
                runtime.spawn_fiber(body)
            };
            eventually("all wait", || runtime.fibers().live == 40 + usize::from(!job));
            runtime.shutdown();
            assert_eq!(outer.wait().expect("it catches the panic"), 40);
        }
    });
}

#[test]
fn thread_locals_outlive_the_fibers_of_their_thread() {
    struct Local(Cell<bool>);
    impl Drop for Local {
        fn drop(&mut self) {
            self.0.set(false);
        }
    }
    thread_local!(static LOCAL: Local = const { Local(Cell::new(true)) });
    struct Asks(Arc<AtomicUsize>);
    impl Drop for Asks {
        fn drop(&mut self) {
            if LOCAL.try_with(|local| local.0.get()) == Ok(true) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    everywhere(|runtime| {
        let alive = Arc::new(AtomicUsize::new(0));
        let (_open, closed) = gate();
        for _ in 0..20 {
            let (alive, closed) = (Arc::clone(&alive), closed.clone());
            runtime
                .spawn_fiber(move || {
                    LOCAL.with(|local| assert!(local.0.get()));
                    let _asks = Asks(alive);
                    block_on(closed);
                })
                .detach();
        }
        eventually("all wait", || runtime.fibers().live == 20);
        runtime.shutdown();
        assert_eq!(alive.load(Ordering::Relaxed), 20);
    });
}

#[test]
fn a_thread_with_fibers_does_not_retire() {
    // Without compensating workers: one would be the thread that blocks.
    let builder = Runtime::builder().workers(1).stuck_after(None);
    let runtime = builder.build().expect("one worker");
    let (open, closed) = gate();
    let (told, ended) = gate();
    // A fiber starts, then a job blocks its thread; the next fiber starts on another one.
    let (mut fibers, mut jobs) = (Vec::new(), Vec::new());
    for n in 1..=20 {
        let (closed, ended) = (closed.clone(), ended.clone());
        fibers.push(runtime.spawn_fiber(move || {
            let fibers = here();
            block_on(closed);
            assert_eq!(here(), fibers);
            fibers
        }));
        eventually("it waits", || runtime.fibers().live == n);
        jobs.push(runtime.spawn_job(move || block_on(ended)));
        eventually("it waits", || runtime.threads().blocked == n);
    }
    told.open();
    for job in jobs {
        job.wait().expect("no panic");
    }
    eventually("all are spare", || runtime.threads().blocked == 0);
    // Longer than the idle time of a surplus thread without fibers.
    thread::sleep(Duration::from_millis(150));
    assert!(runtime.threads().all >= 20, "{:?}", runtime.threads());
    open.open();
    let mut all_fibers: Vec<_> = fibers
        .into_iter()
        .map(|fiber| format!("{:?}", fiber.wait().expect("no panic")))
        .collect();
    all_fibers.sort();
    all_fibers.dedup();
    assert_eq!(all_fibers.len(), 20);
    eventually("they retire without fibers", || runtime.threads().all <= 3);
}

#[test]
fn without_spare_threads_fibers_go_on_on_top() {
    let runtime = Runtime::builder()
        .workers(1)
        .max_threads(1)
        .build()
        .expect("one worker");
    let sum = runtime.spawn_job(|| {
        let parts: Vec<_> = (0..10)
            .map(|n| {
                fiber::spawn(move || {
                    fiber::yield_now();
                    spawn_job(move || n).wait().expect("no panic")
                })
            })
            .collect();
        parts
            .into_iter()
            .map(|part| part.wait().expect("no panic"))
            .sum::<i32>()
    });
    assert_eq!(sum.wait().expect("no panic"), 45);
}

#[test]
fn a_fiber_that_yields_on_a_blocked_thread_lets_tasks_run() {
    // Without a monitor, which would send others to do the tasks.
    let unwatched = |builder: Builder| builder.stuck_after(None);
    everywhere_with(unwatched, |runtime| {
        let (told, ended) = gate();
        let stop = Arc::new(AtomicUsize::new(0));
        let spinning = Arc::clone(&stop);
        let fiber = runtime.spawn_fiber(move || {
            while spinning.load(Ordering::Relaxed) == 0 {
                assert!(fiber::yield_now());
            }
        });
        let jobs: Vec<_> = (0..4)
            .map(|_| {
                let ended = ended.clone();
                runtime.spawn_job(move || block_on(ended))
            })
            .collect();
        eventually("every home is blocked", || runtime.threads().blocked >= 4);
        // From outside, so that no order of the policy runs the fiber's worker before it for ever.
        let stops = Arc::clone(&stop);
        let task = runtime.spawn_job(move || stops.store(1, Ordering::Relaxed));
        let start = Instant::now();
        while !task.is_finished() && start.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(1));
        }
        let ran = stop.swap(1, Ordering::Relaxed);
        told.open();
        assert_eq!(ran, 1, "the task did not run");
        fiber.wait().expect("no panic");
        for job in jobs {
            job.wait().expect("no panic");
        }
    });
}

#[test]
fn fibers_and_tasks_take_turns() {
    const TASKS: usize = 1000;
    const STEPS: usize = 10;
    // No compensating worker takes over on a busy machine.
    let runtime = Runtime::builder().workers(1).stuck_after(None);
    let runtime = runtime.build().expect("one worker");
    let (turns, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (had, stopped) = (Arc::clone(&turns), Arc::clone(&stop));
    // A fiber that always yields does not keep tasks from running, nor they it.
    let fiber = runtime.spawn_fiber(move || {
        while stopped.load(Ordering::Relaxed) == 0 {
            assert!(fiber::yield_now());
            had.fetch_add(1, Ordering::Relaxed);
        }
    });
    // From here on the policy always has a task, until all have ended.
    let meanwhile = runtime.spawn(async move {
        while turns.load(Ordering::Relaxed) == 0 {
            yield_now().await;
        }
        let before = turns.load(Ordering::Relaxed);
        let task = || async {
            for _ in 0..STEPS {
                yield_now().await;
            }
        };
        let tasks: Vec<_> = (0..TASKS).map(|_| spawn(task())).collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        turns.load(Ordering::Relaxed) - before
    });
    let meanwhile = meanwhile.wait().expect("no panic");
    stop.store(1, Ordering::Relaxed);
    fiber.wait().expect("no panic");
    assert!(
        meanwhile >= TASKS * STEPS / 2,
        "{meanwhile} turns beside {} steps of tasks",
        TASKS * (STEPS + 1)
    );
}

/// A thread that keeps its waker keeps its fiber waker alive.
#[test]
fn a_waker_that_is_kept_keeps_no_pool() {
    let pools = Arc::new(());
    let held = Arc::clone(&pools);
    let runtime = Runtime::builder()
        .workers(1)
        .on_stall(move |_| drop(Arc::clone(&held)))
        .build()
        .expect("one worker");
    let own = || {
        block_on(std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            std::task::Poll::Ready(cx.waker().clone())
        }))
    };
    let wakers: Vec<_> = (0..100)
        .map(|_| runtime.spawn_fiber(own).wait().expect("no panic"))
        .collect();
    // On its thread and from elsewhere; the fibers are other bodies' now, or gone.
    let again = wakers.clone();
    let at_home = runtime.spawn_job(move || again.into_iter().for_each(std::task::Waker::wake));
    at_home.wait().expect("no panic");
    wakers.iter().for_each(std::task::Waker::wake_by_ref);
    drop(runtime);
    assert_eq!(Arc::strong_count(&pools), 1);
    wakers.iter().for_each(std::task::Waker::wake_by_ref);
}

#[test]
fn a_wait_within_a_wait() {
    everywhere(|runtime| {
        let (outer, inner) = (Gate::default(), Gate::default());
        let (mut waits, mut within) = (outer.clone(), Some(inner.clone()));
        let fiber = runtime.spawn_fiber(move || {
            block_on(std::future::poll_fn(move |cx| {
                let seen = std::pin::Pin::new(&mut waits).poll(cx);
                within.take().inspect(|inner| block_on(inner.clone()));
                seen
            }));
        });
        outer.open();
        inner.open();
        fiber.wait().expect("no panic");
    });
}
