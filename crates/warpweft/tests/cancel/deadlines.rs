//! Deadlines of closures, fibers and futures.

use super::{HOUR, LONG_GRACE, in_time, runtime};
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use warpweft::cancel::{self, CancelToken, with_deadline, with_deadline_async};
use warpweft::time::sleep;
use warpweft::{fiber, par_for, spawn};

fn after(milliseconds: u64) -> Instant {
    Instant::now() + Duration::from_millis(milliseconds)
}

fn forks_for_ever() {
    par_for(0..usize::MAX, 1, |_| ());
}

#[test]
fn each_style_ends_at_its_deadline_and_not_before() {
    let runtime = runtime(2);
    let closure = || with_deadline(after(20), forks_for_ever);
    let in_fiber = || with_deadline(after(20), || fiber::wait(sleep(HOUR)));
    let future = || with_deadline_async(after(20), sleep(HOUR));
    for style in 0..4 {
        let start = Instant::now();
        let end = match style {
            0 => runtime.spawn_job(closure).wait(),
            1 => runtime.spawn_fiber(in_fiber).wait(),
            2 => runtime.spawn(future()).wait(),
            _ => Ok(runtime.block_on(future())),
        };
        let error = end.expect("the task returns").expect_err("it has no value");
        assert!(error.is_deadline());
        assert!(start.elapsed() >= Duration::from_millis(20), "style {style}");
        assert!(start.elapsed() < HOUR / 100);
    }
}

#[test]
fn a_loop_on_all_workers_ends_at_its_deadline() {
    in_time(|| {
        // No worker is left to look at the timers.
        let runtime = runtime(1);
        let start = Instant::now();
        let end = runtime
            .spawn_job(|| with_deadline(after(5), forks_for_ever))
            .wait();
        assert!(end.expect("it returns").is_err());
        assert!(start.elapsed() >= Duration::from_millis(5));
    });
}

#[test]
fn what_is_in_time_has_its_value_and_leaves_no_timer() {
    let runtime = runtime(1);
    for _ in 0..100 {
        let late = Instant::now() + HOUR;
        let value = runtime.spawn_job(move || with_deadline(late, || 1)).wait();
        assert_eq!(value.expect("it returns"), Ok(1));
        assert_eq!(runtime.block_on(with_deadline_async(late, async { 2 })), Ok(2));
    }
    let metrics = runtime.metrics();
    assert!(metrics.pools.iter().all(|pool| pool.depths.timers == 0));
}

#[test]
fn the_earlier_of_nested_deadlines_counts() {
    in_time(|| {
        let runtime = runtime(1);
        let nested = |outer: u64, inner: u64| {
            let task = runtime.spawn_fiber(move || {
                let start = Instant::now();
                let outer = with_deadline(after(outer), || {
                    let inner = with_deadline(after(inner), || fiber::wait(sleep(HOUR)));
                    (inner.is_err(), cancel::is_cancelled())
                });
                (outer, start.elapsed())
            });
            task.wait().expect("it returns")
        };
        let (outer, took) = nested(20, 3_600_000);
        // The inner part takes the outer deadline for its own, and the outer one sees it at its next wait.
        assert!(outer.is_err() || outer == Ok((true, true)), "{outer:?}");
        assert!(took >= Duration::from_millis(20) && took < HOUR / 100);
        let (outer, took) = nested(3_600_000, 20);
        assert_eq!(outer, Ok((true, false)));
        assert!(took >= Duration::from_millis(20) && took < HOUR / 100);
    });
}

#[test]
fn a_deadline_that_has_passed_starts_nothing() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let before = Instant::now();
        assert!(with_deadline(before, || unreachable!("late")).is_err());
        let error = with_deadline_async(before, async { unreachable!("late") }).await;
        let error: Result<(), _> = error;
        let error = error.expect_err("late");
        assert_eq!(std::io::Error::from(error).kind(), ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "the deadline passed before there was a result");
    });
}

#[test]
fn a_deadline_reaches_what_was_spawned_and_outlives_its_token() {
    let runtime = runtime(2);
    let token = CancelToken::new();
    let (task, child) = runtime.block_on(async {
        // It may pass before the task is spawned, where this thread gets no CPU: then a later one is set.
        [20, 200, 2000, 20_000]
            .into_iter()
            .find_map(|milliseconds| {
                let until = token.with_deadline(after(milliseconds));
                assert!(until.has_deadline() && !token.has_deadline());
                let task = until.run(|| spawn(sleep(HOUR))).ok()?;
                Some((task, until.child()))
            })
            .expect("live")
    });
    assert!(task.wait().is_err());
    child.cancelled().wait();
    assert!(child.is_cancelled() && !token.is_cancelled());
    let error = child.run(|| ()).expect_err("it is cancelled");
    assert!(error.is_deadline());
    let asked = CancelToken::new();
    asked.cancel();
    let error = asked.run(|| ()).expect_err("it is cancelled");
    assert!(!error.is_deadline());
    assert_eq!(std::io::Error::from(error).kind(), ErrorKind::Interrupted);
}

/// The only worker computes, and no monitor looks at the timers for it.
#[test]
fn a_loop_that_asks_sees_its_deadline() {
    in_time(|| {
        let runtime = runtime(1);
        let task = runtime.spawn_job(|| with_deadline(after(5), || while !cancel::is_cancelled() {}));
        assert_eq!(task.wait().expect("it returns"), Ok(()));
    });
}

/// A fork sees first that the deadline has passed. The part below has a token that has none.
#[test]
fn the_error_of_a_deadline_goes_to_its_own_frame() {
    in_time(|| {
        let forks = || CancelToken::new().run(forks_for_ever);
        let runtime = runtime(1);
        let task = runtime.spawn_job(move || with_deadline(after(5), forks));
        let ended = task.wait().expect("the task itself is not cancelled");
        assert!(ended.expect_err("it has no value").is_deadline());
    });
}

/// Outside of all pools a future that does not ask is dropped at its deadline, without a grace.
#[test]
fn a_future_on_a_thread_outside_ends_at_its_deadline() {
    let runtime = runtime(1);
    let start = Instant::now();
    let outer = CancelToken::new().with_grace(LONG_GRACE);
    let ended = runtime.block_on(outer.run_async(with_deadline_async(after(20), sleep(HOUR))));
    let ended = ended.expect("nobody cancels the outer token");
    assert!(ended.expect_err("it has no value").is_deadline());
    assert!(start.elapsed() < LONG_GRACE / 2, "{:?}", start.elapsed());
}

/// The runtime that would have woken the code at the deadline is gone.
#[test]
fn a_deadline_outlives_the_runtime_that_kept_it() {
    in_time(|| {
        let living = runtime(1);
        for begins_before in [false, true] {
            let dead = runtime(1);
            // This is late enough for what is begun before, also where this thread gets no CPU meanwhile.
            let due = after(1000);
            let token = dead.block_on(async move { CancelToken::new().with_deadline(due) });
            let later = token.run_async(with_deadline_async(due + Duration::from_millis(50), sleep(HOUR)));
            let mut dead = Some(dead);
            if !begins_before {
                drop(dead.take());
            }
            let fiber = token.run(|| living.spawn_fiber(|| fiber::wait(sleep(HOUR))));
            let task = living.spawn(later);
            drop(dead);
            assert!(fiber.expect("not yet").wait().is_err());
            let end = task.wait().expect("it returns");
            let end = end.and_then(|inner| inner);
            assert!(end.is_err_and(|cancelled| cancelled.is_deadline()));
            assert!(Instant::now() >= due && token.is_cancelled());
        }
    });
}
