//! Joins of futures in whole pools, under every schedule that a seed can make.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::atomic::{AtomicUsize, Ordering};
use std::future::pending;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use support::{Gate, check, check_with, runtime};
use warpweft::{join_async, spawn, yield_now};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Counts itself while it is there.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Every third leaf waits, every third one is ready only at its second poll.
fn sum(from: u64, to: u64, gate: &Gate) -> Boxed<u64> {
    let gate = gate.clone();
    Box::pin(async move {
        if to - from == 1 {
            match from % 3 {
                0 => gate.await,
                1 => yield_now().await,
                _ => {}
            }
            return from;
        }
        let middle = from + (to - from) / 2;
        let (left, right) = join_async(sum(from, middle, &gate), sum(middle, to, &gate)).await;
        left + right
    })
}

#[test]
fn a_tree_of_futures() {
    for (workers, policy) in [(1, "fifo"), (2, "fifo"), (2, "lifo")] {
        check_with(Arc::new(move || {
            let runtime = runtime(workers, policy);
            let gate = Gate::default();
            gate.open();
            assert_eq!(runtime.spawn(sum(0, 7, &gate)).wait().expect("a sum"), 21);
        }));
    }
}

/// Both halves of each join need what the other one does, whoever runs them.
#[test]
fn halves_that_wait_for_each_other() {
    for workers in [1, 2] {
        check_with(Arc::new(move || {
            let (first, second) = (Gate::default(), Gate::default());
            let (open_first, open_second) = (first.clone(), second.clone());
            let one = async move {
                open_second.open();
                first.await;
            };
            let other = async move {
                open_first.open();
                second.await;
            };
            runtime(workers, "fifo")
                .spawn(join_async(one, other))
                .wait()
                .expect("both");
        }));
    }
}

/// The first half panics while the second one is nowhere, on its way, or suspended: the join ends, and nothing is left.
#[test]
fn a_panic_of_the_first_half() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let alive = Arc::new(AtomicUsize::new(0));
        let (mine, others) = (Alive::new(&alive), Alive::new(&alive));
        let first = async move {
            let _mine = mine;
            yield_now().await;
            resume_unwind(Box::new(5))
        };
        let second = async move {
            let _others = others;
            pending::<()>().await;
        };
        let both = join_async(first, second);
        let count = Arc::clone(&alive);
        let handle = runtime.spawn(async move {
            let error = spawn(async move {
                let ((), ()) = both.await;
            })
            .await
            .expect_err("a panic");
            // The join has waited for its second half.
            (
                error.into_panic().expect("a panic").downcast_ref() == Some(&5),
                count.load(Ordering::Acquire),
            )
        });
        assert_eq!(handle.wait().expect("asked"), (true, 0));
    });
}

/// A join is dropped at any point of its life: nothing of it is left when the pool has ended, and nothing hangs.
#[test]
fn a_join_is_dropped() {
    check(|| {
        let runtime = runtime(2, "lifo");
        let alive = Arc::new(AtomicUsize::new(0));
        let gate = Gate::default();
        let half = || {
            let (gate, alive) = (gate.clone(), Alive::new(&alive));
            async move {
                let _alive = alive;
                gate.await;
            }
        };
        let handle = runtime.spawn(join_async(join_async(half(), half()), half()));
        gate.open();
        handle.cancel();
        let ended = handle.wait();
        assert!(ended.is_ok() || ended.is_err_and(|error| error.is_cancelled()));
        drop(runtime);
        assert_eq!(alive.load(Ordering::Acquire), 0);
    });
}

/// The pool ends while halves are anywhere.
#[test]
fn the_pool_ends_under_a_join() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let alive = Arc::new(AtomicUsize::new(0));
        let half = || {
            let alive = Alive::new(&alive);
            async move {
                let _alive = alive;
                pending::<()>().await;
            }
        };
        let handle = runtime.spawn(join_async(half(), join_async(half(), half())));
        drop(runtime);
        assert!(handle.wait().expect_err("the end").is_cancelled());
        assert_eq!(alive.load(Ordering::Acquire), 0);
    });
}
