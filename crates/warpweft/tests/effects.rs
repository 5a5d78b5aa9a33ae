//! Effects: which handler handles what, once, on which stack; and how waits, panics and ends affect a body.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use warpweft::effect::{Continuation, Coroutine, Discontinued, Effect, Handler, Next, handle, perform};
use warpweft::sync::oneshot;
use warpweft::{JoinError, Runtime, block_on, blocking, fiber, join, spawn_job, yield_now};

struct Ask;
impl Effect for Ask {
    type Answer = u32;
}

struct Say(&'static str);
impl Effect for Say {
    type Answer = ();
}

fn answering<T: 'static>(answer: u32) -> Handler<'static, T> {
    Handler::new().on(move |Ask, k| k.resume(answer))
}

/// Builds a runtime without compensating workers, which would move a step to another thread on a slow
/// machine.
fn runtime(workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers).stuck_after(None);
    builder.build().expect("a runtime")
}

fn text(payload: Box<dyn std::any::Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload
            .downcast::<&str>()
            .map_or_else(|_| String::from("?"), |text| text.to_string()),
    }
}

fn panics<R>(body: impl FnOnce() -> R) -> String {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(_) => panic!("it did not panic"),
        Err(payload) => text(payload),
    }
}

/// Calls `body` on a new thread, in a job, in a future and in a fiber, with 1, 2 and 4 workers.
fn everywhere(body: fn()) {
    body();
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        runtime.spawn_job(body).wait().expect("in a job");
        runtime.spawn(async move { body() }).wait().expect("in a future");
        runtime.spawn_fiber(body).wait().expect("in a fiber");
        runtime.block_on(async move { body() });
        runtime.install(|_| body()).expect("installed");
    }
}

/// Records that it is dropped.
struct Dropped(Rc<RefCell<Vec<&'static str>>>, &'static str);
impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.borrow_mut().push(self.1);
    }
}

#[test]
fn effects_are_answered_in_order() {
    everywhere(|| {
        let said = RefCell::new(Vec::new());
        let mut answers = 0;
        let sum = handle(
            || {
                perform(Say("a"));
                let first = perform(Ask);
                perform(Say("b"));
                first * 10 + perform(Ask)
            },
            Handler::new()
                .on(|Ask, k| {
                    answers += 1;
                    k.resume(answers)
                })
                .on(|Say(word), k| {
                    said.borrow_mut().push(word);
                    k.resume(())
                }),
        );
        assert_eq!(sum, 12);
        assert_eq!(*said.borrow(), ["a", "b"]);
    });
}

#[test]
fn a_body_without_an_effect_returns() {
    everywhere(|| assert_eq!(handle(|| 7, Handler::new()), 7));
}

#[test]
fn a_handler_makes_its_result_of_what_the_body_returns() {
    let text = handle(
        || perform(Ask),
        Handler::returning(|n: u32| n.to_string()).on(|Ask, k| k.resume(3)),
    );
    assert_eq!(text, "3");
}

#[test]
fn of_two_clauses_the_first_counts() {
    assert_eq!(handle(|| perform(Ask), answering(1).on(|Ask, k| k.resume(2))), 1);
}

#[test]
fn the_nearest_handler_that_has_the_type_is_found() {
    everywhere(|| {
        let said = RefCell::new(Vec::new());
        let handler = answering(1).on(|Say(word), k| {
            said.borrow_mut().push(word);
            k.resume(())
        });
        let sum = handle(
            || {
                let inner = handle(
                    || {
                        let inmost = handle(
                            || {
                                perform(Say("from the third body"));
                                perform(Ask)
                            },
                            Handler::new(),
                        );
                        inmost * 10 + perform(Ask)
                    },
                    answering(2),
                );
                inner * 10 + perform(Ask)
            },
            handler,
        );
        assert_eq!(sum, 221);
        assert_eq!(*said.borrow(), ["from the third body"]);
    });
}

/// The next handler handles the clause's own effects.
#[test]
fn a_clause_may_perform_outwards() {
    everywhere(|| {
        let sum = handle(
            || {
                handle(
                    || perform(Ask),
                    Handler::new().on(|Ask, k| k.resume(perform(Ask) + 1)),
                )
            },
            answering(10),
        );
        assert_eq!(sum, 11);
    });
}

#[test]
fn nobody_handles_it() {
    everywhere(|| {
        let outside = panics(|| perform(Ask));
        assert!(
            outside.contains("no handler for the effect") && outside.contains("Ask"),
            "{outside}"
        );
        let other = panics(|| handle(|| perform(Say("x")), answering(1)));
        assert!(other.contains("Say"), "{other}");
    });
}

