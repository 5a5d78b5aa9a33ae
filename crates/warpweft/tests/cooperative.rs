//! Cooperative code yields while it computes, stops when it is cancelled, and has the same results as without
//! checks.
#![cfg(all(feature = "macros", not(any(warpweft_loom, warpweft_shuttle))))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use warpweft::{JoinError, Runtime, cooperate, cooperative, fiber, uncooperative, yield_now};

fn runtime(workers: usize, quantum: u32) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .quantum(quantum)
        // A compensating worker would run the tasks that a hog keeps from running.
        .stuck_after(None)
        .build()
        .expect("threads")
}

/// Computes until the other fiber has come as far: neither ends unless both run. If one starts after the
/// other has finished, it returns at once.
#[cooperative]
fn hog(mine: &AtomicU64, others: &AtomicU64) -> u64 {
    let mut turns = 0;
    while others.load(Ordering::Relaxed) < 1000 {
        turns += 1;
        mine.store(turns, Ordering::Relaxed);
    }
    mine.store(u64::MAX, Ordering::Relaxed);
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
fn two_futures_on_one_worker_both_progress() {
    let runtime = runtime(1, 100);
    let places = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let hogs = [0, 1].map(|at| runtime.spawn(async_hog(Arc::clone(&places), at)));
    let turns = hogs.map(|hog| hog.wait().expect("no panic"));
    assert!(turns.iter().any(|&turns| turns >= 1000), "{turns:?}");
}

/// Every kind of loop, and the ways through it.
#[cooperative]
fn loops(n: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    let mut i = 0;
    while i < n {
        i += 1;
        if i % 3 == 0 {
            continue;
        }
        seen.push(i);
    }
    let last = loop {
        i += 1;
        if i > 2 * n {
            break i;
        }
    };
    seen.push(last);
    'rows: for row in 0..n {
        for column in 0..n {
            if column > row {
                continue 'rows;
            }
            if row * column > 50 {
                break 'rows;
            }
            seen.push(row * column);
        }
    }
    'own: for i in 0..n {
        if i % 2 == 0 {
            continue 'own;
        }
        seen.push(i);
    }
    for i in 0..n {
        if i == 5 {
            break;
        }
        seen.push(i);
    }
    for x in seen.clone().iter().rev().step_by(2) {
        seen.push(*x);
    }
    for c in 'a'..'f' {
        seen.push(u64::from(c));
    }
    #[allow(clippy::reversed_empty_ranges, reason = "it has no turns")]
    for i in 5..3 {
        seen.push(i);
    }
    seen.extend((0..n).map(|x| {
        let mut sum = 0;
        for i in 0..x {
            sum += i;
        }
        sum
    }));
    seen
}

/// The same without checks.
fn loops_plain(n: u64) -> Vec<u64> {
    let mut seen: Vec<u64> = (1..=n).filter(|i| i % 3 != 0).collect();
    seen.push(2 * n.max(1) + u64::from(n > 0));
    let mut rows = 0..n;
    'rows: for row in rows.by_ref() {
        for column in 0..=row.min(n - 1) {
            if row * column > 50 {
                break 'rows;
            }
            seen.push(row * column);
        }
    }
    seen.extend((0..n).filter(|i| i % 2 == 1));
    seen.extend(0..n.min(5));
    let more: Vec<u64> = seen.iter().rev().step_by(2).copied().collect();
    seen.extend(more);
    seen.extend((b'a'..b'f').map(u64::from));
    seen.extend((0..n).map(|x| (0..x).sum::<u64>()));
    seen
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

#[cooperative]
fn compute_for_ever(started: &AtomicBool) {
    loop {
        started.store(true, Ordering::Relaxed);
    }
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
}

