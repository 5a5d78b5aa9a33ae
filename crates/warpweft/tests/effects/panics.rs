//! Panics of bodies and of clauses.

use super::{Ask, Dropped, Say, answering, everywhere, panics, text};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::rc::Rc;
use std::thread;
use warpweft::effect::{Coroutine, Handler, Next, handle, perform};

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