/// Neither another thread's fiber nor the handler of a body that was left is on the stack.
#[test]
fn a_handler_is_of_its_stack() {
    let runtime = runtime(1);
    let found = runtime.spawn_fiber(|| {
        handle(
            || {
                // The other fiber runs while this body waits, on the same thread.
                fiber::spawn(|| perform(Ask))
                    .wait()
                    .map_err(|error| error.to_string())
            },
            Handler::new().on(|Ask, k| k.resume(1)),
        )
    });
    let error = found.wait().expect("no panic").expect_err("nobody handles it");
    assert!(error.contains("panicked"), "{error}");
    // A job that waits runs fibers of its thread on top of the body.
    let found = runtime.spawn_job(|| {
        handle(
            || fiber::spawn(|| perform(Ask)).wait().is_err(),
            Handler::new().on(|Ask, k| k.resume(1)),
        )
    });
    assert!(found.wait().expect("no panic"));
    assert!(panics(|| perform(Ask)).contains("no handler"));
}

#[test]
fn a_coroutine_continues_under_the_handler_that_runs_it() {
    everywhere(|| {
        let kept = RefCell::new(None);
        let mut first = Handler::returning(Some).on(|Ask, k| {
            *kept.borrow_mut() = Some(k.resume(1));
            Next::Leave(None)
        });
        assert_eq!(
            first.run(Coroutine::new(|| perform(Ask) * 10 + perform(Ask))),
            None
        );
        drop(first);
        let rest = kept.take().expect("kept");
        assert_eq!(answering(2).run(rest), 12);
    });
}

#[test]
fn what_is_not_answered_is_unwound() {
    everywhere(|| {
        let dropped = Rc::new(RefCell::new(Vec::new()));
        let outer = Rc::clone(&dropped);
        handle(
            move || {
                let _first = Dropped(Rc::clone(&outer), "first");
                let inner = Rc::clone(&outer);
                handle(
                    move || {
                        let _second = Dropped(inner, "second");
                        perform(Ask);
                        unreachable!("it is not answered");
                    },
                    Handler::<()>::new(),
                );
            },
            Handler::new().on(|Ask, k: Continuation<Ask, ()>| drop(k)),
        );
        // Innermost first, and before the clause continued.
        assert_eq!(*dropped.borrow(), ["second", "first"]);
    });
}

#[test]
fn a_body_sees_that_it_is_discontinued_each_time() {
    everywhere(|| {
        let seen = Rc::new(Cell::new(0));
        let notes = Rc::clone(&seen);
        handle(
            move || {
                for _ in 0..3 {
                    let end = catch_unwind(|| perform(Ask)).expect_err("it is unwound");
                    assert!(end.is::<Discontinued>());
                    notes.set(notes.get() + 1);
                }
            },
            Handler::new().on(|Ask, k| k.discontinue()),
        );
        assert_eq!(seen.get(), 3);
    });
}

#[test]
fn a_coroutine_that_never_began_drops_its_body() {
    let dropped = Rc::new(RefCell::new(Vec::new()));
    let body = Dropped(Rc::clone(&dropped), "body");
    drop(Coroutine::new(move || drop(body)));
    let body = Dropped(Rc::clone(&dropped), "with a stack");
    drop(Coroutine::try_new(move || drop(body)).expect("a stack"));
    assert_eq!(*dropped.borrow(), ["body", "with a stack"]);
}

