//! A scheduler in forty lines, as a handler of effects: `cargo run --bin effects -- lifo`.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use warpweft::effect::{Coroutine, Effect, Handler, perform};

type Id = usize;

/// Starts a task.
struct Fork(Box<dyn FnOnce()>);
impl Effect for Fork {
    type Answer = Id;
}

/// Lets another task run.
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

/// Runs `main` and all tasks that it forks. With `lifo` the newest task runs first.
fn schedule(lifo: bool, main: impl FnOnce() + 'static) {
    // The result of a task is its number.
    let task = |id: Id, body: Box<dyn FnOnce()>| Coroutine::new(move || (body(), id).1);
    let ids = Cell::new(0);
    let ready = RefCell::new(VecDeque::from([task(0, Box::new(main))]));
    // The tasks that wait for each unfinished task.
    let waiting = RefCell::new(HashMap::from([(0, Vec::new())]));
    let mut scheduler = Handler::returning(|ended: Id| {
        let waited = waiting.borrow_mut().remove(&ended);
        ready.borrow_mut().extend(waited.into_iter().flatten());
    })
    .on(|Yield, k| ready.borrow_mut().push_back(k.resume(())))
    .on(|Fork(body), k| {
        let id = ids.replace(ids.get() + 1) + 1;
        waiting.borrow_mut().insert(id, Vec::new());
        for task in [k.resume(id), task(id, body)] {
            match lifo {
                true => ready.borrow_mut().push_front(task),
                false => ready.borrow_mut().push_back(task),
            }
        }
    })
    .on(|Await(id), k| match waiting.borrow_mut().get_mut(&id) {
        Some(tasks) => tasks.push(k.resume(())),
        None => ready.borrow_mut().push_back(k.resume(())),
    });
    loop {
        let next = ready.borrow_mut().pop_front();
        let Some(task) = next else { break };
        scheduler.run(task);
    }
}

fn main() {
    let lifo = std::env::args().nth(1).is_some_and(|order| order == "lifo");
    schedule(lifo, || {
        let a = fork(|| {
            println!("a begins");
            perform(Yield);
            println!("a ends");
        });
        let b = fork(|| println!("b"));
        println!("main has forked");
        perform(Await(a));
        perform(Await(b));
        println!("main ends");
    });
}
