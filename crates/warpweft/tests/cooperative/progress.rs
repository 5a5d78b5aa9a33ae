//! Code that computes yields, and computes the same.

use super::{hog, loops, loops_plain, others_during, runtime, work};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use warpweft::{Runtime, cooperative, fiber, uncooperative, yield_now};

#[cooperative]
async fn async_hog(mine: Arc<[AtomicU64; 2]>, at: usize) -> u64 {
    let mut turns = 0;
    while mine[1 - at].load(Ordering::Relaxed) < 1000 {
        turns += 1;
        mine[at].store(turns, Ordering::Relaxed);
    }
    mine[at].store(u64::MAX, Ordering::Relaxed);
    turns
}

#[test]
fn two_hogs_on_one_worker_both_progress() {
    let runtime = runtime(1, 100);
    let places = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let hogs = [(0, 1), (1, 0)].map(|(mine, others)| {
        let places = Arc::clone(&places);
        runtime.spawn_fiber(move || hog(&places[mine], &places[others]))
    });
    let turns = hogs.map(|hog| hog.wait().expect("no panic"));
    assert!(turns.iter().any(|&turns| turns >= 1000), "{turns:?}");
}

#[test]
fn two_futures_on_one_worker_both_progress() {
    let runtime = runtime(1, 100);
    let places = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let hogs = [0, 1].map(|at| runtime.spawn(async_hog(Arc::clone(&places), at)));
    let turns = hogs.map(|hog| hog.wait().expect("no panic"));
    assert!(turns.iter().any(|&turns| turns >= 1000), "{turns:?}");
}

#[test]
fn checks_change_no_result() {
    for quantum in [1, 2, 7, 100, 1 << 30] {
        let runtime = runtime(2, quantum);
        for n in [1, 2, 3, 10, 30] {
            let handles = [
                runtime.spawn_fiber(move || loops(n)),
                runtime.spawn_job(move || loops(n)),
                runtime.spawn(async move { loops(n) }),
            ];
            for handle in handles {
                assert_eq!(
                    handle.wait().expect("no panic"),
                    loops_plain(n),
                    "{n} at {quantum}"
                );
            }
        }
    }
    assert_eq!(loops(10), loops_plain(10), "outside of any pool");
}

#[test]
fn futures_compute_the_same() {
    #[cooperative]
    async fn sum(n: u64) -> u64 {
        let mut sum = 0;
        for i in 0..n {
            if i % 3 == 0 {
                continue;
            }
            sum += i;
        }
        for i in 0..n {
            yield_now().await;
            sum += i;
        }
        sum
    }
    let runtime = runtime(2, 10);
    let want = (0..100).filter(|i| i % 3 != 0).sum::<u64>() + (0..100).sum::<u64>();
    let tasks: Vec<_> = (0..10).map(|_| runtime.spawn(sum(100))).collect();
    for task in tasks {
        assert_eq!(task.wait().expect("no panic"), want);
    }
}

#[test]
fn loops_over_ranges_give_way_too() {
    #[cooperative]
    fn sum(n: u64) -> u64 {
        let mut sum = 0;
        for i in 0..n {
            sum += i;
        }
        sum
    }
    let others = others_during(|| assert_eq!(sum(1000), 499_500));
    assert!(others >= 50, "about one in five turns: {others}");
}

#[test]
fn uncooperative_code_does_not_switch() {
    let uncooperative_work = |n| uncooperative(|| work(n));
    assert!(
        others_during(|| assert!(work(1000) > 0)) >= 50,
        "about one in three turns"
    );
    assert_eq!(others_during(move || assert!(uncooperative_work(1000) > 0)), 0);
    let nested = move || {
        uncooperative(|| {
            assert!(uncooperative_work(100) > 0);
            assert!(work(100) > 0);
        });
    };
    assert_eq!(others_during(nested), 0);
    let panics = || {
        let caught = catch_unwind(|| {
            uncooperative(|| {
                std::panic::resume_unwind(Box::new(1));
            });
        });
        assert!(caught.is_err());
        work(1000);
    };
    assert!(others_during(panics) >= 50, "cooperative again");
}

#[test]
fn an_uncooperative_fiber_that_waits_lets_others_give_way() {
    let during = others_during(|| {
        uncooperative(|| {
            // A wait yields as usual; the other fiber is not uncooperative.
            let hogs = fiber::spawn(|| work(1000));
            hogs.wait().expect("no panic");
        });
    });
    assert!(during >= 50, "{during}");
}

#[test]
fn a_quantum_of_nothing_is_refused() {
    let error = Runtime::builder()
        .quantum(0)
        .build()
        .expect_err("it is out of range");
    assert_eq!(
        error.to_string(),
        "a quantum of 0 statements: it may have 1 to 2147483647"
    );
}
