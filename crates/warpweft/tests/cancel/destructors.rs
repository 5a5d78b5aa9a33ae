//! Destructors that fork, wait and spawn while a cancellation unwinds their stack: all that they begin ends.

use super::{runtime, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use warpweft::cancel::{CancelToken, with_deadline};
use warpweft::{Runtime, fiber, join, par_for, scope, spawn, spawn_job};

/// How often each case is tried: another thread does not always take the other half.
const ROUNDS: usize = 20;

/// Computes for long enough that another worker takes what is on offer.
fn compute() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(500) {
        std::hint::spin_loop();
    }
}

/// Calls its function when it is dropped, and counts that.
struct AtDrop(fn(), Arc<AtomicUsize>);

impl Drop for AtDrop {
    fn drop(&mut self) {
        (self.0)();
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

fn joins() {
    let both = join(
        || {
            compute();
            1
        },
        || {
            // Another half of a half.
            let (two, ()) = join(|| 2, compute);
            two
        },
    );
    assert_eq!(both, (1, 2));
}

fn loops() {
    let sum = AtomicUsize::new(0);
    par_for(0..8, 1, |n| {
        compute();
        sum.fetch_add(n, Ordering::Relaxed);
    });
    assert_eq!(sum.into_inner(), 28);
}

fn opens_a_scope() {
    let ran = AtomicUsize::new(0);
    scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|scope| {
                compute();
                scope.spawn(|_| {
                    ran.fetch_add(1, Ordering::Relaxed);
                });
            });
        }
    });
    assert_eq!(ran.into_inner(), 4);
}

fn spawns() {
    let task = spawn_job(|| 1);
    assert_eq!(task.wait().ok(), Some(1));
    assert_eq!(spawn(async { 2 }).wait().ok(), Some(2));
}

const DESTRUCTORS: [fn(); 4] = [joins, loops, opens_a_scope, spawns];

/// Cancels `token` under outer forks that are latent, so the stack unwinds there.
fn cancelled(token: &CancelToken, value: AtDrop) {
    join(
        || {
            let _value = value;
            token.cancel();
            join(|| (), || ());
        },
        || (),
    );
}

/// Calls `unwinds` with each destructor, and expects it to have ended each time.
fn each(workers: usize, unwinds: impl Fn(&Runtime, &CancelToken, AtDrop)) {
    for destructor in DESTRUCTORS {
        let runtime = runtime(workers);
        let dropped = Arc::new(AtomicUsize::new(0));
        for _ in 0..ROUNDS {
            let value = AtDrop(destructor, Arc::clone(&dropped));
            unwinds(&runtime, &CancelToken::new(), value);
        }
        until(|| dropped.load(Ordering::SeqCst) == ROUNDS);
    }
}

#[test]
fn they_fork_and_spawn_in_closures() {
    for workers in [1, 2, 3] {
        each(workers, |runtime, token, value| {
            let outcome = token.run(|| runtime.install(|_| cancelled(token, value)));
            assert!(outcome.is_err());
        });
    }
}

#[test]
fn they_fork_and_spawn_in_fibers() {
    each(2, |runtime, token, value| {
        let (begins, begun) = std::sync::mpsc::channel();
        let fiber = token.run(|| {
            runtime.spawn_fiber(move || {
                let _value = value;
                let _ = begins.send(());
                fiber::wait(std::future::pending::<()>());
            })
        });
        let fiber = fiber.expect("not yet");
        begun.recv().expect("it begins");
        token.cancel();
        assert!(fiber.wait().is_err());
    });
}

#[test]
fn they_fork_and_spawn_in_local_futures() {
    each(2, |runtime, token, value| {
        let future = || async move {
            let _value = value;
            std::future::pending::<()>().await;
        };
        let local = token.run(|| runtime.spawn_local(future)).expect("not yet");
        token.cancel();
        assert!(local.wait().is_err());
    });
}

#[test]
fn they_fork_on_a_thread_of_no_pool() {
    each(2, |runtime, token, value| {
        let outcome = runtime.block_on(async {
            token.run(|| {
                let _value = value;
                token.cancel();
                warpweft::cancel::check();
            })
        });
        assert!(outcome.is_err());
    });
    for destructor in DESTRUCTORS {
        let dropped = Arc::new(AtomicUsize::new(0));
        let token = CancelToken::new();
        let outcome = token.run(|| {
            let _value = AtDrop(destructor, Arc::clone(&dropped));
            token.cancel();
            warpweft::cancel::check();
        });
        assert!(outcome.is_err());
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn they_fork_after_a_deadline() {
    each(2, |runtime, _, value| {
        let outcome = runtime.install(|_| {
            with_deadline(Instant::now() + Duration::from_millis(1), || {
                let _value = value;
                par_for(0..usize::MAX, 1, |_| ());
            })
        });
        assert!(outcome.expect("it is open").is_err());
    });
}

/// The token is cancelled while the destructor, which an ordinary panic has called, waits for its other half.
#[test]
fn they_fork_in_an_ordinary_panic() {
    let runtime = runtime(2);
    for _ in 0..ROUNDS {
        let token = CancelToken::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        let value = AtDrop(loops, Arc::clone(&dropped));
        let job = token.run(|| {
            runtime.spawn_job(move || {
                let _value = value;
                std::panic::resume_unwind(Box::new("an ordinary one"));
            })
        });
        std::thread::sleep(Duration::from_micros(300));
        token.cancel();
        assert!(job.expect("not yet").wait().is_err());
        until(|| dropped.load(Ordering::SeqCst) == 1);
    }
}

/// What was forked before the panic never starts, although the destructor makes others run it.
#[test]
fn older_forks_stay_cancelled() {
    let runtime = runtime(2);
    for destructor in DESTRUCTORS {
        for _ in 0..ROUNDS {
            let token = CancelToken::new();
            let (dropped, ran) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
            let value = AtDrop(destructor, Arc::clone(&dropped));
            let outcome = token.run(|| {
                runtime.install(|_| {
                    // The oldest one is on offer, and the other worker takes it.
                    join(
                        || join(|| cancelled(&token, value), || ran.fetch_add(1, Ordering::SeqCst)),
                        || until(|| token.is_cancelled()),
                    )
                })
            });
            assert!(outcome.is_err());
            assert_eq!(ran.load(Ordering::SeqCst), 0);
            assert_eq!(dropped.load(Ordering::SeqCst), 1);
        }
    }
}
