//! Fibers: their stacks, their waits and their end.
#![forbid(unsafe_code)]

use crate::child::Ends;
use crate::keepers::{all_answer, eventually};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use warpweft::sync::{Mutex, Notify, channel};
use warpweft::time::sleep;
use warpweft::{JoinError, Runtime, SpawnError, block_on, fiber, spawn_job};

/// Tries: fibers that catch the unwinding of the end of their runtime, and wait again, and again.
/// Expected: each wait unwinds again; the runtime ends.
#[test]
fn fibers_that_swallow_the_end() {
    program!(|world| {
        for _ in 0..world.count(10) {
            let runtime = world.runtime();
            let caught = Arc::new(AtomicUsize::new(0));
            let begun = Arc::new(AtomicUsize::new(0));
            let handles: Vec<_> = (0..10)
                .map(|_| {
                    let (caught, begun) = (Arc::clone(&caught), Arc::clone(&begun));
                    runtime.spawn_fiber(move || {
                        begun.fetch_add(1, Ordering::Relaxed);
                        for _ in 0..5 {
                            let wait = || fiber::wait(sleep(Duration::from_secs(3600)));
                            if catch_unwind(AssertUnwindSafe(wait)).is_err() {
                                caught.fetch_add(1, Ordering::Relaxed);
                            }
                            let _ = catch_unwind(fiber::yield_now);
                        }
                    })
                })
                .collect();
            eventually("all wait", || begun.load(Ordering::Relaxed) == 10);
            drop(runtime);
            assert!(caught.load(Ordering::Relaxed) >= 10);
            assert_eq!(all_answer(handles).all(), 10);
        }
    });
}

/// Yields and waits when it is dropped.
struct YieldsAsItGoes(Arc<AtomicUsize>);

