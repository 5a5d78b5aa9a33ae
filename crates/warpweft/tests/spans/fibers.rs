//! Fibers and handled bodies have their own spans.

use super::eventually::eventually;
use super::{IS_ARMED, around, assert_over, in_spans, runtime};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tracing::{info, info_span};
use warpweft::effect::{Continuation, Coroutine, Effect, Handler, Next, perform};
use warpweft::sync::{Notify, oneshot};
use warpweft::time::sleep;
use warpweft::{block_on, fiber, join};

struct Yield;

impl Effect for Yield {
    type Answer = ();
}

#[test]
fn fibers_of_a_thread_have_spans_of_their_own() {
    let runtime = runtime(1);
    let fibers: Vec<_> = (0..4)
        .map(|j| {
            runtime.spawn_fiber(move || {
                let _fiber = info_span!("own", j).entered();
                for turn in 0..3 {
                    info!("own {j}");
                    match turn {
                        0 => drop(fiber::yield_now()),
                        1 => fiber::wait(sleep(Duration::from_millis(1))),
                        _ => {}
                    }
                }
            })
        })
        .collect();
    fibers
        .into_iter()
        .for_each(|fiber| fiber.wait().expect("it ends"));
    for j in 0..4 {
        let name = format!("own j={j}");
        assert_eq!(around(&format!("own {j}")), [name.as_str(); 3]);
        assert_over(&name);
    }
}

#[test]
fn spans_in_each_other_are_entered_again_in_their_order() {
    let runtime = runtime(1);
    let fibers = ["a", "b"].map(|name| {
        runtime.spawn_fiber(move || {
            let _outer = info_span!("outer", name).entered();
            fiber::yield_now();
            {
                let _inner = info_span!("inner", name).entered();
                fiber::yield_now();
                let again = info_span!("innermost", name);
                again.in_scope(|| {
                    fiber::yield_now();
                    again.in_scope(fiber::yield_now);
                    info!("nested {name} deep");
                });
                fiber::yield_now();
            }
            fiber::yield_now();
            info!("nested {name} up");
        })
    });
    fibers
        .into_iter()
        .for_each(|fiber| fiber.wait().expect("it ends"));
    for name in ["a", "b"] {
        let all = ["outer", "inner", "innermost"].map(|span| format!("{span} name={name:?}"));
        assert_eq!(around(&format!("nested {name} deep")), [all.join(":")]);
        assert_eq!(around(&format!("nested {name} up")), [all[0].clone()]);
        all.iter().for_each(|span| assert_over(span));
    }
}

#[test]
fn a_fiber_on_top_of_a_frame_that_waits_does_not_see_its_spans() {
    let runtime = runtime(1);
    let woken = Arc::new(Notify::new());
    let fiber = runtime.spawn_fiber({
        let woken = Arc::clone(&woken);
        move || {
            info!("below frame");
            fiber::wait(woken.notified());
            info!("above frame");
        }
    });
    eventually("the fiber waits", || !around("below frame").is_empty());
    let (go, gone) = oneshot::channel();
    let (waits, is_waiting) = mpsc::channel();
    // One worker and one thread so far: the fiber's. So the frame of the job is on that thread, and while it
    // waits the fiber continues on top of it.
    let job = runtime.spawn_job(move || {
        let _frame = info_span!("frame").entered();
        waits.send(()).expect("the test waits");
        block_on(gone).expect("it is told");
        info!("in frame");
    });
    is_waiting.recv().expect("the job runs");
    woken.notify_one();
    fiber.wait().expect("it ends");
    go.send(()).expect("the job waits");
    job.wait().expect("it ends");
    assert_eq!(around("above frame"), [""]);
    assert_eq!(around("in frame"), ["frame"]);
    assert_over("frame");
}

#[test]
fn a_fiber_that_waits_for_a_half_takes_its_spans_along() {
    let runtime = runtime(2);
    let fiber = runtime.spawn_fiber(|| {
        let (go, gone) = oneshot::channel();
        // It starts on this thread, when this fiber waits.
        let beside = fiber::spawn_here(move || {
            info!("beside a join");
            go.send(()).expect("the other half waits");
        });
        info_span!("joining").in_scope(|| {
            let (begun, begins) = mpsc::channel();
            join(
                move || begins.recv().expect("another thread begins it"),
                move || {
                    begun.send(()).expect("it is waited for");
                    block_on(gone).expect("it is told");
                },
            );
            info!("after a join");
        });
        beside.wait().expect("it ends");
    });
    fiber.wait().expect("it ends");
    assert_eq!(around("beside a join"), [""]);
    assert_eq!(around("after a join"), ["joining"]);
    assert_over("joining");
}

