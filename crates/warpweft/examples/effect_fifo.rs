//! A scheduler as a handler: first in, first out. Here it runs inside of a fiber of the runtime, and waits
//! with it.
//!
//! ```text
//! cargo run -p warpweft --example effect_fifo
//! ```

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use warpweft::Runtime;
use warpweft::effect::{Coroutine, Effect, Handler, perform};

/// A task, for who awaits it.
type Id = usize;

/// Starts a task.
struct Fork(Box<dyn FnOnce()>);
impl Effect for Fork {
    type Answer = Id;
}

/// Gives way.
struct Yield;
impl Effect for Yield {
    type Answer = ();
}

/// Waits until a task has ended.
struct Await(Id);
impl Effect for Await {
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
    let ready = RefCell::new(VecDeque::from([task(0, Box::new(main))]));
    // Of each task that has not ended, who awaits it.
    let awaited = RefCell::new(HashMap::from([(0, Vec::new())]));
    let mut scheduler = Handler::returning(|ended: Id| {
        let waiting = awaited.borrow_mut().remove(&ended);
        ready.borrow_mut().extend(waiting.into_iter().flatten());
    })
    .on(|Yield, k| ready.borrow_mut().push_back(k.resume(())))
    .on(|Fork(body), k| {
        let id = forked.replace(forked.get() + 1) + 1;
        awaited.borrow_mut().insert(id, Vec::new());
        ready.borrow_mut().extend([k.resume(id), task(id, body)]);
    })
    .on(|Await(id), k| match awaited.borrow_mut().get_mut(&id) {
        Some(waiting) => waiting.push(k.resume(())),
        None => ready.borrow_mut().push_back(k.resume(())),
    });
    loop {
        let next = ready.borrow_mut().pop_front();
        let Some(next) = next else { break };
        scheduler.run(next);
    }
}

fn run() -> Vec<&'static str> {
    thread_local!(static ORDER: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) });
    fn note(what: &'static str) {
        ORDER.with(|order| order.borrow_mut().push(what));
    }
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    let order = runtime.spawn_fiber(|| {
        schedule(|| {
            let a = fork(|| {
                note("a begins");
                perform(Yield);
                // The whole scheduler waits, as the fiber that it is.
                warpweft::spawn_job(|| ()).wait().expect("no panic");
                note("a ends");
            });
            let b = fork(|| note("b"));
            note("main has forked");
            perform(Await(a));
            perform(Await(b));
            note("main ends");
        });
        ORDER.with(RefCell::take)
    });
    order.wait().expect("no panic")
}

fn main() {
    for what in run() {
        println!("{what}");
    }
}

#[test]
fn first_in_first_out() {
    assert_eq!(run(), ["a begins", "main has forked", "b", "a ends", "main ends"]);
}
