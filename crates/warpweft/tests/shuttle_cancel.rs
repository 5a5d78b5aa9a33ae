//! Cancellations at random moments in whole pools, under every schedule that a seed can make.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;
use std::sync::Arc;
use support::{check, check_fairly, runtime};
use warpweft::cancel::{self, CancelToken};
use warpweft::sync::{Mutex, Notify};
use warpweft::{ForkCx, JoinError, block_on, par_for, scope};

/// Counts itself until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(alive))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Cancels a token on a thread of its own.
fn cancel_meanwhile(token: &CancelToken) -> thread::JoinHandle<()> {
    let token = token.clone();
    thread::spawn(move || token.cancel())
}

fn tree(cx: ForkCx<'_>, depth: u32, alive: &Arc<AtomicUsize>) -> u32 {
    if depth == 0 {
        thread::yield_now();
        return 1;
    }
    let (first, second) = (Counted::new(alive), Counted::new(alive));
    let (a, b) = cx.join(
        |cx| (tree(cx, depth - 1, alive), first).0,
        move |cx| (tree(cx, depth - 1, alive), second).0,
    );
    a + b
}

#[test]
fn a_tree_ends_whole_or_cancelled() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let (token, alive) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let canceller = cancel_meanwhile(&token);
        let ended = runtime.install(|cx| token.run(|| tree(cx, 3, &alive)));
        assert!(
            matches!(ended, Ok(Ok(8) | Err(_))),
            "a value that nobody computed"
        );
        canceller.join().expect("no panic");
        assert_eq!(alive.load(Ordering::SeqCst), 0);
        // The lists of the workers are as before.
        let again = runtime.install(|cx| tree(cx, 2, &alive));
        assert_eq!(again, Ok(4));
    });
}

#[test]
fn a_loop_and_a_scope_end_whole_or_cancelled() {
    check(|| {
        let runtime = runtime(2, "lifo");
        let (token, alive) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let canceller = cancel_meanwhile(&token);
        let ran = AtomicUsize::new(0);
        let ended = runtime.install(|_| {
            token.run(|| {
                scope(|scope| {
                    for _ in 0..2 {
                        let (counted, ran) = (Counted::new(&alive), &ran);
                        scope.spawn(move |_| {
                            par_for(0..2, 1, |_| {
                                ran.fetch_add(1, Ordering::SeqCst);
                            });
                            drop(counted);
                        });
                    }
                });
            })
        });
        canceller.join().expect("no panic");
        let ran = ran.load(Ordering::SeqCst);
        assert!(
            ran <= 4 && (ran == 4 || ended.expect("open").is_err()),
            "it says that all ran"
        );
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_fiber_that_waits_is_woken_and_unwound() {
    // If the wake-up were lost, nobody would ever notify it.
    check(|| {
        let runtime = runtime(1, "fifo");
        let (token, alive) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let fiber = token.run(|| {
            let counted = Counted::new(&alive);
            runtime.spawn_fiber(move || {
                let never = Notify::new();
                never.notified().wait();
                drop(counted);
            })
        });
        token.cancel();
        let ended = fiber.expect("live").wait();
        assert!(matches!(ended, Err(JoinError::Cancelled)));
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_fiber_gives_a_lock_back_that_it_was_granted_while_it_was_cancelled() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let token = CancelToken::new();
        let lock = Arc::new(Mutex::new(0));
        let fiber = token.run(|| {
            let lock = Arc::clone(&lock);
            runtime.spawn_fiber(move || *lock.lock().wait() += 1)
        });
        let guard = block_on(lock.lock());
        let canceller = cancel_meanwhile(&token);
        drop(guard);
        let ended = fiber.expect("live").wait();
        canceller.join().expect("no panic");
        let count = *block_on(lock.lock());
        assert_eq!(
            count,
            i32::from(ended.is_ok()),
            "it was counted, and the value is true"
        );
    });
}

#[test]
fn a_future_is_asked_or_dropped_and_heard_of() {
    check_fairly(|| {
        let runtime = runtime(1, "fifo");
        let (token, alive) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let counted = Counted::new(&alive);
        let asked = token.clone();
        let task = runtime.spawn(token.run_async(async move {
            asked.cancelled().await;
            drop(counted);
            1
        }));
        let canceller = cancel_meanwhile(&token);
        let ended = task.wait().expect("it returns");
        assert!(ended.is_ok_and(|value| value == 1) || alive.load(Ordering::SeqCst) == 0);
        canceller.join().expect("no panic");
    });
}

#[test]
fn a_task_in_a_queue_is_dropped_or_runs_whole() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let (token, alive) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let tasks = token.run(|| {
            let counted = [Counted::new(&alive), Counted::new(&alive), Counted::new(&alive)];
            let [first, second, third] = counted;
            let job = runtime.spawn_job(move || (1, first).0);
            let future = runtime.spawn(async move { (1, second).0 });
            let fiber = runtime.spawn_fiber(move || (1, third).0);
            [job, future, fiber]
        });
        let canceller = cancel_meanwhile(&token);
        for task in tasks.expect("live") {
            assert!(matches!(task.wait(), Ok(1) | Err(JoinError::Cancelled)));
        }
        canceller.join().expect("no panic");
        assert_eq!(alive.load(Ordering::SeqCst), 0);
        assert!(cancel::current().is_none());
    });
}
