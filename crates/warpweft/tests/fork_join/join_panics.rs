//! Joins whose first half panics: the second one runs all the same, as in rayon, unless the stack was told to
//! end.
#![cfg(feature = "macros")]

use crate::everywhere::everywhere;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::effect::{self, Effect};
use warpweft::time::sleep;
use warpweft::{ForkCx, JoinError, Runtime, block_on, cooperate, fiber, spawn_job};

const LIMIT: Duration = Duration::from_secs(30);

/// Panics without a report.
fn throw(what: &'static str) -> ! {
    resume_unwind(Box::new(what))
}

/// What a closure panicked with.
fn thrown<T>(closure: impl FnOnce() -> T) -> Option<&'static str> {
    let caught = catch_unwind(AssertUnwindSafe(closure));
    caught.err().map(|panic| *panic.downcast().expect("a text"))
}

/// Runs it as a job of each runtime, and as a fiber.
fn in_jobs_and_fibers(program: impl Fn() + Send + Sync + 'static) {
    let program = Arc::new(program);
    everywhere(|runtime| {
        let job = Arc::clone(&program);
        let fiber = Arc::clone(&program);
        let both = [
            runtime.spawn_job(move || job()),
            runtime.spawn_fiber(move || fiber()),
        ];
        for one in both {
            let (done, end) = mpsc::channel();
            thread::spawn(move || done.send(one.wait()));
            let end = end.recv_timeout(LIMIT).expect("it ends");
            end.expect("no panic");
        }
    });
}

#[test]
fn the_second_half_runs() {
    in_jobs_and_fibers(|| {
        let ran = AtomicUsize::new(0);
        for _ in 0..100 {
            let join = || {
                warpweft::join(
                    || throw("first"),
                    || {
                        assert!(!thread::panicking());
                        ran.fetch_add(1, Ordering::Relaxed);
                    },
                )
            };
            assert_eq!(thrown(join), Some("first"));
        }
        assert_eq!(ran.load(Ordering::Relaxed), 100);
    });
}

#[test]
fn a_second_half_that_was_taken_ends_before_the_panic_goes_on() {
    for workers in [2, 4] {
        let runtime = Runtime::builder().workers(workers).build().expect("workers");
        for _ in 0..20 {
            let (began, ended) = (AtomicBool::new(false), AtomicBool::new(false));
            let body = |cx: ForkCx<'_>| {
                let join = || {
                    cx.join(
                        |_| {
                            while !began.load(Ordering::Acquire) {
                                thread::yield_now();
                            }
                            throw("first")
                        },
                        |_| {
                            began.store(true, Ordering::Release);
                            thread::sleep(Duration::from_millis(1));
                            ended.store(true, Ordering::Release);
                            throw("second")
                        },
                    )
                };
                assert_eq!(thrown(join), Some("first"));
                assert!(ended.load(Ordering::Acquire));
            };
            runtime.install(body).expect("it is open");
        }
    }
}

#[test]
fn the_first_panic_counts() {
    /// Panics when it is dropped, as what a panic is thrown with.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            resume_unwind(Box::new("a bomb"));
        }
    }
    in_jobs_and_fibers(|| {
        let join = || warpweft::join(|| throw("first"), || throw("second"));
        assert_eq!(thrown(join), Some("first"));
        let join = || warpweft::join(|| throw("first"), || resume_unwind(Box::new(Bomb)));
        assert_eq!(thrown(join), Some("first"));
        let join = || warpweft::join(|| throw("first"), || Bomb);
        assert_eq!(thrown(|| drop(join())), Some("first"));
    });
}

