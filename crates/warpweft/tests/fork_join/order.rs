//! Scopes whose jobs begin in order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use warpweft::cancel::CancelToken;
use warpweft::{Runtime, TaskBuilder, scope, scope_fifo, spawn_fifo};

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

#[test]
fn closures_of_a_pool_begin_in_the_order_of_their_spawns() {
    for policy in ["fifo", "lifo", "slot", "priority:2"] {
        let runtime = runtime(1, policy);
        let (send, order) = mpsc::channel();
        runtime.spawn_detached(move || {
            for n in 0..3 {
                let send = send.clone();
                spawn_fifo(move || {
                    send.send(n).expect("the test waits");
                    // Behind all that are there.
                    spawn_fifo(move || send.send(10 + n).expect("the test waits"));
                });
            }
        });
        assert_eq!(
            order.iter().collect::<Vec<_>>(),
            [0, 1, 2, 10, 11, 12],
            "{policy}"
        );
    }
}

#[test]
fn each_closure_in_order_runs_once_or_is_dropped() {
    const EACH: usize = 500;
    let runtime = runtime(2, "lifo");
    let (used, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let closure = || {
        let (used, ran) = (Arc::clone(&used), Arc::clone(&ran));
        move || {
            drop(used);
            ran.fetch_add(1, Ordering::SeqCst);
        }
    };
    let token = CancelToken::new();
    token.cancel();
    std::thread::scope(|scope| {
        for under in [false, true] {
            let (runtime, closure, token) = (&runtime, &closure, &token);
            scope.spawn(move || {
                for _ in 0..EACH {
                    let spawn = || TaskBuilder::new().on(runtime).spawn_fifo(closure());
                    // A token that is cancelled already runs nothing: the closure is made under its child.
                    match under {
                        true => assert!(token.run(spawn).is_err()),
                        false => spawn(),
                    }
                }
            });
        }
    });
    // What the token reaches later never starts, and takes no other closure with it.
    let late = CancelToken::new();
    let (open, gate) = mpsc::channel::<()>();
    let (other, second_gate) = mpsc::channel::<()>();
    let held: Vec<_> = [gate, second_gate]
        .into_iter()
        .map(|gate| {
            let (begins, begun) = mpsc::channel();
            let held = runtime.spawn_job(move || {
                begins.send(()).expect("the test waits");
                gate.recv()
            });
            begun.recv().expect("it begins");
            held
        })
        .collect();
    for _ in 0..EACH {
        let spawn = || TaskBuilder::new().on(&runtime).spawn_fifo(closure());
        assert_eq!(late.run(spawn), Ok(()));
        spawn();
    }
    late.cancel();
    drop((open, other));
    for held in held {
        assert!(held.wait().expect("no panic").is_err());
    }
    while Arc::strong_count(&used) > 1 {
        std::thread::yield_now();
    }
    while ran.load(Ordering::SeqCst) < 2 * EACH {
        std::thread::yield_now();
    }
    assert_eq!(ran.load(Ordering::SeqCst), 2 * EACH);

    // A pool that ends drops those that have not begun.
    let (open, gate) = mpsc::channel::<()>();
    let held = runtime.spawn_job(move || gate.recv());
    for _ in 0..EACH {
        TaskBuilder::new().on(&runtime).spawn_fifo(closure());
    }
    // It keeps the pool's memory.
    let pool = runtime.first().clone();
    drop(open);
    drop(runtime);
    drop(held);
    assert_eq!(Arc::strong_count(&used), 1, "none is kept");
    assert!(pool.is_closed());
}
