//! `join`, scopes, and the right to fork.
#![forbid(unsafe_code)]

use crate::child::World;
use crate::keepers::eventually;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use warpweft::time::sleep;
use warpweft::{
    ForkCx, JoinError, Runtime, block_on, blocking, fiber, join, par_chunks_mut, par_for, scope, spawn,
};

/// Runs a body as a job, as a fiber, installed, and outside of any task.
fn everywhere(world: World, body: fn()) {
    let runtime = world.runtime();
    runtime.spawn_job(body).wait().expect("no panic in a job");
    runtime.spawn_fiber(body).wait().expect("no panic in a fiber");
    runtime.install(|_| body()).expect("it is open");
    runtime.block_on(async { body() });
    body();
}

fn caught<R>(body: impl FnOnce() -> R) -> Option<&'static str> {
    let panic = catch_unwind(AssertUnwindSafe(body)).err()?;
    Some(
        panic
            .downcast_ref::<&'static str>()
            .copied()
            .unwrap_or("another payload"),
    )
}

/// Tries: a panic in the first half, whether the second half is taken or not.
/// Expected: the second half runs, once; the panic of the first half continues.
#[test]
fn the_second_half_runs_though_the_first_one_panics() {
    program!(|world| {
        everywhere(world, || {
            for round in 0..50 {
                let ran = AtomicUsize::new(0);
                let panic = caught(|| {
                    join(
                        || {
                            if round % 2 == 0 {
                                thread::sleep(Duration::from_micros(100));
                            }
                            resume_unwind(Box::new("first"))
                        },
                        || ran.fetch_add(1, Ordering::Relaxed),
                    )
                });
                assert_eq!((panic, ran.load(Ordering::Relaxed)), (Some("first"), 1));
            }
        });
    });
}

/// Tries: panics in both halves, nested ten levels deep, with a different payload in each.
/// Expected: the payload of the first half at each level; each leaf has run.
#[test]
fn both_halves_panic_at_all_levels() {
    fn tree(depth: u32, leaves: &AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            resume_unwind(Box::new("leaf"));
        }
        join(|| tree(depth - 1, leaves), || tree(depth - 1, leaves));
    }
    program!(|world| {
        everywhere(world, || {
            let leaves = AtomicUsize::new(0);
            assert_eq!(caught(|| tree(7, &leaves)), Some("leaf"));
            assert_eq!(leaves.load(Ordering::Relaxed), 1 << 7);
        });
    });
}

/// Tries: a sort in place with a hole, as in rayon's merge sort: the second half must have written its part
/// when the first half's panic arrives. Expected: each element is there once.
#[test]
fn a_sort_with_a_hole_keeps_its_elements() {
    program!(|world| {
        everywhere(world, || {
            for _ in 0..20 {
                let mut numbers: Vec<Option<u32>> = (0..64).map(Some).collect();
                let (left, right) = numbers.split_at_mut(32);
                let rotate = |half: &mut [Option<u32>], panics: bool| {
                    let hole = half[0].take();
                    half.rotate_left(1);
                    if panics {
                        let last = half.len() - 1;
                        half[last] = hole;
                        resume_unwind(Box::new("comparison"));
                    }
                    let last = half.len() - 1;
                    half[last] = hole;
                };
                let panic = caught(|| join(|| rotate(left, true), || rotate(right, false)));
                assert_eq!(panic, Some("comparison"));
                let mut there: Vec<_> = numbers.iter().map(|number| number.expect("no hole")).collect();
                assert_eq!(
                    (there[31], there[32], there[63]),
                    (0, 33, 32),
                    "both halves have run"
                );
                there.sort_unstable();
                assert!(there.into_iter().eq(0..64));
            }
        });
    });
}

/// Tries: scopes whose body panics, whose jobs panic, and whose jobs spawn further jobs while they panic.
/// Expected: all jobs run, and then one panic continues.
#[test]
fn scopes_that_panic() {
    program!(|world| {
        everywhere(world, || {
            let ran = AtomicUsize::new(0);
            let panic = caught(|| {
                scope(|scope| {
                    for n in 0..20 {
                        let ran = &ran;
                        scope.spawn(move |scope| {
                            scope.spawn(move |_| {
                                ran.fetch_add(1, Ordering::Relaxed);
                                if n % 5 == 0 {
                                    resume_unwind(Box::new("inner"));
                                }
                            });
                            if n % 3 == 0 {
                                resume_unwind(Box::new("job"));
                            }
                        });
                    }
                    resume_unwind(Box::new("body"))
                })
            });
            assert_eq!((panic, ran.load(Ordering::Relaxed)), (Some("body"), 20));
        });
    });
}