#[test]
fn what_is_cancelled_stops_and_drops_what_it_holds() {
    for workers in [1, 2] {
        let runtime = runtime(workers, 100);
        let dropped = Arc::new(AtomicUsize::new(0));
        for kind in 0..3 {
            let started = Arc::new(AtomicBool::new(false));
            let held = Counted(Arc::clone(&dropped));
            let flag = Arc::clone(&started);
            let direct = |held: Counted, flag: Arc<AtomicBool>| {
                move || {
                    let _held = held;
                    compute_for_ever(&flag);
                }
            };
            let task = match kind {
                0 => runtime.spawn_fiber(direct(held, flag)),
                1 => runtime.spawn_job(direct(held, flag)),
                _ => runtime.spawn(cooperate!(async move {
                    let _held = held;
                    loop {
                        flag.store(true, Ordering::Relaxed);
                    }
                })),
            };
            wait_for(&started);
            assert!(task.cancel());
            assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
            assert_eq!(dropped.load(Ordering::Relaxed), kind + 1);
        }
    }
}

#[test]
fn who_catches_the_unwinding_is_unwound_again() {
    let runtime = runtime(1, 10);
    let started = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&started);
    let caught = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&caught);
    let task = runtime.spawn_fiber(move || {
        for _ in 0..3 {
            let stopped = catch_unwind(AssertUnwindSafe(|| compute_for_ever(&flag)));
            assert!(stopped.is_err());
            count.fetch_add(1, Ordering::Relaxed);
        }
        compute_for_ever(&flag);
    });
    wait_for(&started);
    task.cancel();
    assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
    assert_eq!(caught.load(Ordering::Relaxed), 3);
}

#[test]
fn a_half_of_a_join_stops_with_its_task() {
    let runtime = runtime(1, 100);
    for kind in 0..2 {
        let started = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&started);
        let body = move || {
            warpweft::join(|| compute_for_ever(&flag), || work(10));
        };
        let task = if kind == 0 {
            runtime.spawn_fiber(body)
        } else {
            runtime.spawn_job(body)
        };
        wait_for(&started);
        task.cancel();
        assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
    }
}

#[test]
fn a_task_on_top_or_beside_is_not_stopped_in_place_of_the_cancelled_one() {
    let runtime = runtime(1, 50);
    let started = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&started);
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    let bystander = runtime.spawn_fiber(move || {
        cooperate!(while !seen.load(Ordering::Relaxed) {});
        7
    });
    let hog = runtime.spawn_fiber(move || compute_for_ever(&flag));
    wait_for(&started);
    hog.cancel();
    assert!(matches!(hog.wait(), Err(JoinError::Cancelled)));
    // The thread's next jobs and fibers run to their ends.
    assert_eq!(
        runtime.spawn_job(|| loops(10)).wait().expect("no panic"),
        loops_plain(10)
    );
    over.store(true, Ordering::Relaxed);
    assert_eq!(bystander.wait().expect("not cancelled"), 7);
}

#[test]
fn a_runtime_that_shuts_down_stops_them() {
    for kind in 0..3 {
        let runtime = runtime(1, 100);
        let started = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&started);
        let task = match kind {
            0 => runtime.spawn_fiber(move || compute_for_ever(&flag)),
            1 => runtime.spawn_job(move || compute_for_ever(&flag)),
            _ => runtime.spawn(cooperate!(async move {
                loop {
                    flag.store(true, Ordering::Relaxed);
                }
            })),
        };
        wait_for(&started);
        runtime.shutdown();
        assert!(matches!(task.wait(), Err(JoinError::Shutdown)), "kind {kind}");
    }
}

/// Returns how many other fibers run while `body` does.
fn others_during(body: impl FnOnce() + Send + 'static) -> usize {
    let runtime = runtime(1, 10);
    let count = Arc::new(AtomicUsize::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let (counted, until) = (Arc::clone(&count), Arc::clone(&over));
    let seen = runtime.spawn_fiber(move || {
        let other = fiber::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                counted.fetch_add(1, Ordering::Relaxed);
                fiber::yield_now();
            }
        });
        let before = count.load(Ordering::Relaxed);
        body();
        let during = count.load(Ordering::Relaxed) - before;
        over.store(true, Ordering::Relaxed);
        other.wait().expect("no panic");
        during
    });
    seen.wait().expect("no panic")
}