/// Its stack stays with everything on it: a fork that another worker runs still finds it.
#[test]
fn a_leaked_continuation_is_never_unwound() {
    let runtime = runtime(2);
    let (go, goes) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let job = runtime.spawn_job(|| {
        let dropped = Rc::new(RefCell::new(Vec::new()));
        let body = Rc::clone(&dropped);
        handle(
            move || {
                let _word = Dropped(body, "word");
                let place = std::sync::atomic::AtomicU32::new(1);
                let on_the_stack = &place;
                let fork = move || {
                    goes.recv().expect("somebody sends");
                    tell.send(on_the_stack.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                        .expect("somebody listens");
                };
                join(|| perform(Ask), fork);
            },
            Handler::new().on(|Ask, k: Continuation<Ask, ()>| std::mem::forget(k)),
        );
        assert!(dropped.borrow().is_empty());
    });
    job.wait().expect("no panic");
    go.send(()).expect("the fork listens");
    assert_eq!(told.recv(), Ok(1));
}

#[test]
fn a_panic_of_the_body_comes_out() {
    everywhere(|| {
        let said = panics(|| {
            handle(
                || {
                    perform(Ask);
                    panic!("the body's")
                },
                answering::<()>(1),
            );
        });
        assert_eq!(said, "the body's");
        // Through two handlers, with its payload; afterwards the thread is not panicking.
        let payload =
            catch_unwind(|| handle(|| handle(|| panic_any(7_u8), answering::<()>(1)), answering(1)));
        assert_eq!(payload.expect_err("it panics").downcast_ref(), Some(&7_u8));
        assert!(!thread::panicking());
    });
}

#[test]
fn a_panic_of_a_clause_unwinds_what_is_suspended() {
    everywhere(|| {
        let dropped = Rc::new(RefCell::new(Vec::new()));
        let (first, second) = (Rc::clone(&dropped), Rc::clone(&dropped));
        let said = panics(|| {
            let queue = RefCell::new(Vec::new());
            let mut handler = Handler::new().on(|Say(word), k| {
                assert_ne!(word, "panic", "a clause");
                queue.borrow_mut().push(k.resume(()));
            });
            handler.run(Coroutine::new(move || {
                let _dropped = Dropped(first, "in the queue");
                perform(Say("kept"));
            }));
            handler.run(Coroutine::new(move || {
                let _dropped = Dropped(second, "in the clause");
                perform(Say("panic"));
            }));
        });
        assert!(said.contains("a clause"), "{said}");
        assert_eq!(*dropped.borrow(), ["in the clause", "in the queue"]);
        assert!(!thread::panicking());
    });
}

#[test]
fn a_panic_while_it_is_discontinued() {
    everywhere(|| {
        let panicking = || {
            let _ = catch_unwind(|| perform(Ask));
            panic!("of its own");
        };
        let said = panics(|| {
            handle(
                panicking,
                Handler::<()>::new().on(|Ask, k| -> Next<(), ()> {
                    k.discontinue();
                    Next::Leave(())
                }),
            );
        });
        assert_eq!(said, "of its own");
        // A destructor does not unwind; the hook has reported the panic.
        handle(panicking, Handler::<()>::new().on(|Ask, k| drop(k)));
    });
}

#[test]
fn a_panic_of_what_makes_the_result() {
    let said = panics(|| handle(|| 1, Handler::returning(|_: i32| -> i32 { panic!("returning") })));
    assert_eq!(said, "returning");
}

/// A destructor that runs because of a panic may run a handler, and discontinue; it may not perform.
#[test]
fn nothing_is_suspended_while_the_thread_panics() {
    struct Handles(Rc<Cell<u32>>);
    impl Drop for Handles {
        fn drop(&mut self) {
            self.0.set(handle(|| 5, answering(1)));
            let refused = catch_unwind(|| handle(|| perform(Ask), answering(1)));
            assert!(text(refused.expect_err("it panics")).contains("while the thread panics"));
        }
    }
    everywhere(|| {
        let seen = Rc::new(Cell::new(0));
        let handles = Handles(Rc::clone(&seen));
        let payload = catch_unwind(AssertUnwindSafe(move || {
            let _handles = handles;
            resume_unwind(Box::new("payload"));
        }));
        assert_eq!(text(payload.expect_err("it unwinds")), "payload");
        assert_eq!(seen.get(), 5);
    });
}

#[test]
fn a_body_waits_everywhere() {
    everywhere(|| {
        let sum = handle(
            || {
                let mut sum = 0;
                for _ in 0..3 {
                    sum += spawn_job(|| 1).wait().expect("no panic");
                    sum += perform(Ask);
                    block_on(yield_now());
                    let (a, b) = join(
                        || block_on(async { 1 }),
                        || spawn_job(|| 1).wait().expect("no panic"),
                    );
                    sum += a + b + perform(Ask);
                }
                sum
            },
            answering(100),
        );
        assert_eq!(sum, 609);
    });
}

/// Forks of the handler's stack must not wait for the body, because the body may wait for them.
#[test]
fn the_hosts_forks_are_others_to_run_when_a_body_waits() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let (open, opens) = oneshot::channel::<u32>();
        let joined = runtime.install(move |_| {
            join(
                || handle(move || block_on(opens).expect("it is sent"), Handler::new()),
                || open.send(5).expect("somebody waits"),
            )
        });
        assert_eq!(joined.expect("a pool").0, 5);
    }
}