/// Tries: handles of scoped futures that are forgotten, kept in cycles, dropped by another job, or awaited in
/// a circle. Expected: the scope ends when its futures have; what was forgotten is leaked.
#[test]
fn handles_of_scopes_are_forgotten() {
    program!(|world| {
        everywhere(world, || {
            let text = String::from("borrowed");
            let borrowed = &text;
            for n in 0..30 {
                scope(|scope| {
                    let handle = scope.spawn_future(async move {
                        warpweft::yield_now().await;
                        borrowed.len()
                    });
                    let second = scope.spawn_future(async move { handle.await.map(|n| n + 1).unwrap_or(0) });
                    match n % 3 {
                        0 => std::mem::forget(second),
                        1 => drop(second),
                        _ => scope.spawn(move |_| assert_eq!(second.wait().expect("no panic"), 9)),
                    }
                    let panics = scope.spawn_future(async { resume_unwind(Box::new("forgotten")) });
                    let panics: warpweft::ScopedHandle<'_, ()> = panics;
                    std::mem::forget(panics);
                });
            }
        });
    });
}

/// Tries: the right to fork, used in `blocking`, in `block_on` of another runtime, in a handler's clause and
/// in a destructor, all of which the compiler lets it go to. Expected: both halves run.
#[test]
fn the_right_to_fork_in_odd_places() {
    struct Forks<'a>(ForkCx<'a>, &'a AtomicUsize);
    impl Drop for Forks<'_> {
        fn drop(&mut self) {
            let count = || self.1.fetch_add(1, Ordering::Relaxed);
            self.0.join(|_| count(), |_| count());
        }
    }
    program!(|world| {
        let (runtime, other) = (world.runtime(), world.runtime());
        for _ in 0..world.count(50) {
            let count = AtomicUsize::new(0);
            let body = |cx: ForkCx<'_>| {
                let add = || count.fetch_add(1, Ordering::Relaxed);
                blocking(|| cx.join(|_| add(), |_| add()));
                blocking(|| {
                    cx.join(
                        |cx| drop(cx.join(|_| add(), |_| add())),
                        |_| thread::sleep(Duration::from_micros(50)),
                    );
                });
                other.block_on(async { cx.join(|_| add(), |_| add()) });
                other.block_on(async {
                    sleep(Duration::from_micros(10)).await;
                    cx.join(|_| add(), |_| block_on(sleep(Duration::from_micros(10))));
                });
                warpweft::uncooperative(|| cx.scope(|scope| scope.spawn(|_| drop(add()))));
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    let _forks = Forks(cx, &count);
                    resume_unwind(Box::new(0));
                }));
                drop(Forks(cx, &count));
            };
            runtime.install(body).expect("it is open");
            assert_eq!(count.load(Ordering::Relaxed), 2 + 2 + 2 + 1 + 1 + 2 + 2);
        }
    });
}

/// Joins when it is dropped.
struct JoinsAsItGoes(Arc<AtomicUsize>);

impl Drop for JoinsAsItGoes {
    fn drop(&mut self) {
        let count = || {
            self.0.fetch_add(1, Ordering::Relaxed);
        };
        // A runtime that has ended refuses it by a panic, which must not leave a destructor of a
        // thread-local.
        let fork = || {
            join(count, count);
            scope(|scope| scope.spawn(|_| count()));
        };
        let _ = catch_unwind(AssertUnwindSafe(fork));
    }
}

