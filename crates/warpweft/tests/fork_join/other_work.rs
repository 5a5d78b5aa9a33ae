//! What a frame that yields finds: work of its own, and work that it fetches from other workers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::{ForkCx, PolicySpec, Runtime, join, spawn, spawn_detached, yield_now};

/// Two workers, and no others that make up for one that is blocked.
fn two_workers(policy: &str) -> Runtime {
    let policy: PolicySpec = policy.parse().expect("a policy");
    Runtime::builder()
        .workers(2)
        .stuck_after(None)
        .policy_spec(policy)
        .build()
        .expect("workers")
}

fn fetch() -> bool {
    ForkCx::with(|cx| cx.expect("a worker").fetch_work())
}

fn has_own() -> bool {
    ForkCx::with(|cx| cx.expect("a worker").has_own_work())
}

/// Fetches work and waits for a task that lets it run, until the flag is set.
fn fetch_until(flag: &AtomicBool) {
    let start = Instant::now();
    while !flag.load(Ordering::SeqCst) {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "what is queued is never found"
        );
        if has_own() || fetch() {
            spawn(yield_now()).wait().expect("it runs");
        }
    }
}

/// One worker is blocked; in its queue or on offer is the closure that wakes it.
fn beside_a_blocked_worker(
    runtime: &Runtime,
    block: fn(&Barrier, Receiver<()>, Sender<()>, Arc<AtomicBool>),
) {
    let (both, flag) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
    let neighbour = (Arc::clone(&both), Arc::clone(&flag));
    let blocked = runtime.spawn_job(move || {
        let (both, flag) = neighbour;
        both.wait();
        let (wake, woken) = channel();
        block(&both, woken, wake, flag);
    });
    runtime
        .install(|_| {
            both.wait();
            both.wait();
            assert!(!has_own(), "what others have is not its own");
            fetch_until(&flag);
        })
        .expect("open");
    blocked.wait().expect("no panic");
}

#[test]
fn a_task_in_a_blocked_workers_queue_is_fetched() {
    for policy in ["fifo", "lifo", "lifo+steal=one"] {
        beside_a_blocked_worker(&two_workers(policy), |both, woken, wake, flag| {
            spawn_detached(move || {
                flag.store(true, Ordering::SeqCst);
                wake.send(()).expect("it waits");
            });
            assert!(has_own());
            both.wait();
            woken.recv().expect("the task sends");
        });
    }
}

#[test]
fn a_blocked_workers_fork_is_fetched() {
    beside_a_blocked_worker(&two_workers("lifo"), |both, woken, wake, flag| {
        join(
            move || {
                assert!(has_own());
                both.wait();
                woken.recv().expect("the other half sends");
            },
            move || {
                flag.store(true, Ordering::SeqCst);
                wake.send(()).expect("it waits");
            },
        );
    });
}

/// Taken forks, forks that ended and empty scopes are no work.
#[test]
fn only_what_no_thread_has_begun_is_own_work() {
    let runtime = two_workers("lifo");
    let taken = AtomicUsize::new(0);
    runtime
        .install(|cx| {
            assert!(!cx.has_own_work());
            // What it finds is judged behind the join: the other half waits for this one.
            let (found, ()) = cx.join(
                |cx| {
                    let before = cx.has_own_work() || taken.load(Ordering::SeqCst) > 0;
                    while taken.load(Ordering::SeqCst) == 0 {
                        thread::yield_now();
                    }
                    let after = cx.has_own_work();
                    taken.store(2, Ordering::SeqCst);
                    (before, after)
                },
                |_| {
                    taken.store(1, Ordering::SeqCst);
                    while taken.load(Ordering::SeqCst) == 1 {
                        thread::yield_now();
                    }
                },
            );
            assert_eq!(found, (true, false), "the other worker has it");
            assert!(!cx.has_own_work() && !cx.fetch_work());
            warpweft::scope(|scope| {
                assert!(!has_own(), "an open scope without closures");
                scope.spawn(|_| ());
            });
            assert!(!cx.has_own_work());
        })
        .expect("open");
}

#[test]
fn what_was_spawned_outside_is_fetched_and_not_own() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let ran = Arc::new(AtomicBool::new(false));
    runtime
        .install(|_| {
            thread::scope(|threads| {
                threads.spawn(|| {
                    let ran = Arc::clone(&ran);
                    runtime.spawn_detached(move || ran.store(true, Ordering::SeqCst));
                });
            });
            assert!(!has_own());
            assert!(fetch());
            assert!(has_own());
        })
        .expect("open");
    runtime.spawn_job(|| ()).wait().expect("it runs");
    assert!(ran.load(Ordering::SeqCst));
}

/// Where no spare thread is left, closures run on top of those that wait. Each wait takes as much of the
/// stack as the one below.
#[test]
fn waits_on_top_of_each_other_take_equal_parts_of_the_stack() {
    static DEPTH: AtomicUsize = AtomicUsize::new(0);
    let pool = |threads| {
        let builder = Runtime::builder().workers(1).max_threads(threads);
        builder.stack_size(64 << 20).build().expect("a worker")
    };
    let (below, other) = (pool(1), pool(8));
    let place = || std::hint::black_box(&mut 0_u8 as *mut u8).addr();
    // By depth, where the stack had come to.
    let places = Mutex::new(Vec::new());
    let ran = below.install(|cx| {
        cx.scope(|scope| {
            for _ in 0..400 {
                scope.spawn(|_| {
                    let depth = DEPTH.fetch_add(1, Ordering::Relaxed);
                    let mut places = places.lock().expect("no panic");
                    if places.len() <= depth {
                        places.push(place());
                    }
                    drop(places);
                    let wait = other.spawn_job(|| thread::sleep(Duration::from_micros(100)));
                    wait.wait().expect("no panic");
                    DEPTH.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
    });
    ran.expect("it is open");
    let places = places.into_inner().expect("no panic");
    let taken = |from: usize, to: usize| places[from] - places[to];
    let deepest = places.len() - 1;
    assert!(deepest >= 40, "{deepest}");
    let (first, last) = (taken(10, 20), taken(deepest - 10, deepest));
    assert!(last < 2 * first, "{first} bytes for ten waits, and then {last}");
}