#[test]
fn a_span_whose_handles_are_gone_stays_open_while_a_fiber_that_waits_is_in_it() {
    let runtime = runtime(1);
    let (go, gone) = oneshot::channel();
    let fiber = info_span!("long").in_scope(|| {
        runtime.spawn_fiber(move || {
            info!("long begins");
            block_on(gone).expect("it is told");
            info!("long ends");
        })
    });
    eventually("the fiber waits", || around("long begins").len() == 1);
    // The fiber has left the thread: another task is not in the span, and nobody has entered it.
    runtime
        .spawn_job(|| info!("long meanwhile"))
        .wait()
        .expect("it ends");
    assert_eq!(around("long meanwhile"), [""]);
    in_spans(|spans| assert_eq!(spans.get("long"), Some(&(0, false))));
    go.send(()).expect("it waits");
    fiber.wait().expect("it ends");
    assert_eq!(around("long ends"), ["long"]);
    assert_over("long");
}

#[test]
fn a_fiber_that_panics_leaves_no_span_behind() {
    let runtime = runtime(1);
    let fiber = runtime.spawn_fiber(|| {
        let _span = info_span!("panics").entered();
        fiber::yield_now();
        std::panic::resume_unwind(Box::new("as planned"));
    });
    assert!(fiber.wait().is_err());
    runtime
        .spawn_fiber(|| info!("after panic"))
        .wait()
        .expect("it ends");
    assert_eq!(around("after panic"), [""]);
    assert_over("panics");
}

#[test]
fn a_fiber_that_is_unwound_at_the_end_exits_its_spans() {
    let runtime = runtime(1);
    let fiber = runtime.spawn_fiber(|| {
        struct Tells;
        impl Drop for Tells {
            fn drop(&mut self) {
                info!("unwound");
            }
        }
        let _span = info_span!("unwinds").entered();
        let _tells = Tells;
        info!("unwinds later");
        block_on(std::future::pending::<()>());
    });
    eventually("the fiber waits", || around("unwinds later").len() == 1);
    drop(runtime);
    assert!(fiber.wait().is_err());
    assert_eq!(around("unwound"), ["unwinds"]);
    assert_over("unwinds");
}

#[test]
fn a_subscriber_that_panics_at_a_wait_does_not_end_the_wait() {
    let runtime = runtime(1);
    let turns = Arc::new(AtomicUsize::new(0));
    let fiber = runtime.spawn_fiber({
        let turns = Arc::clone(&turns);
        move || {
            let _bomb = info_span!("bomb").entered();
            IS_ARMED.store(true, Ordering::Relaxed);
            fiber::wait(sleep(Duration::from_millis(1)));
            turns.fetch_add(1, Ordering::Relaxed);
        }
    });
    fiber.wait().expect("the panic ended in the wait");
    assert!(!IS_ARMED.load(Ordering::Relaxed), "it has panicked");
    assert_eq!(turns.load(Ordering::Relaxed), 1);
}

#[test]
fn a_handler_and_its_bodies_do_not_see_each_others_spans() {
    let runtime = runtime(1);
    let fiber = runtime.spawn_fiber(|| {
        let _fiber = info_span!("made here").entered();
        let mut queue: VecDeque<_> = ["a", "b"]
            .map(|name| {
                Coroutine::new(move || {
                    let _body = info_span!("body", name).entered();
                    perform(Yield);
                    info!("body {name}");
                })
            })
            .into();
        let _handler = info_span!("handler").entered();
        while let Some(body) = queue.pop_front() {
            Handler::new()
                .on(|Yield, k: Continuation<Yield, ()>| {
                    info!("in handler");
                    queue.push_back(k.resume(()));
                    Next::Leave(())
                })
                .run(body);
        }
    });
    fiber.wait().expect("it ends");
    assert_eq!(around("in handler"), ["made here:handler"; 2]);
    assert_eq!(around("body a"), ["made here:body name=\"a\""]);
    assert_eq!(around("body b"), ["made here:body name=\"b\""]);
    for span in ["made here", "handler", "body name=\"a\"", "body name=\"b\""] {
        assert_over(span);
    }
}