/// Each leaf of a tree runs, and the panic is that of the first one in order, wherever the others ran.
#[test]
fn every_leaf_of_a_tree_runs() {
    fn tree(cx: ForkCx<'_>, depth: usize, number: usize, ran: &[AtomicUsize]) {
        if depth == 0 {
            ran[number].fetch_add(1, Ordering::Relaxed);
            if number % 3 == 1 {
                resume_unwind(Box::new(number));
            }
            return;
        }
        cx.join(
            |cx| tree(cx, depth - 1, 2 * number, ran),
            |cx| tree(cx, depth - 1, 2 * number + 1, ran),
        );
    }
    everywhere(|runtime| {
        for _ in 0..10 {
            let ran: Vec<_> = (0..256).map(|_| AtomicUsize::new(0)).collect();
            let body = || runtime.install(|cx| tree(cx, 8, 0, &ran));
            let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("a leaf panics");
            assert_eq!(panic.downcast_ref::<usize>(), Some(&1));
            assert!(ran.iter().all(|ran| ran.load(Ordering::Relaxed) == 1));
        }
        // So it is with loops: the rest of a piece is left out, and nothing else.
        let called: Vec<_> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        let body = |n: usize| {
            called[n].fetch_add(1, Ordering::Relaxed);
            if n % 100 == 50 {
                resume_unwind(Box::new(n));
            }
        };
        let panic = catch_unwind(AssertUnwindSafe(|| {
            runtime.install(|_| warpweft::par_for(0..1000, 1, body))
        }));
        let panic = panic.expect_err("it panics");
        assert_eq!(panic.downcast_ref::<usize>(), Some(&50));
        assert!(called.iter().all(|called| called.load(Ordering::Relaxed) == 1));
        let mut numbers = vec![0; 1000];
        let panic = catch_unwind(AssertUnwindSafe(|| {
            runtime.install(|_| {
                warpweft::par_chunks_mut(&mut numbers, 10, |piece, chunk| {
                    for (n, number) in chunk.iter_mut().enumerate() {
                        *number = 1;
                        if piece == 7 && n == 4 {
                            throw("a piece");
                        }
                    }
                });
            })
        }));
        assert!(panic.is_err());
        assert_eq!(numbers.iter().sum::<i32>(), 995);
        // And with scopes.
        let jobs = AtomicUsize::new(0);
        let scope = || {
            runtime.install(|_| {
                warpweft::scope(|scope| {
                    for _ in 0..50 {
                        scope.spawn(|scope| {
                            scope.spawn(|_| {
                                jobs.fetch_add(1, Ordering::Relaxed);
                            });
                            throw("a job");
                        });
                    }
                    throw("the body");
                });
            })
        };
        assert_eq!(thrown(scope), Some("the body"));
        assert_eq!(jobs.load(Ordering::Relaxed), 50);
    });
}

struct Ask;

impl Effect for Ask {
    type Answer = u32;
}

/// The second half may do what it may elsewhere: wait, fork, hold locks, and let the other fibers of its
/// thread run.
#[test]
fn the_second_half_may_wait() {
    in_jobs_and_fibers(|| {
        let lock = Arc::new(warpweft::sync::Mutex::new(0));
        let seconds: [&(dyn Fn() + Sync); 6] = [
            &|| block_on(sleep(Duration::from_millis(1))),
            &|| {
                let held = lock.lock().wait();
                let other = Arc::clone(&lock);
                let waits = spawn_job(move || *other.lock().wait() += 1);
                drop(held);
                waits.wait().expect("no panic");
            },
            &|| assert_eq!(warpweft::join(|| 1, || spawn_job(|| 2).wait().ok()), (1, Some(2))),
            // On the same thread, where this is a fiber.
            &|| {
                let (to, from) = warpweft::sync::channel::bounded(0);
                let beside = fiber::spawn_here(move || {
                    for n in 0..10 {
                        to.send(n).wait().expect("it is received");
                    }
                });
                for n in 0..10 {
                    assert_eq!(from.recv().wait(), Ok(n));
                }
                beside.wait().expect("no panic");
            },
            &|| {
                let handler = effect::Handler::new().on::<Ask, _>(|_, k| k.resume(6));
                assert_eq!(effect::handle(|| effect::perform(Ask) + 1, handler), 7);
            },
            &|| {
                let join =
                    || warpweft::join(|| throw("within"), || block_on(sleep(Duration::from_millis(1))));
                assert_eq!(thrown(join), Some("within"));
            },
        ];
        for second in seconds {
            let ended = AtomicBool::new(false);
            let join = || {
                warpweft::join(
                    || throw("first"),
                    || {
                        second();
                        ended.store(true, Ordering::Release);
                    },
                )
            };
            assert_eq!(thrown(join), Some("first"));
            assert!(ended.load(Ordering::Acquire));
        }
    });
}

