//! What a yield lets run, and what it says.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rayon_core::{
    ThreadPool, ThreadPoolBuilder, Yield, current_thread_has_pending_tasks, join, scope, spawn, yield_local,
    yield_now,
};

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads")
}

/// Yields until the flag is set.
fn yield_until(flag: &AtomicBool) {
    let start = Instant::now();
    while !flag.load(Ordering::SeqCst) {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "nothing runs what is queued"
        );
        assert!(yield_now().is_some(), "this is a thread of a pool");
    }
}

#[test]
fn a_yield_runs_what_waits_and_says_so() {
    assert_eq!((yield_now(), yield_local()), (None, None));
    let pool = pool(1);
    pool.install(|| {
        assert_eq!(
            (yield_now(), yield_local()),
            (Some(Yield::Idle), Some(Yield::Idle))
        );
        for way in [yield_now, yield_local] {
            let ran = Arc::new(AtomicUsize::new(0));
            for _ in 0..10 {
                let ran = Arc::clone(&ran);
                spawn(move || {
                    ran.fetch_add(1, Ordering::SeqCst);
                });
            }
            let mut yields = 0;
            while way() == Some(Yield::Executed) {
                yields += 1;
                assert!(yields <= 100, "it says that it runs something for ever");
            }
            assert_eq!(ran.load(Ordering::SeqCst), 10);
        }
    });
}

/// As programs do that wait for what they have spawned.
#[test]
fn a_loop_that_yields_gets_what_it_waits_for() {
    let pool = pool(1);
    pool.install(|| {
        let (send, receive) = std::sync::mpsc::channel();
        spawn(move || send.send(7).expect("the loop waits"));
        let value = loop {
            if let Ok(value) = receive.try_recv() {
                break value;
            }
            assert_eq!(yield_local(), Some(Yield::Executed));
        };
        assert_eq!(value, 7);
    });
}

/// The neighbour is blocked in the system, and what would wake it is in its own queue.
#[test]
fn a_loop_that_yields_runs_what_is_in_a_blocked_threads_queue() {
    let pool = pool(2);
    let (both, flag) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
    let (wake, woken) = mpsc::channel();
    let (done, ended) = mpsc::channel();
    let neighbour = (Arc::clone(&both), Arc::clone(&flag));
    pool.spawn(move || {
        let (both, flag) = neighbour;
        both.wait();
        spawn(move || {
            flag.store(true, Ordering::SeqCst);
            wake.send(()).expect("the neighbour waits");
        });
        done.send(woken.recv()).expect("the test waits");
    });
    pool.install(|| {
        both.wait();
        yield_until(&flag);
    });
    assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(Ok(())));
}

/// The same with the other half of a join. Only `yield_now` looks at other threads.
#[test]
fn only_yield_now_runs_a_blocked_threads_fork() {
    let pool = pool(2);
    let (both, forked) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let flag = Arc::new(AtomicBool::new(false));
    let (done, ended) = mpsc::channel();
    let neighbour = (Arc::clone(&both), Arc::clone(&forked), Arc::clone(&flag));
    pool.spawn(move || {
        let (both, forked, flag) = neighbour;
        both.wait();
        let (wake, woken) = mpsc::channel();
        join(
            move || {
                forked.wait();
                woken.recv().expect("the other half sends");
            },
            move || {
                flag.store(true, Ordering::SeqCst);
                wake.send(()).expect("the first half waits");
            },
        );
        done.send(()).expect("the test waits");
    });
    pool.install(|| {
        both.wait();
        forked.wait();
        for _ in 0..100 {
            assert_eq!(yield_local(), Some(Yield::Idle));
            assert_eq!(current_thread_has_pending_tasks(), Some(false));
        }
        assert!(!flag.load(Ordering::SeqCst));
        assert_eq!(yield_now(), Some(Yield::Executed));
        yield_until(&flag);
    });
    assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(()));
    pool.install(|| {
        assert_eq!(
            (yield_now(), yield_local()),
            (Some(Yield::Idle), Some(Yield::Idle))
        );
    });
}

