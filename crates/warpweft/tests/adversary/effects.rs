//! Effects: handlers and continuations that are kept, moved, leaked and resumed in odd places.
#![forbid(unsafe_code)]

use crate::child::World;
use crate::keepers::all_answer;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use warpweft::effect::{Continuation, Coroutine, Effect, Handler, Next, handle, perform};
use warpweft::time::sleep;
use warpweft::{Runtime, block_on, blocking, fiber, join, scope, spawn_job, yield_now};

struct Ask;
impl Effect for Ask {
    type Answer = u32;
}

struct Stop;
impl Effect for Stop {
    type Answer = ();
}

/// Runs a body on a plain thread, in a job, in a fiber and in a future.
fn everywhere(world: World, body: fn()) {
    let runtime = world.runtime();
    body();
    let handles = [
        runtime.spawn_job(body),
        runtime.spawn_fiber(body),
        runtime.spawn(async move { body() }),
    ];
    let answers = all_answer(handles);
    assert_eq!(answers.done, 3, "{answers:?}");
    runtime.block_on(async move { body() });
}

/// Where continuations are kept.
type Kept = Rc<RefCell<Vec<Continuation<Ask, u32>>>>;

/// A body that performs effects until the sum is large, suspended at its first effect.
fn suspended(kept: &Kept) {
    let keep = Rc::clone(kept);
    handle(
        || perform(Ask) + perform(Ask) + perform(Ask),
        Handler::returning(|_| ()).on(move |Ask, k| {
            keep.borrow_mut().push(k);
            Next::Leave(())
        }),
    );
}

/// Tries: continuations that are resumed under other handlers, inside of each other's clauses, in another
/// order, or dropped. Expected: each body continues where it was.
#[test]
fn continuations_are_moved_between_handlers() {
    program!(|world| {
        everywhere(world, || {
            let kept = Kept::default();
            for _ in 0..20 {
                suspended(&kept);
            }
            let mut sum = 0;
            while let Some(k) = { kept.borrow_mut().pop() } {
                let body = k.resume(1);
                let again = Rc::clone(&kept);
                let mut questions = 0;
                sum += Handler::returning(|sum| sum)
                    .on(move |Ask, k| {
                        questions += 1;
                        // Another body continues inside of this clause.
                        let inner = again.borrow_mut().pop();
                        if let Some(inner) = inner {
                            let inner = inner.resume(10);
                            let total = Handler::new().on(|Ask, k| k.resume(100)).run(inner);
                            assert_eq!(total, 210);
                        }
                        k.resume(questions)
                    })
                    .run(body);
            }
            assert!(sum > 0);
        });
    });
}

/// Tries: a continuation in the frame of its body, and bodies whose continuations hold each other.
/// Expected: a leak or an unwinding, and nothing else.
#[test]
fn continuations_in_circles() {
    program!(|world| {
        everywhere(world, || {
            for _ in 0..20 {
                let place: Rc<RefCell<Option<Coroutine<u32>>>> = Rc::default();
                let inside = Rc::clone(&place);
                let keep = Rc::clone(&place);
                // The body's frame owns the place that owns the body.
                handle(
                    move || {
                        let _own = inside;
                        perform(Ask)
                    },
                    Handler::returning(|_| ()).on(move |Ask, k| {
                        *keep.borrow_mut() = Some(k.resume(1));
                        Next::Leave(())
                    }),
                );
            }
        });
    });
}

/// Tries: bodies that catch their discontinuation and ask again, for ever or as they go.
/// Expected: each question unwinds again, or panics; the drop ends.
#[test]
fn bodies_that_refuse_to_be_unwound() {
    struct AsksAsItGoes;
    impl Drop for AsksAsItGoes {
        fn drop(&mut self) {
            if !thread::panicking() {
                let _ = catch_unwind(|| perform(Ask));
            }
        }
    }
    program!(|world| {
        everywhere(world, || {
            for _ in 0..10 {
                let kept = Kept::default();
                let keep = Rc::clone(&kept);
                handle(
                    || {
                        let _asks = AsksAsItGoes;
                        for _ in 0..10 {
                            let _ = catch_unwind(|| perform(Ask));
                        }
                        7
                    },
                    Handler::returning(|_| ()).on(move |Ask, k| {
                        keep.borrow_mut().push(k);
                        Next::Leave(())
                    }),
                );
                drop(kept);
            }
        });
    });
}