#[cooperative]
fn work(n: u64) -> u64 {
    let mut sum = 0_u64;
    let mut i = 0;
    while i < n {
        i += 1;
        sum = sum.wrapping_mul(31).wrapping_add(i);
    }
    sum
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
fn nothing_switches_while_it_panics() {
    struct Works(Arc<AtomicUsize>, Arc<AtomicUsize>);
    impl Drop for Works {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            let before = self.0.load(Ordering::Relaxed);
            work(1000);
            self.1
                .fetch_add(self.0.load(Ordering::Relaxed) - before, Ordering::Relaxed);
        }
    }
    let runtime = runtime(1, 10);
    let (count, during) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let over = Arc::new(AtomicBool::new(false));
    let (counted, until, during_it) = (Arc::clone(&count), Arc::clone(&over), Arc::clone(&during));
    let panics = runtime.spawn_fiber(move || {
        let until_then = Arc::clone(&until);
        let other = Arc::clone(&counted);
        drop(fiber::spawn(move || {
            while !until_then.load(Ordering::Relaxed) {
                other.fetch_add(1, Ordering::Relaxed);
                fiber::yield_now();
            }
        }));
        while counted.load(Ordering::Relaxed) == 0 {
            fiber::yield_now();
        }
        let _works = Works(counted, during_it);
        std::panic::resume_unwind(Box::new("as planned"));
    });
    assert!(matches!(panics.wait(), Err(JoinError::Panicked(_))));
    over.store(true, Ordering::Relaxed);
    assert_eq!(during.load(Ordering::Relaxed), 0);
}

#[test]
fn a_cancelled_task_is_not_stopped_in_its_destructors_nor_where_it_is_uncooperative() {
    struct Works(Arc<AtomicUsize>);
    impl Drop for Works {
        fn drop(&mut self) {
            assert!(work(1000) > 0);
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let runtime = runtime(1, 10);
    let worked = Arc::new(AtomicUsize::new(0));
    for kind in 0..2 {
        let started = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&started);
        let go = Arc::new(AtomicBool::new(false));
        let may = Arc::clone(&go);
        let works = Works(Arc::clone(&worked));
        let body = move || {
            let _works = works;
            let kept = uncooperative(|| {
                flag.store(true, Ordering::Relaxed);
                cooperate!(while !may.load(Ordering::Relaxed) {});
                work(1000)
            });
            // Here it ends.
            (kept, work(1000))
        };
        let task = if kind == 0 {
            runtime.spawn_fiber(body)
        } else {
            runtime.spawn_job(body)
        };
        wait_for(&started);
        task.cancel();
        go.store(true, Ordering::Relaxed);
        assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
        assert_eq!(worked.load(Ordering::Relaxed), kind + 1, "to the end");
    }
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

#[test]
fn methods_generics_and_recursion_have_checks_too() {
    trait Walk {
        fn walk(&self) -> u64;
    }
    impl<const N: usize> Walk for [u64; N] {
        #[cooperative]
        fn walk(&self) -> u64 {
            let mut sum = 0;
            for x in self {
                sum += x;
            }
            sum
        }
    }
    #[cooperative]
    fn fib(n: u64) -> u64 {
        if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
    }
    assert!(others_during(|| assert_eq!(fib(15), 610)) >= 50);
    assert!(others_during(|| assert_eq!([1; 1000].walk(), 1000)) >= 50);
}

#[warpweft::test(workers = 2, policy = "lifo+steal=half")]
async fn a_test_may_be_async() -> Result<(), JoinError> {
    let half = warpweft::spawn(async { 21 }).await?;
    assert_eq!(2 * half, 42);
    Ok(())
}

#[warpweft::test]
#[should_panic(expected = "as it should")]
async fn its_panic_is_its_own() {
    yield_now().await;
    panic!("as it should");
}

#[warpweft::test(workers = 5000)]
#[should_panic(expected = "no runtime: a pool of 5000 workers")]
async fn a_runtime_that_cannot_be_built_says_why() {}

#[warpweft::test(policy = "lifo+steal=none of them")]
#[should_panic(expected = "is no policy")]
async fn a_text_that_is_no_policy_says_so() {}