/// Bodies are suspended in the middle of joins, and their handler runs in the middle of another join.
#[test]
fn an_effect_in_the_middle_of_joins() {
    let schedule = || {
        let queue = RefCell::new(VecDeque::new());
        let sum = Rc::new(Cell::new(0));
        for n in 0..10 {
            let sum = Rc::clone(&sum);
            queue.borrow_mut().push_back(Coroutine::new(move || {
                let first = || {
                    perform(Say("in the half that is never elsewhere"));
                    join(|| n, || 1)
                };
                let (a, b) = join(first, || join(|| 2, || 3));
                perform(Say("between"));
                sum.set(sum.get() + a.0 + a.1 + b.0 + b.1);
            }));
        }
        let mut handler = Handler::new().on(|Say(_), k| queue.borrow_mut().push_back(k.resume(())));
        let mut turns = 0;
        loop {
            let next = queue.borrow_mut().pop_front();
            let Some(next) = next else { break };
            handler.run(next);
            turns += 1;
        }
        (turns, sum.get())
    };
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let told = runtime
            .install(|_| join(schedule, || join(schedule, || 1)))
            .expect("a pool");
        assert_eq!(told, ((30, 10 * 6 + 45), ((30, 10 * 6 + 45), 1)));
    }
}

/// In `blocking` the thread has released its worker: the handler's task could not end.
#[test]
fn in_blocking_only_with_a_handler_of_its_own() {
    everywhere(|| assert_eq!(blocking(|| handle(|| perform(Ask), answering(3))), 3));
    let runtime = runtime(1);
    let body = || {
        handle(
            || (panics(|| blocking(|| perform(Ask))), perform(Ask)),
            answering(4),
        )
    };
    for told in [runtime.spawn_job(body), runtime.spawn_fiber(body)] {
        let (refused, answer) = told.wait().expect("no panic");
        assert!(refused.contains("inside `blocking`"), "{refused}");
        assert_eq!(answer, 4);
    }
}

/// A fiber passes a body to another one: it continues on top of that fiber, waits there, and switches with
/// it.
#[test]
fn a_body_moves_between_fibers_of_its_thread() {
    thread_local!(static KEPT: RefCell<Option<Coroutine<u32>>> = const { RefCell::new(None) });
    let runtime = runtime(1);
    let first = runtime.spawn_fiber(|| {
        let keeper = |Ask, k: Continuation<Ask, u32>| {
            KEPT.with(|kept| *kept.borrow_mut() = Some(k.resume(1)));
            Next::Leave(0)
        };
        let body = || {
            block_on(yield_now());
            let one = perform(Ask);
            fiber::yield_now();
            block_on(yield_now());
            one + spawn_job(|| 10).wait().expect("no panic") + perform(Ask)
        };
        assert_eq!(Handler::new().on(keeper).run(Coroutine::new(body)), 0);
    });
    first.wait().expect("no panic");
    let second = runtime.spawn_fiber(|| {
        let body = KEPT
            .with(RefCell::take)
            .expect("the other fiber kept it, on this thread");
        answering(100).run(body)
    });
    assert_eq!(second.wait().expect("no panic"), 111);
}

/// If the body enters a pool, that pool belongs to the body; one that its runner has entered is found as long
/// as that lasts.
#[test]
fn what_is_visited_is_of_the_stack() {
    let named = |name: &str| {
        Runtime::builder()
            .workers(1)
            .name(name)
            .build()
            .expect("a runtime")
    };
    let here = || {
        spawn_job(|| thread::current().name().map(String::from))
            .wait()
            .expect("no panic")
            .expect("a name")
    };
    let (first, second) = (named("first"), named("second"));
    let third = Arc::new(named("third"));
    let kept = RefCell::new(None);
    let accesses = Arc::clone(&third);
    let body = move || {
        let mut found = vec![here()];
        accesses.block_on(async {
            found.push(here());
            perform(Ask);
            found.push(here());
        });
        found.push(here());
        perform(Ask);
        found.push(here());
        found
    };
    let keep = || {
        Handler::returning(Some).on(|Ask, k| {
            *kept.borrow_mut() = Some(k.resume(0));
            Next::Leave(None)
        })
    };
    let body = first.block_on(async {
        assert!(keep().run(Coroutine::new(body)).is_none());
        assert!(here().starts_with("first"), "the handler's own");
        let body = kept.take().expect("kept");
        second.block_on(async {
            assert!(keep().run(body).is_none());
            assert!(here().starts_with("second"), "the handler's own");
        });
        kept.take().expect("kept")
    });
    drop(first);
    let found = second.block_on(async { keep().run(body).expect("it has ended") });
    let found: Vec<_> = found
        .iter()
        .map(|name| name.split('-').next().unwrap_or(""))
        .collect();
    assert_eq!(found, ["first", "third", "third", "second", "second"]);
}