/// An effect that the second half performs, outside of which a handler waits.
#[test]
fn the_second_half_may_perform_an_effect_of_its_stack() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let answer = runtime.spawn_job(|| {
        let body = || {
            let answer = AtomicUsize::new(0);
            let join = || {
                warpweft::join(
                    || throw("first"),
                    || answer.store(effect::perform(Ask) as usize, Ordering::Relaxed),
                )
            };
            assert_eq!(thrown(join), Some("first"));
            answer.into_inner()
        };
        effect::handle(body, effect::Handler::new().on::<Ask, _>(|_, k| k.resume(6)))
    });
    assert_eq!(answer.wait().expect("no panic"), 6);
}

/// Counts what was dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A second half that says whether it ran.
fn second(ran: &Arc<AtomicBool>, drops: &Arc<AtomicUsize>) -> impl FnOnce() + Send + use<> {
    let (ran, counted) = (Arc::clone(ran), Counted(Arc::clone(drops)));
    move || {
        let _counted = counted;
        ran.store(true, Ordering::Relaxed);
    }
}

#[test]
fn nothing_begins_in_a_job_that_was_told_to_end() {
    let ran = Arc::new(AtomicBool::new(false));
    let drops = Arc::new(AtomicUsize::new(0));
    // With one worker, which is busy, the second half is taken by none.
    let runtime = Runtime::builder().workers(1).stuck_after(None).build();
    let runtime = runtime.expect("a worker");
    let endless = |begun: mpsc::Sender<()>| {
        let second = second(&ran, &drops);
        move || {
            let first = cooperate!(|| {
                begun.send(()).expect("it is waited for");
                loop {
                    std::hint::spin_loop();
                }
            });
            warpweft::join(first, second);
        }
    };
    // An effect is discontinued.
    let body = second(&ran, &drops);
    let job = runtime.spawn_job(move || {
        let handler = effect::Handler::new().on::<Ask, _>(|_, k| {
            drop(k);
            effect::Next::Leave(7)
        });
        effect::handle(|| warpweft::join(|| effect::perform(Ask), body).0, handler)
    });
    assert_eq!(job.wait().expect("no panic"), 7);
    // The task is cancelled.
    let (begun, begins) = mpsc::channel();
    let task = runtime.spawn_job(endless(begun));
    begins.recv().expect("it begins");
    task.cancel();
    assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
    // The runtime goes.
    let (begun, begins) = mpsc::channel();
    let task = runtime.spawn_job(endless(begun));
    begins.recv().expect("it begins");
    let start = Instant::now();
    drop(runtime);
    assert!(start.elapsed() < LIMIT);
    assert!(matches!(task.wait(), Err(JoinError::Shutdown)));
    assert!(!ran.load(Ordering::Relaxed));
    assert_eq!(drops.load(Ordering::Relaxed), 3, "each is dropped, once");
}

/// It catches the unwinding, and forks all the same.
#[test]
fn nothing_begins_on_a_fiber_that_was_told_to_end() {
    for workers in [1, 2, 4] {
        let ran = Arc::new(AtomicBool::new(false));
        let drops = Arc::new(AtomicUsize::new(0));
        let seconds = [second(&ran, &drops), second(&ran, &drops)];
        let joined = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&joined);
        let runtime = Runtime::builder().workers(workers).build().expect("workers");
        let (begun, begins) = mpsc::channel();
        let task = runtime.spawn_fiber(move || {
            let wait = || block_on(std::future::pending::<()>());
            begun.send(()).expect("it is waited for");
            assert!(catch_unwind(wait).is_err());
            let [one, other] = seconds;
            let join = || warpweft::join(|| throw("first"), one);
            assert_eq!(thrown(join), Some("first"));
            count.fetch_add(1, Ordering::Relaxed);
            assert!(catch_unwind(AssertUnwindSafe(|| warpweft::join(wait, other))).is_err());
            count.fetch_add(1, Ordering::Relaxed);
        });
        begins.recv().expect("it begins");
        drop(runtime);
        task.wait().expect("it has caught the unwinding");
        assert_eq!(joined.load(Ordering::Relaxed), 2);
        assert!(!ran.load(Ordering::Relaxed));
        assert_eq!(drops.load(Ordering::Relaxed), 2, "each is dropped, once");
    }
}