/// Tries: continuations that are forgotten, with an entered runtime, a scope and a lock on their
/// stacks. Expected: a leak; the thread finds its own runtime afterwards.
#[test]
fn continuations_are_forgotten() {
    program!(|world| {
        let other: &'static Runtime = Box::leak(Box::new(world.runtime()));
        let runtime = world.runtime();
        let body = move || {
            for n in 0..10 {
                handle(
                    move || {
                        let guard = RefCell::new(n);
                        let _borrowed = guard.borrow_mut();
                        other.block_on(async { perform(Ask) })
                    },
                    Handler::returning(|_| ()).on(|Ask, k| {
                        if n % 2 == 0 {
                            std::mem::forget(k);
                        } else {
                            drop(k);
                        }
                        Next::Leave(())
                    }),
                );
                spawn_job(|| ()).wait().expect("it has a runtime");
            }
            warpweft::Pool::current().map(|pool| pool.name().to_owned())
        };
        assert!(runtime.spawn_job(body).wait().expect("no panic").is_some());
        assert!(runtime.spawn_fiber(body).wait().expect("no panic").is_some());
        assert!(body().is_none(), "this thread visits nobody");
    });
}

/// Tries: continuations in thread-locals, on workers, on fibers' threads and on a plain thread, until their
/// threads end. Expected: they are leaked or unwound; nothing hangs.
#[test]
fn continuations_in_thread_locals() {
    thread_local!(static KEPT: RefCell<Vec<Continuation<Ask, u32>>> = const { RefCell::new(Vec::new()) });
    fn keep() {
        for _ in 0..5 {
            handle(
                || perform(Ask) + fiber_sleep(),
                Handler::returning(|_| ()).on(|Ask, k| {
                    KEPT.with(|kept| kept.borrow_mut().push(k));
                    Next::Leave(())
                }),
            );
        }
    }
    program!(|world| {
        for _ in 0..world.count(10) {
            let runtime = world.runtime();
            let handles = [
                runtime.spawn_job(keep),
                runtime.spawn_fiber(keep),
                runtime.spawn_job(keep),
            ];
            assert_eq!(all_answer(handles).done, 3);
            drop(runtime);
            thread::spawn(keep).join().expect("no panic");
        }
    });
}

fn fiber_sleep() -> u32 {
    fiber::wait(sleep(Duration::from_micros(10)));
    0
}

/// Tries: waits, forks, spawns and blocking calls in bodies and in clauses, with bodies on top of bodies.
/// Expected: the right answers.
#[test]
fn bodies_and_clauses_wait_and_fork() {
    program!(|world| {
        everywhere(world, || {
            for _ in 0..10 {
                let sum = handle(
                    || {
                        let inner = handle(
                            || {
                                fiber_sleep();
                                let (a, b) = join(|| 1, || 2);
                                let asked = perform(Ask);
                                blocking(thread::yield_now);
                                perform(Stop);
                                a + b + asked
                            },
                            Handler::new().on(|Stop, k| {
                                fiber_sleep();
                                k.resume(())
                            }),
                        );
                        scope(|scope| {
                            scope.spawn(|_| drop(fiber_sleep()));
                        });
                        block_on(async { yield_now().await });
                        inner + perform(Ask)
                    },
                    Handler::new().on(|Ask, k| {
                        fiber_sleep();
                        drop(spawn_job(|| ()).wait());
                        let (a, b) = join(|| 5, || 5);
                        k.resume(a + b)
                    }),
                );
                assert_eq!(sum, 23);
            }
        });
    });
}

