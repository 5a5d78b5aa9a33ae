//! Joins, loops and scopes under a token.

use super::{Alive, half_take_less, runtime, until};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use warpweft::cancel::{self, CancelToken};
use warpweft::{ForkCx, join, par_chunks_mut, par_for, scope};

/// Forks for ever.
fn endless(cx: ForkCx<'_>, turns: &AtomicUsize, token: &CancelToken, at: usize) {
    if turns.fetch_add(1, Ordering::Relaxed) == at {
        token.cancel();
    }
    let ((), ()) = cx.join(|cx| leaf(cx, turns), |cx| endless(cx, turns, token, at));
}

fn leaf(_: ForkCx<'_>, turns: &AtomicUsize) {
    turns.fetch_add(0, Ordering::Relaxed);
}

#[test]
fn a_tree_that_forks_ends_at_its_next_fork() {
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let (token, turns) = (CancelToken::new(), AtomicUsize::new(0));
        let ended = runtime.install(|cx| token.run(|| endless(cx, &turns, &token, 200)));
        assert!(ended.expect("open").is_err());
        assert!(turns.into_inner() < 300, "a frame went on");
        // The stack is as before.
        let both = runtime.install(|cx| cx.join(|_| 1, |_| 2));
        assert_eq!(both, Ok((1, 2)));
        let again = runtime.install(|cx| CancelToken::new().run(|| cx.join(|_| 1, |_| 2)));
        assert_eq!(again, Ok(Ok((1, 2))));
    }
}

fn drop_and_name<T>(value: T) -> &'static str {
    drop(value);
    std::any::type_name::<T>()
}

#[test]
fn a_closure_that_never_ran_is_dropped_once() {
    let runtime = runtime(2);
    let (token, alive) = (CancelToken::new(), Alive::default());
    let ended = runtime.install(|cx| {
        token.run(|| {
            let (first, second) = (alive.hold(), alive.hold());
            token.cancel();
            cx.join(
                move |_| panic!("it begins after the cancellation: {}", drop_and_name(first)),
                move |_| drop(second),
            )
        })
    });
    assert!(ended.expect("open").is_err());
    assert_eq!(alive.count(), 0);
}

#[test]
fn a_token_within_a_token_stops_only_itself() {
    let runtime = runtime(2);
    let outer = CancelToken::new();
    let result = runtime.install(|cx| {
        outer.run(|| {
            let inner = outer.child();
            let stopped = inner.run(|| {
                inner.cancel();
                cx.join(|_| (), |_| ())
            });
            assert!(stopped.is_err());
            cx.join(|_| 1, |_| 2)
        })
    });
    assert_eq!(result, Ok(Ok((1, 2))));
}

#[test]
fn a_foreign_token_does_not_shield_from_the_outer_one() {
    let runtime = runtime(2);
    let outer = CancelToken::new();
    let passed = AtomicBool::new(false);
    let result = runtime.install(|cx| {
        outer.run(|| {
            let foreign = CancelToken::new();
            let _ = foreign.run(|| {
                outer.cancel();
                cx.join(|_| (), |_| ())
            });
            passed.store(true, Ordering::Relaxed);
        })
    });
    assert!(result.expect("open").is_err());
    assert!(
        !passed.into_inner(),
        "the stack unwinds through the foreign token"
    );
}

/// As above, but the outer one is cancelled before.
#[test]
fn a_foreign_token_is_no_shelter_from_an_end_that_has_come() {
    let runtime = runtime(2);
    let (outer, foreign) = (CancelToken::new(), CancelToken::new());
    let passed = AtomicBool::new(false);
    let result = runtime.install(|_| {
        outer.run(|| {
            outer.cancel();
            let _ = foreign.run(|| ());
            passed.store(true, Ordering::Relaxed);
        })
    });
    assert!(result.expect("open").is_err());
    assert!(!passed.into_inner() && !foreign.is_cancelled());
}

#[test]
fn code_that_catches_the_unwinding_meets_it_again() {
    let token = CancelToken::new();
    let caught = AtomicUsize::new(0);
    let ended = token.run(|| {
        token.cancel();
        for _ in 0..3 {
            let end = catch_unwind(AssertUnwindSafe(|| join(|| (), || ())));
            caught.fetch_add(usize::from(end.is_err()), Ordering::Relaxed);
        }
        join(|| (), || ())
    });
    assert!(ended.is_err());
    assert_eq!(caught.into_inner(), 3);
}