#[test]
fn shutdown_unwinds_the_innermost_body_first() {
    struct Tells(&'static str, mpsc::Sender<&'static str>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.1.send(self.0).expect("somebody listens");
        }
    }
    let (tell, told) = mpsc::channel();
    let runtime = runtime(1);
    let (ready, is_ready) = mpsc::channel();
    let fiber = runtime.spawn_fiber(move || {
        let _fiber = Tells("fiber", tell.clone());
        let kept = RefCell::new(None);
        let other = tell.clone();
        let mut handler = Handler::new().on(|Ask, k: Continuation<Ask, ()>| *kept.borrow_mut() = Some(k));
        handler.run(Coroutine::new(move || {
            let _kept = Tells("kept", other);
            perform(Ask);
        }));
        handle(
            move || {
                let _outer = Tells("outer", tell.clone());
                handle(
                    move || {
                        let _inner = Tells("inner", tell);
                        ready.send(()).expect("somebody listens");
                        block_on(std::future::pending::<()>());
                    },
                    Handler::new(),
                );
            },
            Handler::new(),
        );
    });
    is_ready.recv().expect("it waits soon");
    while runtime.fibers().live == 0 {
        thread::yield_now();
    }
    drop(runtime);
    assert!(matches!(fiber.wait(), Err(JoinError::Shutdown)));
    assert_eq!(
        told.iter().collect::<Vec<_>>(),
        ["inner", "outer", "kept", "fiber"]
    );
}

#[test]
fn as_many_bodies_as_there_are_stacks() {
    let runtime = Runtime::builder()
        .workers(1)
        .max_fiber_stacks(3)
        .build()
        .expect("a runtime");
    let told = runtime.spawn_job(|| {
        let bodies: Vec<_> = (0..3)
            .map(|n| Coroutine::try_new(move || n).expect("a stack"))
            .collect();
        let refused = Coroutine::try_new(|| 4).expect_err("no stack").to_string();
        let panicked = panics(|| handle(|| 4, Handler::new()));
        let values: Vec<_> = bodies.into_iter().map(|body| Handler::new().run(body)).collect();
        assert_eq!(values, [0, 1, 2]);
        assert_eq!(handle(|| 5, Handler::new()), 5);
        (refused, panicked)
    });
    let (refused, panicked) = told.wait().expect("no panic");
    assert!(
        refused.contains("stack") && panicked.contains(&refused),
        "{refused}; {panicked}"
    );
}

/// Values that a pool thread's thread-locals keep are leaked, and do not run on a thread without its pool.
#[test]
fn a_thread_local_keeps_a_continuation() {
    thread_local!(static KEPT: RefCell<Option<Continuation<Ask, ()>>> = const { RefCell::new(None) });
    let keep = || {
        handle(
            || {
                perform(Ask);
            },
            Handler::new().on(|Ask, k| KEPT.with(|kept| *kept.borrow_mut() = Some(k))),
        );
    };
    let pool = runtime(1);
    pool.spawn_job(keep).wait().expect("no panic");
    drop(pool);
    // Outside of a pool it is unwound.
    thread::spawn(keep).join().expect("no panic");
}

#[test]
fn many_effects_in_a_row_take_no_stack() {
    everywhere(|| {
        let count = handle(
            || (0..100_000).map(|_| u64::from(perform(Ask))).sum::<u64>(),
            answering(1),
        );
        assert_eq!(count, 100_000);
    });
}

#[test]
fn a_hundred_thousand_bodies_are_suspended() {
    const COUNT: usize = 100_000;
    let suspend = || {
        let kept = RefCell::new(Vec::new());
        let ended = Rc::new(Cell::new(0));
        let mut handler = Handler::new().on(|Ask, k: Continuation<Ask, ()>| kept.borrow_mut().push(k));
        for _ in 0..COUNT {
            let ended = Rc::clone(&ended);
            handler.run(Coroutine::new(move || {
                let answer = perform(Ask) as usize;
                ended.set(ended.get() + answer);
            }));
        }
        drop(handler);
        let kept = kept.into_inner();
        assert_eq!((kept.len(), ended.get()), (COUNT, 0));
        let mut half = true;
        for k in kept {
            half = !half;
            if half {
                Handler::new().run(k.resume(1));
            }
        }
        assert_eq!(ended.get(), COUNT / 2);
    };
    suspend();
    runtime(1).spawn_fiber(suspend).wait().expect("no panic");
}