/// Tries: effects without a handler, in forks, in `blocking`, in destructors, and in a task that a body
/// spawned. Expected: a panic that names the effect; no effect of one stack reaches a handler of another one
/// by harm.
#[test]
fn effects_without_a_handler() {
    program!(|world| {
        everywhere(world, || {
            let text = |result: Result<u32, Box<dyn std::any::Any + Send>>| {
                let payload = result.expect_err("nobody handles it");
                payload.downcast::<String>().map(|text| *text).unwrap_or_default()
            };
            assert!(text(catch_unwind(|| perform(Ask))).contains("Ask"));
            let body = || {
                let spawned = spawn_job(|| catch_unwind(|| perform(Ask)).is_err());
                assert!(spawned.wait().expect("no panic"));
                let _ = catch_unwind(|| blocking(|| perform(Ask)));
                let _ = catch_unwind(|| join(|| perform(Ask), || perform(Ask)));
                7
            };
            assert_eq!(handle(body, Handler::new().on(|Ask, k| k.resume(1))), 7);
        });
    });
}

/// Tries: panics in bodies, in clauses and in the function that makes the result, with continuations in hand.
/// Expected: the panic comes out of `run`, and every body is unwound.
#[test]
fn panics_on_all_sides() {
    struct Counts(Rc<Cell<usize>>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    program!(|world| {
        everywhere(world, || {
            for side in 0..4 {
                let dropped = Rc::new(Cell::new(0));
                let counts = Counts(Rc::clone(&dropped));
                let panics = catch_unwind(AssertUnwindSafe(|| {
                    handle(
                        move || {
                            let _counts = counts;
                            if side == 0 {
                                resume_unwind(Box::new(side));
                            }
                            perform(Ask)
                        },
                        Handler::returning(|answer| {
                            if side == 1 {
                                resume_unwind(Box::new(side));
                            }
                            answer
                        })
                        .on(|Ask, k| {
                            if side == 2 {
                                resume_unwind(Box::new(side));
                            }
                            if side == 3 {
                                k.discontinue();
                                resume_unwind(Box::new(side));
                            }
                            Next::Run(k.resume(1))
                        }),
                    )
                }));
                assert_eq!(panics.expect_err("it panics").downcast_ref(), Some(&side));
                assert_eq!(dropped.get(), 1, "{side}");
            }
        });
    });
}

/// Tries: fibers that end, with their runtime or cancelled, in the middle of bodies that wait.
/// Expected: bodies are unwound with them, innermost first; each joiner gets a result.
#[test]
fn runtimes_end_with_bodies_that_wait() {
    program!(|world| {
        for round in 0..world.count(20) {
            let runtime = world.runtime();
            let body = || {
                handle(
                    || {
                        handle(
                            || {
                                loop {
                                    fiber_sleep();
                                    perform(Ask);
                                }
                            },
                            Handler::<(), ()>::new(),
                        );
                    },
                    Handler::new().on(|Ask, k| {
                        fiber_sleep();
                        k.resume(1)
                    }),
                );
            };
            let handles: Vec<_> = (0..8).map(|_| runtime.spawn_fiber(body)).collect();
            thread::sleep(Duration::from_micros(200 * round as u64));
            handles[3].cancel();
            drop(runtime);
            let answers = all_answer(handles);
            assert_eq!((answers.all(), answers.done), (8, 0), "{answers:?}");
        }
    });
}

/// Tries: many suspended bodies at once, and stacks of which there are none left.
/// Expected: an error or a panic with the reason, and all stacks come back.
#[test]
fn many_bodies_are_suspended() {
    program!(|world| {
        let runtime = world.builder().max_fiber_stacks(30).build().expect("a runtime");
        let body = || {
            let kept = Kept::default();
            let mut refused = 0;
            for _ in 0..100 {
                refused += usize::from(catch_unwind(AssertUnwindSafe(|| suspended(&kept))).is_err());
                refused += usize::from(Coroutine::try_new(|| 7).is_err());
            }
            drop(kept);
            refused
        };
        for _ in 0..world.count(5) {
            assert!(runtime.spawn_job(body).wait().expect("no panic") > 0);
            assert!(runtime.spawn_fiber(body).wait().expect("no panic") > 0);
            let inside =
                runtime.spawn_job(|| handle(|| perform(Ask), Handler::new().on(|Ask, k| k.resume(3))));
            assert_eq!(inside.wait().expect("the stacks are back"), 3);
        }
        let runtime = Arc::new(runtime);
        assert_eq!(runtime.fibers().live, 0);
    });
}