#[test]
fn a_true_value_and_a_true_panic_stay() {
    let token = CancelToken::new();
    let value = token.run(|| {
        token.cancel();
        7
    });
    assert_eq!(value, Ok(7), "it was computed to its end");
    let token = CancelToken::new();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        token.run(|| {
            token.cancel();
            std::panic::resume_unwind(Box::new("mine"));
        })
    }));
    assert_eq!(panic.expect_err("it panics").downcast_ref(), Some(&"mine"));
}

/// The size of the measure in the issue: a million leaves.
const LEAVES: usize = 1_000_000;

#[test]
fn a_loop_ends_before_its_next_leaf() {
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let token = CancelToken::new();
        let (started, late) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let cancelled = AtomicBool::new(false);
        let ended = runtime.install(|_| {
            token.run(|| {
                par_for(0..LEAVES, 1, |_| {
                    // A leaf that was about to begin just then is not late.
                    if cancelled.load(Ordering::Relaxed) {
                        late.fetch_add(1, Ordering::Relaxed);
                    }
                    if started.fetch_add(1, Ordering::Relaxed) == 1000 {
                        token.cancel();
                        cancelled.store(true, Ordering::Relaxed);
                    }
                });
            })
        });
        assert!(ended.expect("open").is_err());
        assert!(started.into_inner() < LEAVES / 2);
        let late = late.into_inner();
        assert!(late < workers, "{late} leaves began after the cancellation");
    }
}

#[test]
fn a_loop_over_a_million_leaves_returns_within_a_leaf() {
    let runtime = runtime(2);
    // A leaf sleeps for some 80 µs here. The rest is what other programs take.
    half_take_less(Duration::from_millis(2), || {
        let token = CancelToken::new();
        let canceller = token.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(3));
            canceller.cancel();
            Instant::now()
        });
        let ended = runtime.install(|_| {
            token.run(|| par_for(0..LEAVES, 1, |_| std::thread::sleep(Duration::from_micros(20))))
        });
        let end = Instant::now();
        assert!(ended.expect("open").is_err());
        end.saturating_duration_since(thread.join().expect("it cancels"))
    });
}

#[test]
fn pieces_of_a_slice_end_too() {
    let token = CancelToken::new();
    let mut numbers = vec![0_u32; 10_000];
    let ended = token.run(|| {
        par_chunks_mut(&mut numbers, 1, |piece, chunk| {
            if piece == 5 {
                token.cancel();
            }
            chunk[0] = 1;
        });
    });
    assert!(ended.is_err());
    let written: u32 = numbers.iter().sum();
    assert!(written < 10_000, "{written}");
}

#[test]
fn jobs_of_a_cancelled_scope_never_start() {
    for workers in [1, 4] {
        let runtime = runtime(workers);
        let (token, alive, ran) = (CancelToken::new(), Alive::default(), AtomicUsize::new(0));
        let ended = runtime.install(|_| {
            token.run(|| {
                scope(|scope| {
                    scope.spawn(|scope| {
                        // From whatever thread.
                        let held = alive.hold();
                        scope.spawn(|_| drop(held));
                    });
                    token.cancel();
                    for _ in 0..1000 {
                        let (held, ran) = (alive.hold(), &ran);
                        scope.spawn(move |_| {
                            ran.fetch_add(1, Ordering::Relaxed);
                            drop(held);
                        });
                    }
                });
            })
        });
        assert!(
            ended.expect("open").is_err(),
            "a value would say that all jobs have run"
        );
        assert_eq!((ran.into_inner(), alive.count()), (0, 0));
    }
}