/// Tries: joins and scopes in destructors: of thread-locals on workers and outside, of tasks at the end of a
/// runtime, and while a panic is under way. Expected: they run, or panic because the runtime has ended;
/// nothing hangs.
#[test]
fn forks_in_destructors() {
    thread_local!(static LATE: RefCell<Vec<JoinsAsItGoes>> = const { RefCell::new(Vec::new()) });
    program!(|world| {
        let count = Arc::new(AtomicUsize::new(0));
        let goes = || JoinsAsItGoes(Arc::clone(&count));
        let runtime = world.runtime();
        for _ in 0..world.count(10) {
            let late = goes();
            runtime
                .spawn_job(move || LATE.with(|all| all.borrow_mut().push(late)))
                .wait()
                .expect("no panic");
            let late = goes();
            thread::spawn(move || LATE.with(|all| all.borrow_mut().push(late)))
                .join()
                .expect("no panic");
            let panicking = goes();
            let end = runtime.spawn_job(move || {
                let _panicking = panicking;
                panic!("with a join on the way");
            });
            let end: Result<(), JoinError> = end.wait();
            assert!(end.is_err_and(|error| error.is_panic()));
            let asleep = goes();
            runtime
                .spawn(async move {
                    let _asleep = asleep;
                    std::future::pending::<()>().await;
                })
                .detach();
            let asleep = goes();
            runtime
                .spawn_fiber(move || {
                    let _asleep = asleep;
                    fiber::wait(sleep(Duration::from_secs(3600)));
                })
                .detach();
        }
        drop(runtime);
        assert!(count.load(Ordering::Relaxed) > 0);
    });
}

/// Runs `work` in jobs or fibers of runtimes that end meanwhile, sooner or later. Each joiner gets a result.
fn ends_in_the_middle(world: World, on_fibers: bool, work: fn()) {
    for round in 0..world.count(100) as u64 {
        let runtime = world.runtime();
        let body = move || (0..50).for_each(|_| work());
        let handles: Vec<_> = (0..8)
            .map(|_| {
                if on_fibers {
                    runtime.spawn_fiber(body)
                } else {
                    runtime.spawn_job(body)
                }
            })
            .collect();
        thread::sleep(Duration::from_micros(100 * (round % 40)));
        drop(runtime);
        for handle in handles {
            let end = handle.wait();
            let told = matches!(end, Ok(()) | Err(JoinError::Shutdown | JoinError::Panicked(_)));
            assert!(told, "{end:?}");
        }
    }
}

/// Tries: shutdown while jobs are in joins and scopes whose parts wait. Expected: every frame ends.
#[test]
fn a_runtime_ends_in_the_middle_of_jobs_that_fork() {
    program!(|world| {
        ends_in_the_middle(world, false, || drop(join(timed_park, timed_park)));
        ends_in_the_middle(world, false, || {
            scope(|scope| {
                scope.spawn(|_| timed_park());
                scope.spawn(|_| timed_park());
            });
        });
        ends_in_the_middle(world, false, || {
            scope(|scope| scope.spawn(|scope| scope.spawn(|_| timed_park())));
            par_for(0..20, 1, |_| std::hint::black_box(()));
        });
    });
}

/// Tries: shutdown while fibers are in joins both of whose halves wait, so that each fiber is unwound while
/// another thread has its second half. Expected: every frame ends; threads do not wait for each other in a
/// circle.
#[test]
fn a_runtime_ends_in_the_middle_of_fibers_that_join() {
    program!(|world| ends_in_the_middle(world, true, || drop(join(timed_park, timed_park))));
}

/// Tries: shutdown while fibers are in scopes whose jobs wait on threads that also have fibers.
/// Expected: as above.
#[test]
fn a_runtime_ends_in_the_middle_of_fibers_in_scopes() {
    program!(|world| {
        ends_in_the_middle(world, true, || {
            scope(|scope| {
                scope.spawn(|_| timed_park());
                scope.spawn(|_| timed_park());
            });
        });
    });
}

fn timed_park() {
    fiber::wait(sleep(Duration::from_micros(20)));
}

/// Tries: a panic while the frame below waits for a fork that another worker has, and the taken half waits
/// for a lock. Expected: the frame outlives the half that works on it.
#[test]
fn frames_outlive_the_halves_that_others_have() {
    program!(|world| {
        let runtime = world.runtime();
        for _ in 0..world.count(100) {
            let lock = warpweft::sync::Mutex::new(0);
            let end = runtime.install(|cx| {
                caught(|| {
                    let mut local = vec![0_u8; 256];
                    let borrowed = &mut local;
                    cx.join(
                        |_| {
                            let _held = lock.lock().wait();
                            thread::sleep(Duration::from_micros(50));
                            resume_unwind(Box::new("first"))
                        },
                        |_| {
                            *lock.lock().wait() += 1;
                            borrowed.fill(7);
                        },
                    )
                })
            });
            assert_eq!(end.expect("it is open"), Some("first"));
            assert_eq!(lock.into_inner(), 1);
        }
    });
}

