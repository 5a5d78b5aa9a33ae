//! The waker of a fiber, under every schedule that a seed can make. It is called on the fiber's own thread
//! and on others, for the present wait, for one around it and for one that is over.
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::thread;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use support::{Gate, check, check_often, runtime};
use warpweft::{block_on, fiber, join};

#[test]
fn each_wake_from_another_thread_is_noticed() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let gates = [(); 3].map(|()| Gate::default());
        let waiting = gates.clone();
        let fiber = runtime.spawn_fiber(move || waiting.map(block_on).len());
        let openers = gates.map(|gate| thread::spawn(move || gate.open()));
        assert_eq!(fiber.wait().expect("no panic"), 3);
        for opener in openers {
            opener.join().expect("no panic");
        }
    });
}

#[test]
fn wakes_on_the_own_thread_meet_wakes_from_others() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let gates = [(); 4].map(|()| Gate::default());
        let waiting = gates.clone();
        let fiber = runtime.spawn_fiber(move || waiting.map(block_on).len());
        let [first, second, third, fourth] = gates;
        let at_home = runtime.spawn_fiber(move || {
            first.open();
            fiber::yield_now();
            third.open();
        });
        let elsewhere = thread::spawn(move || {
            fourth.open();
            second.open();
        });
        assert_eq!(fiber.wait().expect("no panic"), 4);
        at_home.wait().expect("no panic");
        elsewhere.join().expect("no panic");
    });
}

/// Two fibers of two threads, each of which wakes the other.
#[test]
fn two_threads_wake_each_others_fibers() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let gates = [(); 4].map(|()| Gate::default());
        let fibers = [0, 1].map(|n| {
            let gates = gates.clone();
            runtime.spawn_fiber(move || {
                for round in [0, 2] {
                    gates[round + n].open();
                    block_on(gates[round + 1 - n].clone());
                }
            })
        });
        for fiber in fibers {
            fiber.wait().expect("no panic");
        }
    });
}

/// What opens the outer gate while the inner wait is under way is for the outer wait, too.
#[test]
fn a_wake_that_an_inner_wait_received_is_for_the_outer_wait_too() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let (outer, inner) = (Gate::default(), Gate::default());
        let (mut waits, mut within) = (outer.clone(), Some(inner.clone()));
        let fiber = runtime.spawn_fiber(move || {
            block_on(poll_fn(move |cx| {
                let seen = Pin::new(&mut waits).poll(cx);
                if let Some(inner) = within.take() {
                    block_on(inner);
                }
                seen
            }));
        });
        let opener = thread::spawn(move || {
            outer.open();
            inner.open();
        });
        fiber.wait().expect("no panic");
        opener.join().expect("no panic");
    });
}

/// A waker of a wait that is over does not end a join.
#[test]
fn a_late_wake_does_not_end_a_join() {
    check_often(|| {
        let runtime = runtime(2, "fifo");
        let (tell, told) = shuttle::sync::mpsc::channel();
        let fiber = runtime.spawn_fiber(move || {
            block_on(poll_fn(move |cx| {
                tell.send(cx.waker().clone()).expect("somebody listens");
                Poll::Ready(())
            }));
            let (a, b) = join(
                || {
                    thread::yield_now();
                    1
                },
                || {
                    thread::yield_now();
                    thread::yield_now();
                    2
                },
            );
            a + b
        });
        let late = thread::spawn(move || {
            let waker = told.recv().expect("it is sent");
            waker.wake_by_ref();
            thread::yield_now();
            waker.wake();
        });
        assert_eq!(fiber.wait().expect("no panic"), 3);
        late.join().expect("no panic");
    });
}

/// The waker serves the next fiber when the first has ended, and none when its thread has.
#[test]
fn a_waker_outlives_its_fiber_and_its_pool() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let (tell, told) = shuttle::sync::mpsc::channel();
        let gate = Gate::default();
        let waiting = gate.clone();
        runtime
            .spawn_fiber(move || {
                block_on(poll_fn(move |cx| {
                    tell.send(cx.waker().clone()).expect("somebody listens");
                    Poll::Ready(())
                }));
            })
            .wait()
            .expect("no panic");
        let next = runtime.spawn_fiber(move || block_on(waiting));
        let waker = told.recv().expect("it was sent");
        let late = thread::spawn(move || {
            waker.wake_by_ref();
            gate.open();
            waker
        });
        next.wait().expect("no panic");
        let waker = late.join().expect("no panic");
        runtime.shutdown();
        waker.wake();
    });
}