#[test]
fn a_job_on_another_worker_has_the_token_of_its_scope() {
    let runtime = runtime(2);
    let token = CancelToken::new();
    let saw = AtomicUsize::new(0);
    let ended = runtime.install(|_| {
        token.run(|| {
            scope(|scope| {
                for worker in 0..2 {
                    let saw = &saw;
                    scope.spawn_pinned(worker, move |_| {
                        let there = cancel::current().is_some();
                        saw.fetch_add(usize::from(there && !cancel::is_cancelled()), Ordering::Relaxed);
                    });
                }
            });
        })
    });
    assert_eq!(ended, Ok(Ok(())));
    assert_eq!(saw.into_inner(), 2);
    assert!(cancel::current().is_none());
}

#[test]
fn a_stolen_half_has_the_token_under_which_it_was_made() {
    let runtime = runtime(2);
    let (outer, inner) = (CancelToken::new(), CancelToken::new());
    // The other worker has something to do until all forks are made: it would be offered the first at once.
    let is_made = Arc::new(AtomicBool::new(false));
    let busy = Arc::new(AtomicBool::new(false));
    let hog = runtime.spawn_job({
        let (busy, is_made) = (Arc::clone(&busy), Arc::clone(&is_made));
        move || {
            busy.store(true, Ordering::Release);
            until(|| is_made.load(Ordering::Acquire));
        }
    });
    until(|| busy.load(Ordering::Acquire));
    runtime
        .install(|cx| {
            // Both forks are stolen while the inner token counts; the oldest is made under none.
            let stolen = AtomicBool::new(false);
            let until_stolen = |cx: ForkCx<'_>| {
                is_made.store(true, Ordering::Release);
                // The next fork is offered where one is made.
                until(|| {
                    cx.join(|_| (), |_| ());
                    stolen.load(Ordering::Acquire)
                });
            };
            cx.join(
                |cx| {
                    outer
                        .run(|| {
                            cx.join(
                                |cx| {
                                    // It may have seen the theft before its cancellation.
                                    let _ = inner.run(|| cx.join(until_stolen, |_| ()));
                                },
                                |_| {
                                    // It is offered after the first was stolen, under the inner token.
                                    inner.cancel();
                                    assert!(!cancel::is_cancelled(), "it is not under the inner one");
                                    stolen.store(true, Ordering::Release);
                                    outer.cancel();
                                    assert!(cancel::is_cancelled(), "it is under the outer one");
                                },
                            )
                        })
                        .expect("nothing forks after the cancellation");
                },
                |_| assert!(cancel::current().is_none(), "it is under none"),
            )
        })
        .expect("open");
    hog.wait().expect("no panic");
}

#[test]
fn what_is_detached_is_not_reached() {
    let runtime = runtime(2);
    let token = CancelToken::new();
    let sum = AtomicUsize::new(0);
    let ended = runtime.install(|_| {
        token.run(|| {
            token.cancel();
            cancel::detached(|| {
                par_for(0..1000, 1, |n| {
                    sum.fetch_add(n, Ordering::Relaxed);
                });
                assert!(!cancel::is_cancelled());
            });
            assert!(cancel::is_cancelled());
        })
    });
    assert_eq!(ended, Ok(Ok(())));
    assert_eq!(sum.into_inner(), 499_500);
}

#[test]
fn uncooperative_code_forks_to_its_end() {
    let (runtime, other) = (runtime(2), runtime(1));
    // Long enough that the other worker takes a half.
    let compute = || std::thread::sleep(Duration::from_micros(300));
    for _ in 0..50 {
        let token = CancelToken::new();
        let all = runtime.install(|_| {
            token.run(|| {
                token.cancel();
                warpweft::uncooperative(|| {
                    let (one, two) = join(|| join(compute, || 1).1, || 2);
                    let jobs = AtomicUsize::new(0);
                    scope(|scope| {
                        for _ in 0..2 {
                            scope.spawn(|_| {
                                jobs.fetch_add(1, Ordering::SeqCst);
                            });
                        }
                    });
                    let elsewhere = other.install(|_| 4).expect("it is open");
                    (one, two, jobs.into_inner(), elsewhere)
                })
            })
        });
        assert_eq!(all, Ok(Ok((1, 2, 2, 4))));
    }
    let token = CancelToken::new();
    let outside = token.run(|| {
        token.cancel();
        warpweft::uncooperative(|| runtime.install(|_| 5))
    });
    assert_eq!(outside, Ok(Ok(5)), "on a thread of no pool");
}
