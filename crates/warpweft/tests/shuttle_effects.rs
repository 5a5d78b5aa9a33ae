//! Waits of the runtime inside of handled bodies, under every schedule that a seed can make: the whole chain
//! of stacks waits, and each of them continues with the right worker.
//!
//! A body's stack is a thread here, as a fiber's is (`src/coroutine/on_thread.rs`).
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::Mutex;
use shuttle::thread;
use std::cell::RefCell;
use std::sync::Arc;
use support::{Gate, check, check_fairly, runtime};
use warpweft::effect::{Continuation, Coroutine, Effect, Handler, handle, perform};
use warpweft::{JoinError, block_on, fiber, join, spawn_job, yield_now};

struct Ask;
impl Effect for Ask {
    type Answer = u32;
}

/// Waits for `gate`, and performs an effect before and after, on the third stack of a chain; the first
/// handler answers.
fn waits_deep_inside(gate: Gate) -> u32 {
    let body = move || {
        let before = perform(Ask);
        block_on(gate);
        // The body has the worker again: a job can be spawned, and its forks are found.
        let (a, b) = join(|| spawn_job(|| 1).wait().expect("no panic"), || 2);
        before + a + b + perform(Ask)
    };
    handle(
        move || handle(body, Handler::new()) + perform(Ask),
        Handler::new().on(|Ask, k| k.resume(10)),
    )
}

#[test]
fn a_chain_of_stacks_waits_on_a_fiber() {
    for workers in [1, 2] {
        support::check_with(Arc::new(move || {
            let runtime = runtime(workers, "fifo");
            let gate = Gate::default();
            let waits = gate.clone();
            let fiber = runtime.spawn_fiber(move || waits_deep_inside(waits));
            let other = runtime.spawn_fiber(move || gate.open());
            assert_eq!(fiber.wait().expect("no panic"), 33);
            other.wait().expect("no panic");
        }));
    }
}

#[test]
fn a_chain_of_stacks_waits_in_a_job() {
    for workers in [1, 2] {
        support::check_with(Arc::new(move || {
            let runtime = runtime(workers, "lifo");
            let gate = Gate::default();
            let waits = gate.clone();
            let job = runtime.spawn_job(move || waits_deep_inside(waits));
            let other = runtime.spawn_job(move || gate.open());
            assert_eq!(job.wait().expect("no panic"), 33);
            other.wait().expect("no panic");
        }));
    }
}

#[test]
fn a_chain_of_stacks_waits_on_a_thread_of_no_pool() {
    check(|| {
        let gate = Gate::default();
        let waits = gate.clone();
        let opener = thread::spawn(move || gate.open());
        let sum = handle(
            move || {
                let before = perform(Ask);
                block_on(waits);
                before + perform(Ask)
            },
            Handler::new().on(|Ask, k| k.resume(1)),
        );
        assert_eq!(sum, 2);
        opener.join().expect("no panic");
    });
}

/// The body waits for a fork of its handler's stack.
#[test]
fn the_hosts_forks_are_told() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let waits = gate.clone();
        let sum = runtime.install(move |_| {
            join(
                || {
                    let body = move || {
                        block_on(waits);
                        1
                    };
                    handle(body, Handler::new())
                },
                || {
                    gate.open();
                    2
                },
            )
        });
        assert_eq!(sum.expect("a pool"), (1, 2));
    });
}

/// A scheduler in a fiber: while one of its bodies waits, so do the others; the thread's other fibers do not.
#[test]
fn a_scheduler_waits_with_its_fiber() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let waits = gate.clone();
        let scheduler = runtime.spawn_fiber(move || {
            let ready = RefCell::new(Vec::new());
            let mut handler = Handler::returning(|()| ()).on(|Ask, k| ready.borrow_mut().push(k.resume(1)));
            handler.run(Coroutine::new(|| {
                perform(Ask);
                block_on(waits);
                perform(Ask);
            }));
            handler.run(Coroutine::new(|| {
                perform(Ask);
                fiber::yield_now();
            }));
            let mut turns = 0;
            loop {
                let next = ready.borrow_mut().pop();
                let Some(next) = next else { return turns };
                turns += 1;
                handler.run(next);
            }
        });
        let other = runtime.spawn_fiber(move || {
            block_on(yield_now());
            gate.open();
        });
        assert_eq!(scheduler.wait().expect("no panic"), 3);
        other.wait().expect("no panic");
    });
}

#[test]
fn a_pool_ends_while_a_chain_of_stacks_waits() {
    struct Tells(&'static str, Arc<Mutex<Vec<&'static str>>>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.1.lock().expect("no panic").push(self.0);
        }
    }
    check_fairly(|| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&order);
        let runtime = runtime(1, "fifo");
        let fiber = runtime.spawn_fiber(move || {
            let _fiber = Tells("fiber", Arc::clone(&told));
            let (kept, in_kept) = (RefCell::new(None), Arc::clone(&told));
            let mut keeper = Handler::new().on(|Ask, k: Continuation<Ask, ()>| *kept.borrow_mut() = Some(k));
            keeper.run(Coroutine::new(move || {
                let _kept = Tells("kept", in_kept);
                perform(Ask);
            }));
            let body = move || {
                let _body = Tells("body", told);
                block_on(std::future::pending::<()>());
            };
            handle(body, Handler::new());
        });
        while runtime.fibers().live == 0 {
            thread::yield_now();
        }
        drop(runtime);
        assert!(matches!(fiber.wait(), Err(JoinError::Shutdown)));
        assert_eq!(*order.lock().expect("no panic"), ["body", "kept", "fiber"]);
    });
}