#[test]
fn only_yield_now_runs_what_was_spawned_outside() {
    let pool = pool(1);
    let ran = Arc::new(AtomicBool::new(false));
    pool.install(|| {
        thread::scope(|threads| {
            let outside = threads.spawn(|| {
                let ran = Arc::clone(&ran);
                pool.spawn(move || ran.store(true, Ordering::SeqCst));
            });
            outside.join().expect("it spawns");
        });
        assert_eq!(current_thread_has_pending_tasks(), Some(false));
        assert_eq!(yield_local(), Some(Yield::Idle));
        assert!(!ran.load(Ordering::SeqCst));
        assert_eq!(yield_now(), Some(Yield::Executed));
        assert!(ran.load(Ordering::SeqCst));
        assert_eq!(yield_now(), Some(Yield::Idle));
    });
}

/// The other half of a join and the closures of a scope are in the thread's own queue until another one has
/// them.
#[test]
fn forks_of_the_same_stack_are_its_own() {
    let ran = AtomicUsize::new(0);
    let count = || {
        ran.fetch_add(1, Ordering::SeqCst);
    };
    pool(1).install(|| {
        let pending_after = join(
            || {
                assert_eq!(current_thread_has_pending_tasks(), Some(true));
                assert_eq!(yield_local(), Some(Yield::Executed));
                assert_eq!(ran.load(Ordering::SeqCst), 1);
                current_thread_has_pending_tasks()
            },
            count,
        );
        assert_eq!(pending_after.0, Some(false));
        scope(|scope| {
            assert_eq!(current_thread_has_pending_tasks(), Some(false));
            assert_eq!(yield_local(), Some(Yield::Idle));
            scope.spawn(|_| count());
            assert_eq!(current_thread_has_pending_tasks(), Some(true));
            assert_eq!(yield_local(), Some(Yield::Executed));
            assert_eq!(ran.load(Ordering::SeqCst), 2);
        });
    });
}

/// Each waits until all have begun.
#[test]
fn closures_that_yield_to_their_own_queue_let_all_of_it_begin() {
    let pool = ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
    let begun = Arc::new(AtomicUsize::new(0));
    let (ended, ends) = mpsc::channel();
    pool.install(|| {
        for _ in 0..4 {
            let (begun, ended) = (Arc::clone(&begun), ended.clone());
            rayon_core::spawn(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                while begun.load(Ordering::SeqCst) < 4 {
                    rayon_core::yield_local();
                }
                ended.send(()).expect("it is received");
            });
        }
    });
    for _ in 0..4 {
        ends.recv_timeout(Duration::from_secs(60)).expect("all begin");
    }
}

/// As in the original, of which programs make loops that look at something between two closures.
#[test]
fn a_yield_runs_one_closure() {
    const CLOSURES: usize = 200;
    let pool = pool(1);
    for way in [yield_now, yield_local] {
        pool.install(|| {
            let ran = Arc::new(AtomicUsize::new(0));
            for _ in 0..CLOSURES {
                let ran = Arc::clone(&ran);
                spawn(move || {
                    ran.fetch_add(1, Ordering::SeqCst);
                });
            }
            for number in 1..=CLOSURES {
                assert_eq!(way(), Some(Yield::Executed));
                assert_eq!(ran.load(Ordering::SeqCst), number);
            }
            assert_eq!(way(), Some(Yield::Idle));
        });
    }
}

/// The closure that runs meanwhile spawns others: they are not waited for.
#[test]
fn a_yield_runs_one_closure_that_spawns() {
    let pool = pool(1);
    let ran = Arc::new(AtomicUsize::new(0));
    pool.install(|| {
        for _ in 0..2 {
            let ran = Arc::clone(&ran);
            spawn(move || {
                ran.fetch_add(1, Ordering::SeqCst);
                for _ in 0..10 {
                    let ran = Arc::clone(&ran);
                    spawn(move || {
                        ran.fetch_add(100, Ordering::SeqCst);
                    });
                }
            });
        }
        assert_eq!(yield_now(), Some(Yield::Executed));
        assert_eq!(ran.load(Ordering::SeqCst), 1);
        for number in 1..=10 {
            assert_eq!(yield_now(), Some(Yield::Executed));
            assert_eq!(ran.load(Ordering::SeqCst), 1 + number * 100);
        }
        assert_eq!(yield_now(), Some(Yield::Executed));
        assert_eq!(ran.load(Ordering::SeqCst), 1002);
    });
}
