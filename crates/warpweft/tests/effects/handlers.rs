//! Which handler handles what, and what becomes of its continuation.

use super::{Ask, Dropped, Say, answering, everywhere, panics, runtime};
use std::cell::{Cell, RefCell};
use std::panic::catch_unwind;
use std::rc::Rc;
use std::sync::mpsc;
use warpweft::effect::{Continuation, Coroutine, Discontinued, Handler, Next, handle, perform};
use warpweft::{fiber, join};

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
    let (ran, runs) = (Rc::new(Cell::new(false)), Rc::clone(&dropped));
    let sees = Rc::clone(&ran);
    let body = move || {
        sees.set(true);
        drop((body, runs));
    };
    drop(Coroutine::try_new(body).expect("a stack"));
    assert_eq!(*dropped.borrow(), ["body", "with a stack"]);
    assert!(!ran.get(), "its code did not run");
    assert_eq!(Rc::strong_count(&dropped), 1);
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
