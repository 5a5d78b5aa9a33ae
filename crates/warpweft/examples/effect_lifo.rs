//! A scheduler as a handler: last in, first out; and one in another. Neither needs a runtime.
//!
//! ```text
//! cargo run -p warpweft --example effect_lifo
//! ```

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use warpweft::effect::{Coroutine, Effect, Handler, perform};

/// A task, for who awaits it.
type Id = usize;

/// Starts a task.
struct Fork(Box<dyn FnOnce()>);
impl Effect for Fork {
    type Answer = Id;
}

/// Gives way to what was ready before.
struct Yield;
impl Effect for Yield {
    type Answer = ();
}

/// Waits until a task has ended.
struct Await(Id);
impl Effect for Await {
    type Answer = ();
}

/// Says something to whoever is around all schedulers.
struct ThreadEvent(String);
impl Effect for ThreadEvent {
    type Answer = ();
}

fn fork(body: impl FnOnce() + 'static) -> Id {
    perform(Fork(Box::new(body)))
}

/// Runs `main` and all that it forks.
fn schedule(main: impl FnOnce() + 'static) {
    let task = |id: Id, body: Box<dyn FnOnce()>| {
        Coroutine::new(move || {
            body();
            id
        })
    };
    let forked = Cell::new(0);
    let ready = RefCell::new(vec![task(0, Box::new(main))]);
    // Of each task that has not ended, who awaits it.
    let awaited = RefCell::new(HashMap::from([(0, Vec::new())]));
    let mut scheduler = Handler::returning(|ended: Id| {
        let waiting = awaited.borrow_mut().remove(&ended);
        ready.borrow_mut().extend(waiting.into_iter().flatten());
    })
    .on(|Yield, k| ready.borrow_mut().insert(0, k.resume(())))
    .on(|Fork(body), k| {
        let id = forked.replace(forked.get() + 1) + 1;
        awaited.borrow_mut().insert(id, Vec::new());
        // The child first: depth before breadth.
        ready.borrow_mut().extend([k.resume(id), task(id, body)]);
    })
    .on(|Await(id), k| match awaited.borrow_mut().get_mut(&id) {
        Some(waiting) => waiting.push(k.resume(())),
        None => ready.borrow_mut().push(k.resume(())),
    });
    loop {
        let next = ready.borrow_mut().pop();
        let Some(next) = next else { break };
        scheduler.run(next);
    }
}

fn run() -> Vec<String> {
    let order = Rc::new(RefCell::new(Vec::new()));
    warpweft::effect::handle(
        || {
            schedule(|| {
                let a = fork(|| {
                    perform(ThreadEvent("a begins".into()));
                    perform(Yield);
                    perform(ThreadEvent("a ends".into()));
                });
                let b = fork(|| {
                    perform(ThreadEvent("b begins".into()));
                    // A task of this scheduler is a scheduler.
                    schedule(|| {
                        let c = fork(|| perform(ThreadEvent("b.c".into())));
                        perform(Await(c));
                        perform(ThreadEvent("b.main".into()));
                    });
                    perform(ThreadEvent("b ends".into()));
                });
                perform(ThreadEvent("main has forked".into()));
                perform(Await(a));
                perform(Await(b));
                perform(ThreadEvent("main ends".into()));
            });
        },
        Handler::new().on(|ThreadEvent(what), k| {
            order.borrow_mut().push(what);
            k.resume(())
        }),
    );
    order.take()
}

fn main() {
    for what in run() {
        println!("{what}");
    }
}

#[test]
fn last_in_first_out() {
    let order = run();
    assert_eq!(
        order,
        [
            "a begins",
            "b begins",
            "b.c",
            "b.main",
            "b ends",
            "main has forked",
            "a ends",
            "main ends"
        ]
    );
}
