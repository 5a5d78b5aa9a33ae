//! Effects: which handler handles what, once, on which stack; and how waits, panics and ends affect a body.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod elsewhere;
mod handlers;
mod panics;
mod stacks;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use warpweft::Runtime;
use warpweft::effect::{Effect, Handler};

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