/// Tries: ranges at the ends of `usize`, chunks of no size and grains of no size.
/// Expected: a panic with a reason, or the right number of calls.
#[test]
fn loops_at_the_ends_of_numbers() {
    program!(|world| {
        everywhere(world, || {
            let calls = AtomicUsize::new(0);
            let count = |_| {
                calls.fetch_add(1, Ordering::Relaxed);
            };
            par_for(usize::MAX - 5..usize::MAX, 1, count);
            assert_eq!(calls.swap(0, Ordering::Relaxed), 5);
            par_for(7..7, 1, count);
            #[allow(clippy::reversed_empty_ranges, reason = "it is to do nothing")]
            par_for(7..3, 1, count);
            assert_eq!(calls.swap(0, Ordering::Relaxed), 0);
            par_for(0..100, usize::MAX, count);
            assert_eq!(calls.swap(0, Ordering::Relaxed), 100);
            let _ = caught(|| par_for(0..100, 0, count));
            let mut bytes = [0_u8; 100];
            let _ = caught(|| par_chunks_mut(&mut bytes, 0, |_, _| ()));
            par_chunks_mut(&mut bytes, usize::MAX, |_, chunk| chunk.fill(1));
            par_chunks_mut(&mut [(); 1000], 7, |_, chunk| assert!(chunk.len() <= 7));
            assert_eq!(bytes, [1; 100]);
        });
    });
}

/// Tries: futures that fork: halves that panic, are dropped in the middle, cancelled, or outlive their
/// awaiter. Expected: each half is dropped once.
#[test]
fn futures_that_fork_are_dropped_in_the_middle() {
    program!(|world| {
        let live = Arc::new(AtomicUsize::new(0));
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let half = |n: usize| {
            live.fetch_add(1, Ordering::Relaxed);
            let counted = Counted(Arc::clone(&live));
            async move {
                let _counted = counted;
                sleep(Duration::from_micros(20 * n as u64)).await;
                if n % 4 == 3 {
                    panic_any("half");
                }
            }
        };
        let runtime = world.runtime();
        let handles: Vec<_> = (0..world.count(100))
            .map(|n| {
                let (a, b, c) = (half(n % 5), half(n % 7), half(n % 3));
                let handle = runtime.spawn(async move {
                    let limit = Duration::from_micros(10 * (n % 9) as u64);
                    let tree = warpweft::join_async(a, async { drop(warpweft::join_async(b, c).await) });
                    let _ = warpweft::time::timeout(limit, tree).await;
                });
                if n % 6 == 0 {
                    handle.cancel();
                }
                handle
            })
            .collect();
        crate::keepers::all_answer(handles);
        drop(runtime);
        eventually("all halves are dropped", || live.load(Ordering::Relaxed) == 0);
    });
}

/// Tries: the free functions on a thread that visits a runtime which ends at that moment.
/// Expected: a panic that says so, or both halves.
#[test]
fn forks_from_outside_against_the_end() {
    program!(|world| {
        for _ in 0..world.count(50) {
            let runtime = Arc::new(world.runtime());
            let results: Arc<Mutex<Vec<bool>>> = Arc::default();
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (runtime, results): (Arc<Runtime>, _) = (Arc::clone(&runtime), Arc::clone(&results));
                    thread::spawn(move || {
                        runtime.block_on(async {
                            for _ in 0..20 {
                                let mut both = (0, 0);
                                let fork = || join(|| both.0 = 1, || both.1 = 1);
                                let done = catch_unwind(AssertUnwindSafe(fork)).is_ok();
                                assert_eq!(both, (i32::from(done), i32::from(done)));
                                results.lock().expect("a lock").push(done);
                                drop(spawn(async {}));
                            }
                        });
                    })
                })
                .collect();
            runtime.shutdown();
            threads
                .into_iter()
                .for_each(|thread| thread.join().expect("no panic"));
            assert_eq!(results.lock().expect("a lock").len(), 40);
        }
    });
}