impl Drop for YieldsAsItGoes {
    fn drop(&mut self) {
        fiber::yield_now();
        fiber::wait(sleep(Duration::from_micros(50)));
        let inner = spawn_job(|| 1);
        drop(inner.wait());
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tries: yields and waits in destructors, while a panic unwinds, after a cancellation, and at the end of the
/// runtime. Expected: the thread blocks where it must not switch; no other fiber sees the panic.
#[test]
fn yields_in_destructors_while_unwinding() {
    program!(|world| {
        for round in 0..world.count(10) {
            let runtime = world.runtime();
            let count = Arc::new(AtomicUsize::new(0));
            let handles: Vec<_> = (0..20)
                .map(|n| {
                    let goes = YieldsAsItGoes(Arc::clone(&count));
                    let handle = runtime.spawn_fiber(move || {
                        let _goes = goes;
                        assert!(!thread::panicking(), "the panic of another fiber");
                        fiber::yield_now();
                        assert!(!thread::panicking(), "the panic of another fiber");
                        match n % 3 {
                            0 => resume_unwind(Box::new("a fiber panics")),
                            1 => fiber::wait(sleep(Duration::from_micros(100))),
                            _ => fiber::wait(std::future::pending::<()>()),
                        }
                    });
                    if n % 6 == 2 {
                        handle.cancel();
                    }
                    handle
                })
                .collect();
            thread::sleep(Duration::from_micros(200 * round as u64));
            drop(runtime);
            assert_eq!(all_answer(handles).all(), 20);
        }
    });
}

/// Tries: stacks of fibers that are used to the end. Expected: an abort that names the fiber's stack, and no
/// damage.
#[test]
fn a_fiber_overflows_its_stack() {
    fn deep(n: usize) -> usize {
        let frame = std::hint::black_box([n; 64]);
        if n == 0 {
            frame[0]
        } else {
            deep(n - 1) + std::hint::black_box(frame)[63]
        }
    }
    program!(Ends::Aborting("overflow"), |world| {
        let runtime = world.runtime();
        let end = runtime.spawn_fiber(|| deep(1 << 24)).wait();
        panic!("it came back: {end:?}");
    });
}

/// Tries: recursion that is bounded, near the size of a stack, in many fibers at once, each of which yields
/// at the bottom. Expected: each fiber sees its own stack.
#[test]
fn deep_stacks_side_by_side() {
    fn deep(n: usize, seed: usize) -> usize {
        let frame = std::hint::black_box([seed; 16]);
        if n == 0 {
            fiber::yield_now();
            fiber::wait(sleep(Duration::from_micros(10)));
        } else {
            assert_eq!(deep(n - 1, seed), seed);
        }
        std::hint::black_box(frame)[7]
    }
    program!(|world| {
        let runtime = world
            .builder()
            .fiber_stack_size(256 * 1024)
            .build()
            .expect("a runtime");
        for _ in 0..world.count(10) {
            let handles: Vec<_> = (0..40)
                .map(|n| runtime.spawn_fiber(move || deep(100, n)))
                .collect();
            for (n, handle) in handles.into_iter().enumerate() {
                assert_eq!(handle.wait().expect("no panic"), n);
            }
        }
    });
}

/// Tries: more fibers than there may be stacks. Expected: errors, and the places come back.
#[test]
fn stacks_that_are_exhausted() {
    program!(|world| {
        let runtime = world.builder().max_fiber_stacks(4).build().expect("a runtime");
        for _ in 0..world.count(20) {
            let gate = Arc::new(Notify::new());
            let handles: Vec<_> = (0..20)
                .map(|_| {
                    let gate = Arc::clone(&gate);
                    runtime.spawn_fiber(move || {
                        fiber::wait(gate.notified());
                    })
                })
                .collect();
            let refused = || handles.iter().filter(|handle| handle.is_finished()).count();
            // A stack of the last round may come back late, so that one more is refused.
            eventually("16 are refused", || refused() >= 16);
            assert!(matches!(
                runtime.try_spawn_fiber(|| ()),
                Ok(_) | Err(SpawnError::NoStack)
            ));
            eventually("all end", || {
                gate.notify_all();
                refused() == 20
            });
            let no_stack = handles.into_iter().filter_map(|handle| handle.wait().err());
            let no_stack = no_stack
                .filter(|error| matches!(error, JoinError::NoStack))
                .count();
            assert!((16..20).contains(&no_stack), "{no_stack} are refused");
            eventually("a stack comes back", || {
                runtime
                    .try_spawn_fiber(|| 7)
                    .is_ok_and(|handle| handle.wait().is_ok_and(|seven| seven == 7))
            });
        }
    });
}

/// Tries: impossible sizes of stacks and numbers of stacks. Expected: an error of `build`, or of each fiber.
#[test]
fn impossible_stacks() {
    program!(|world| {
        for bytes in [0, 1, 4096, usize::MAX, usize::MAX / 2, 1 << 46] {
            if let Ok(runtime) = world.builder().fiber_stack_size(bytes).build() {
                let _ = runtime.spawn_fiber(|| ()).wait();
            }
        }
        for stacks in [0, usize::MAX] {
            let runtime = world
                .builder()
                .max_fiber_stacks(stacks)
                .build()
                .expect("a runtime");
            let end = runtime.spawn_fiber(|| 7).wait();
            assert!(matches!(end, Ok(7) | Err(JoinError::NoStack)), "{end:?}");
        }
    });
}

/// Tries: thread-bound values on a fiber's stack across waits, and thread-locals borrowed across a yield.
/// Expected: the fiber stays on its thread; a borrow is a panic of the second fiber.
#[test]
fn thread_bound_values_stay_on_their_thread() {
    thread_local!(static CELL: RefCell<u32> = const { RefCell::new(0) });
    program!(|world| {
        let runtime = world.runtime();
        let handles: Vec<_> = (0..30)
            .map(|_| {
                runtime.spawn_fiber(|| {
                    let (id, shared) = (thread::current().id(), Rc::new(Cell::new(0)));
                    let clones: Vec<_> = (0..10).map(|_| Rc::clone(&shared)).collect();
                    for clone in clones {
                        fiber::yield_now();
                        fiber::wait(sleep(Duration::from_micros(20)));
                        warpweft::blocking(thread::yield_now);
                        drop(spawn_job(|| ()).wait());
                        assert_eq!(thread::current().id(), id);
                        clone.set(clone.get() + 1);
                    }
                    assert_eq!((shared.get(), Rc::strong_count(&shared)), (10, 1));
                    let borrow = || {
                        CELL.with(|cell| {
                            let mut value = cell.borrow_mut();
                            fiber::yield_now();
                            *value += 1;
                        });
                    };
                    let _ = catch_unwind(borrow);
                })
            })
            .collect();
        assert_eq!(all_answer(handles).done, 30);
    });
}

/// Tries: fibers of a scope that are spawned by jobs of the scope, wait, panic, and outlive the scope's body.
/// Expected: the scope waits for all; a panic is the scope's.
#[test]
fn fibers_of_scopes() {
    program!(|world| {
        let runtime = world.runtime();
        for n in 0..world.count(30) {
            let ran = AtomicUsize::new(0);
            let text = String::from("borrowed");
            let body = || {
                fiber::scope(|scope| {
                    for k in 0..5 {
                        let (ran, text) = (&ran, &text);
                        scope.spawn(move |scope| {
                            fiber::wait(sleep(Duration::from_micros(20)));
                            scope.spawn(move |_| {
                                fiber::yield_now();
                                assert_eq!(text, "borrowed");
                                ran.fetch_add(1, Ordering::Relaxed);
                                if n % 4 == 0 && k == 3 {
                                    resume_unwind(Box::new("a fiber of a scope"));
                                }
                            });
                        });
                    }
                });
            };
            let end = catch_unwind(AssertUnwindSafe(|| runtime.install(|_| body())));
            assert_eq!(end.is_err(), n % 4 == 0);
            assert_eq!(ran.load(Ordering::Relaxed), 5);
        }
    });
}

/// Tries: fibers spawned on the same thread, in a long chain, each of which waits for the next, and is
/// cancelled. Expected: each joiner gets a result.
#[test]
fn chains_of_fibers_on_one_thread() {
    fn chain(depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let next = fiber::spawn_here(move || chain(depth - 1));
        if depth.is_multiple_of(7) {
            next.cancel();
        }
        1 + next.wait().unwrap_or(0)
    }
    program!(|world| {
        let runtime = world.builder().max_fiber_stacks(300).build().expect("a runtime");
        for _ in 0..world.count(10) {
            let handles: Vec<_> = (0..4)
                .map(|n| runtime.spawn_fiber(move || chain(50 + n)))
                .collect();
            assert_eq!(all_answer(handles).done, 4);
        }
    });
}

/// Tries: locks and channels held across switches while fibers are cancelled and their runtime ends.
/// Expected: a lock's guard is dropped with its fiber; the lock can be had afterwards.
#[test]
fn guards_on_the_stacks_of_fibers_that_end() {
    program!(|world| {
        let lock = Arc::new(Mutex::new(0));
        let (sender, receiver) = channel::bounded::<Arc<Mutex<u32>>>(0);
        for round in 0..world.count(20) {
            let runtime = world.runtime();
            let handles: Vec<_> = (0..20)
                .map(|n| {
                    let (lock, sender, receiver) = (Arc::clone(&lock), sender.clone(), receiver.clone());
                    let handle = runtime.spawn_fiber(move || {
                        let mut guard = lock.lock().wait();
                        *guard += 1;
                        fiber::wait(sleep(Duration::from_micros(30)));
                        drop(guard);
                        if n % 2 == 0 {
                            let _ = sender.send(lock).wait();
                        } else {
                            let _ = receiver.recv().wait();
                        }
                    });
                    if n % 5 == round % 5 {
                        handle.cancel();
                    }
                    handle
                })
                .collect();
            thread::sleep(Duration::from_micros(100 * round as u64));
            drop(runtime);
            assert_eq!(all_answer(handles).all(), 20);
            assert!(lock.try_lock().is_some(), "nobody holds it");
        }
    });
}

/// Tries: waits of a fiber on top of another wait: in a future's poll, in a waker, in a handler, in
/// `blocking`. Expected: each wait ends.
#[test]
fn waits_inside_of_waits() {
    program!(|world| {
        let runtime: Arc<Runtime> = Arc::new(world.runtime());
        let body = || {
            block_on(std::future::poll_fn(|cx| {
                fiber::wait(sleep(Duration::from_micros(20)));
                fiber::yield_now();
                cx.waker().wake_by_ref();
                warpweft::blocking(|| block_on(sleep(Duration::from_micros(20))));
                drop(fiber::spawn(|| block_on(sleep(Duration::from_micros(20)))).wait());
                std::task::Poll::Ready(())
            }));
        };
        for _ in 0..world.count(20) {
            let handles = [
                runtime.spawn_fiber(body),
                runtime.spawn_job(body),
                runtime.spawn(async move { body() }),
            ];
            assert_eq!(all_answer(handles).done, 3);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let spinner = Arc::clone(&stop);
        let spins = runtime.spawn_fiber(move || {
            while !spinner.load(Ordering::Relaxed) {
                fiber::yield_now();
            }
        });
        stop.store(true, Ordering::Relaxed);
        spins.wait().expect("no panic");
    });
}
