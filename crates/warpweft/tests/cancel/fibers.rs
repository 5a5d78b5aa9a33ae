//! Fibers under a token: a wait ends at once, and unwinds.

use super::{Alive, HOUR, half_take_less, in_time, runtime, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use warpweft::cancel::{self, CancelToken};
use warpweft::effect::{Effect, Handler, perform};
use warpweft::sync::{Mutex, channel};
use warpweft::time::sleep;
use warpweft::{JoinError, JoinHandle, Runtime, fiber, uncooperative};

fn spawn_under(
    runtime: &Runtime,
    token: &CancelToken,
    body: impl FnOnce() + Send + 'static,
) -> JoinHandle<()> {
    token.run(|| runtime.spawn_fiber(body)).expect("live")
}

#[test]
fn each_kind_of_wait_unwinds_and_drops_what_its_frames_hold() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let (token, alive) = (CancelToken::new(), Alive::default());
        let lock = Arc::new(Mutex::new(()));
        let guard = lock.try_lock().expect("free");
        let (sender, receiver) = channel::bounded::<()>(1);
        let never = runtime.spawn(std::future::pending::<()>());
        let started = Arc::new(AtomicUsize::new(0));
        let begin = || {
            let (held, started) = (alive.hold(), Arc::clone(&started));
            move || {
                started.fetch_add(1, Ordering::Release);
                held
            }
        };
        let (b, lock2) = (begin(), Arc::clone(&lock));
        let mut fibers = vec![spawn_under(&runtime, &token, move || {
            let _held = b();
            drop(lock2.lock().wait());
        })];
        let b = begin();
        fibers.push(spawn_under(&runtime, &token, move || {
            let _held = b();
            fiber::wait(sleep(Duration::from_secs(5)));
        }));
        let b = begin();
        fibers.push(spawn_under(&runtime, &token, move || {
            let _held = b();
            let _ = receiver.recv().wait();
        }));
        let b = begin();
        fibers.push(spawn_under(&runtime, &token, move || {
            let _held = b();
            let _ = never.wait();
        }));
        let b = begin();
        fibers.push(spawn_under(&runtime, &token, move || {
            let _held = b();
            loop {
                fiber::yield_now();
            }
        }));
        let b = begin();
        fibers.push(spawn_under(&runtime, &token, move || {
            let _held = b();
            // In a scope of fibers, and in the fiber below.
            fiber::scope(|scope| {
                scope.spawn(|_| fiber::wait(sleep(HOUR)));
                fiber::wait(sleep(HOUR));
            });
        }));
        until(|| started.load(Ordering::Acquire) == fibers.len());
        std::thread::sleep(Duration::from_millis(10));
        token.cancel();
        for fiber in fibers {
            assert!(matches!(fiber.wait(), Err(JoinError::Cancelled)));
        }
        assert_eq!(alive.count(), 0);
        drop((guard, sender));
        assert!(lock.try_lock().is_some());
        // A fiber without a token runs on one of their stacks.
        let plain = runtime.spawn_fiber(|| {
            fiber::wait(sleep(Duration::from_millis(1)));
            cancel::current().is_none()
        });
        assert_eq!(plain.wait().ok(), Some(true));
    }
}

#[test]
fn a_fiber_in_a_sleep_ends_within_a_millisecond() {
    let runtime = runtime(2);
    half_take_less(Duration::from_millis(1), || {
        let token = CancelToken::new();
        let asleep = Arc::new(AtomicUsize::new(0));
        let began = Arc::clone(&asleep);
        let fiber = spawn_under(&runtime, &token, move || {
            began.fetch_add(1, Ordering::Release);
            fiber::wait(sleep(Duration::from_secs(5)));
        });
        until(|| asleep.load(Ordering::Acquire) == 1);
        std::thread::sleep(Duration::from_millis(2));
        let start = Instant::now();
        token.cancel();
        assert!(fiber.wait().is_err());
        start.elapsed()
    });
}

#[test]
fn a_fiber_waits_for_a_token_and_goes_on() {
    let runtime = runtime(1);
    let token = CancelToken::new();
    let waits = token.clone();
    let fiber = runtime.spawn_fiber(move || {
        waits.cancelled().wait();
        // Under the token the same wait returns as well: what is ready is not unwound.
        waits.run(|| ()).is_err()
    });
    std::thread::sleep(Duration::from_millis(2));
    token.cancel();
    assert_eq!(fiber.wait().ok(), Some(true));
}

#[test]
fn a_token_of_a_part_of_a_fiber_ends_that_part() {
    let runtime = runtime(1);
    let token = CancelToken::new();
    let inside = token.clone();
    let fiber = runtime.spawn_fiber(move || {
        let part = inside.run(|| fiber::wait(sleep(HOUR)));
        fiber::wait(sleep(Duration::from_millis(1)));
        part.is_err() && cancel::current().is_none()
    });
    std::thread::sleep(Duration::from_millis(5));
    token.cancel();
    assert_eq!(fiber.wait().ok(), Some(true));
}

#[test]
fn a_destructor_that_waits_while_the_fiber_unwinds_has_its_wait() {
    struct Waits(Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            fiber::wait(sleep(Duration::from_millis(1)));
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let runtime = runtime(1);
    let (token, waited) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
    let waits = Waits(Arc::clone(&waited));
    let fiber = spawn_under(&runtime, &token, move || {
        let _waits = waits;
        fiber::wait(sleep(HOUR));
    });
    std::thread::sleep(Duration::from_millis(5));
    token.cancel();
    assert!(matches!(fiber.wait(), Err(JoinError::Cancelled)));
    assert_eq!(waited.load(Ordering::Relaxed), 1);
}

struct Ask;
impl Effect for Ask {
    type Answer = u32;
}

#[test]
fn a_handled_body_has_the_token_under_which_it_was_made() {
    let runtime = runtime(1);
    let token = CancelToken::new();
    let fiber = token
        .run(|| {
            runtime.spawn_fiber(|| {
                warpweft::effect::handle(
                    || {
                        let answer = perform(Ask);
                        fiber::wait(sleep(HOUR));
                        answer
                    },
                    Handler::new().on(|_: Ask, rest| rest.resume(1)),
                )
            })
        })
        .expect("live");
    std::thread::sleep(Duration::from_millis(5));
    token.cancel();
    assert!(matches!(fiber.wait(), Err(JoinError::Cancelled)));
}

/// The only worker computes beyond the deadline, so nobody has cancelled the token when the fiber begins to
/// wait: the fiber finds the deadline passed, and calls its own waker.
#[test]
fn a_fiber_that_finds_its_deadline_passed_as_it_begins_to_wait_goes_on() {
    in_time(|| {
        let runtime = runtime(1);
        let fiber = runtime.spawn_fiber(|| {
            let soon = Instant::now() + Duration::from_millis(1);
            let _ = cancel::with_deadline(soon, || {
                uncooperative(|| {
                    while Instant::now() <= soon {}
                    fiber::wait(cancel::current().expect("a token counts").cancelled());
                });
            });
        });
        fiber.wait().expect("no panic");
    });
}