/// The runtime goes while a second half waits whose first one has panicked. With one worker nobody takes it:
/// it waits on the fiber, which the end of the runtime unwinds. On another thread's own stack it would wait
/// for ever, and the runtime with it.
#[test]
fn the_end_of_the_runtime_ends_a_second_half_that_waits() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let (begun, begins) = mpsc::channel();
    let drops = Arc::new(AtomicUsize::new(0));
    let counted = Counted(Arc::clone(&drops));
    let task = runtime.spawn_fiber(move || {
        warpweft::join(
            || throw("first"),
            || {
                let _counted = counted;
                begun.send(()).expect("it is waited for");
                block_on(std::future::pending::<()>());
            },
        );
    });
    begins.recv().expect("it begins");
    drop(runtime);
    assert!(task.wait().is_err());
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

/// Merges two sorted slices into a third one, by halves. If a comparison panics, what is left is copied as it
/// is: the destination holds each element, whatever happens. That is what rayon's sort does with raw memory.
/// It relies on both halves of a join.
fn merge(
    cx: ForkCx<'_>,
    left: &[u32],
    right: &[u32],
    to: &mut [Option<u32>],
    less: &(dyn Fn(u32, u32) -> bool + Sync),
) {
    struct Hole<'a> {
        left: &'a [u32],
        right: &'a [u32],
        to: &'a mut [Option<u32>],
    }
    impl Drop for Hole<'_> {
        fn drop(&mut self) {
            let rest = self.left.iter().chain(self.right);
            for (to, &from) in self.to.iter_mut().zip(rest) {
                *to = Some(from);
            }
        }
    }
    let hole = Hole { left, right, to };
    if left.is_empty() || right.is_empty() || left.len() + right.len() < 16 {
        let mut hole = hole;
        while let ([a, left @ ..], [b, right @ ..]) = (hole.left, hole.right) {
            let takes_left = !less(*b, *a);
            let to = std::mem::take(&mut hole.to);
            let Some((place, to)) = to.split_first_mut() else {
                return;
            };
            *place = Some(if takes_left { *a } else { *b });
            hole.to = to;
            if takes_left {
                hole.left = left;
            } else {
                hole.right = right;
            }
        }
        return;
    }
    let (left_middle, right_middle) = if left.len() >= right.len() {
        let middle = left.len() / 2;
        (middle, right.partition_point(|&b| less(b, left[middle])))
    } else {
        let middle = right.len() / 2;
        (left.partition_point(|&a| !less(right[middle], a)), middle)
    };
    // From here on each half looks after its own part, so both have to run.
    let mut hole = std::mem::ManuallyDrop::new(hole);
    let (left, right) = (hole.left, hole.right);
    let to = std::mem::take(&mut hole.to);
    let (left_low, left_high) = left.split_at(left_middle);
    let (right_low, right_high) = right.split_at(right_middle);
    let (low, high) = to.split_at_mut(left_middle + right_middle);
    cx.join(
        |cx| merge(cx, left_low, right_low, low, less),
        |cx| merge(cx, left_high, right_high, high, less),
    );
}

#[test]
fn a_merge_with_a_hole_keeps_each_element() {
    const LEN: u32 = 2000;
    everywhere(|runtime| {
        for panics_at in (0..4000).step_by(97) {
            let left: Vec<_> = (0..LEN).map(|n| 2 * n).collect();
            let right: Vec<_> = (0..LEN).map(|n| 2 * n + n % 3).collect();
            let mut to = vec![None; 2 * LEN as usize];
            let count = AtomicUsize::new(0);
            let less = |a: u32, b: u32| {
                if count.fetch_add(1, Ordering::Relaxed) == panics_at {
                    throw("a comparison");
                }
                a < b
            };
            let merged = catch_unwind(AssertUnwindSafe(|| {
                runtime.install(|cx| merge(cx, &left, &right, &mut to, &less))
            }));
            let mut wanted: Vec<_> = left.iter().chain(&right).copied().collect();
            let mut got: Vec<_> = to.iter().map(|to| to.expect("no hole is left")).collect();
            wanted.sort_unstable();
            if merged.is_err() {
                got.sort_unstable();
            }
            assert_eq!(got, wanted);
        }
    });
}
