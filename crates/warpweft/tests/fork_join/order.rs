//! Scopes whose jobs begin in order.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "outside the checkers the system's own threads and locks are what is tested against"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use warpweft::cancel::CancelToken;
use warpweft::{Runtime, scope, scope_fifo};

fn runtime(workers: usize, policy: &str) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .policy_spec(policy.parse().expect("a policy"))
        .build()
        .expect("threads")
}

#[test]
fn jobs_begin_oldest_first_under_each_policy() {
    for policy in ["fifo", "lifo", "slot"] {
        let runtime = runtime(1, policy);
        let order = Mutex::new(Vec::new());
        let note = |n: u32| order.lock().expect("no panic").push(n);
        let ended = runtime.install(|_| {
            scope_fifo(|scope| {
                for n in 0..3 {
                    scope.spawn(move |scope| {
                        note(n);
                        // Behind all that are there.
                        scope.spawn(move |_| note(10 + n));
                    });
                }
            });
        });
        assert_eq!(ended, Ok(()));
        assert_eq!(
            order.into_inner().expect("no panic"),
            [0, 1, 2, 10, 11, 12],
            "{policy}"
        );
    }
    let runtime = runtime(1, "fifo");
    let order = Mutex::new(Vec::new());
    let youngest_first = runtime.install(|_| {
        scope(|scope| {
            for n in 0..3 {
                let order = &order;
                scope.spawn(move |_| order.lock().expect("no panic").push(n));
            }
        });
    });
    assert_eq!(youngest_first, Ok(()));
    assert_eq!(
        order.into_inner().expect("no panic"),
        [2, 1, 0],
        "the other scope"
    );
}

#[test]
fn many_workers_run_each_job_once() {
    let runtime = runtime(4, "lifo");
    let begun = Mutex::new(Vec::new());
    let ended = runtime.install(|_| {
        scope_fifo(|scope| {
            for n in 0..1000 {
                let begun = &begun;
                scope.spawn(move |_| begun.lock().expect("no panic").push(n));
            }
        });
    });
    assert_eq!(ended, Ok(()));
    let mut begun = begun.into_inner().expect("no panic");
    begun.sort_unstable();
    assert_eq!(begun, (0..1000).collect::<Vec<_>>());
}

#[test]
fn jobs_that_never_run_are_dropped_once() {
    let runtime = runtime(2, "lifo");
    let (token, alive) = (CancelToken::new(), Arc::new(()));
    let ran = AtomicUsize::new(0);
    let ended = runtime.install(|_| {
        token.run(|| {
            scope_fifo(|scope| {
                token.cancel();
                for _ in 0..100 {
                    let (held, ran) = (Arc::clone(&alive), &ran);
                    scope.spawn(move |_| {
                        ran.fetch_add(1, Ordering::Relaxed);
                        drop(held);
                    });
                }
            });
        })
    });
    assert!(ended.expect("open").is_err());
    assert_eq!(ran.into_inner(), 0);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn a_panic_keeps_no_other_job_from_running() {
    let runtime = runtime(1, "fifo");
    let ran = AtomicUsize::new(0);
    let ended = runtime.install(|_| {
        catch_unwind(AssertUnwindSafe(|| {
            scope_fifo(|scope| {
                for n in 0..3 {
                    let ran = &ran;
                    scope.spawn(move |_| {
                        ran.fetch_add(1, Ordering::Relaxed);
                        if n == 1 {
                            std::panic::resume_unwind(Box::new(n));
                        }
                    });
                }
            });
        }))
    });
    assert!(ended.expect("open").is_err());
    assert_eq!(ran.into_inner(), 3);
}
