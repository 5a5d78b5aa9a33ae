//! What fails is tried again: how often, how long, and for which errors.

use std::cell::Cell;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};
use warpweft::time::{GaveUp, Retry, TimeoutExt as _};
use warpweft::{Runtime, spawn, spawn_job};

const TICK: Duration = Duration::from_millis(1);

fn one() -> Runtime {
    Runtime::builder().workers(1).build().expect("a worker")
}

fn quick() -> Retry {
    Retry::new().first_delay(TICK).longest_delay(2 * TICK)
}

#[test]
fn it_ends_with_the_first_success() {
    let calls = Cell::new(0);
    let result = one().block_on(quick().run(|| {
        calls.set(calls.get() + 1);
        let call = calls.get();
        async move { if call == 3 { Ok(call) } else { Err(call) } }
    }));
    assert_eq!((result.ok(), calls.get()), (Some(3), 3));
}

#[test]
fn attempts_are_limited_and_delayed() {
    let start = Instant::now();
    let calls = Cell::new(0);
    let fails = || {
        calls.set(calls.get() + 1);
        async { Err::<(), _>(io::Error::from(ErrorKind::ConnectionRefused)) }
    };
    let error = one()
        .block_on(quick().attempts(4).run(fails))
        .expect_err("it fails");
    assert_eq!(
        (error.attempts, calls.get(), error.reason),
        (4, 4, GaveUp::Attempts)
    );
    // Half of 1, 2 and 2 ms at least.
    assert!(start.elapsed() >= 5 * TICK / 2, "{:?}", start.elapsed());
    let text = error.to_string();
    assert!(
        text.contains("4 attempts, as many as are allowed: connection refused"),
        "{text}"
    );
    assert_eq!(io::Error::from(error).kind(), ErrorKind::ConnectionRefused);
    calls.set(0);
    let error = one()
        .block_on(quick().attempts(0).run(fails))
        .expect_err("it fails");
    assert_eq!(
        (error.attempts, calls.get()),
        (1, 1),
        "there is always a first one"
    );
}

#[test]
fn an_error_that_does_not_go_away_ends_it() {
    let calls = Cell::new(0);
    let worth = |error: &u32| *error < 2;
    let retry = quick().attempts(u32::MAX);
    let error = one().block_on(retry.run_if(worth, || {
        calls.set(calls.get() + 1);
        let error = calls.get();
        async move { Err::<(), _>(error) }
    }));
    let error = error.expect_err("it fails");
    assert_eq!(
        (error.attempts, error.last, error.reason),
        (2, Some(2), GaveUp::NotWorthIt)
    );
}

#[test]
fn the_time_of_all_attempts_is_limited() {
    // An attempt that never ends is dropped, …
    let limited = quick().within(3 * TICK);
    let never = one().block_on(limited.run(pending::<Result<(), io::Error>>));
    let never = never.expect_err("the time is over");
    assert_eq!((never.attempts, never.reason), (1, GaveUp::Time));
    assert!(never.last.is_none());
    assert_eq!(io::Error::from(never).kind(), ErrorKind::TimedOut);
    // …and a delay that is longer than the rest is not begun.
    let start = Instant::now();
    let long = Retry::new()
        .first_delay(Duration::from_secs(3600))
        .longest_delay(Duration::MAX);
    let error = one().block_on(
        long.within(Duration::from_secs(60))
            .run(|| async { Err::<(), _>(1) }),
    );
    let error = error.expect_err("it fails");
    assert_eq!(
        (error.attempts, error.last, error.reason),
        (1, Some(1), GaveUp::Time)
    );
    assert!(start.elapsed() < Duration::from_secs(60));
    // A limit beyond the clock is none.
    let ended = one().block_on(quick().within(Duration::MAX).run(|| async { Ok::<_, u32>(7) }));
    assert_eq!(ended.ok(), Some(7));
}

#[test]
fn jobs_and_fibers_retry_in_direct_style() {
    let runtime = one();
    let retries = || {
        let mut calls = 0;
        quick().call(|| {
            calls += 1;
            if calls == 3 { Ok(calls) } else { Err(calls) }
        })
    };
    let job = runtime.spawn_job(retries);
    let fiber = runtime.spawn_fiber(retries);
    // The only worker runs others in the delays.
    let other = runtime.spawn(async { 5 });
    assert_eq!(other.wait().ok(), Some(5));
    assert_eq!(job.wait().expect("no panic").ok(), Some(3));
    assert_eq!(fiber.wait().expect("no panic").ok(), Some(3));
    let refused = quick().call_if(|_| false, || Err::<(), _>("no"));
    assert_eq!(refused.err().map(|error| error.attempts), Some(1));
}

#[test]
fn a_limit_is_a_method_of_a_future() {
    one().block_on(async {
        assert!(pending::<()>().timeout(TICK).await.is_err());
        let spawned = spawn(async { 1 }.timeout(Duration::from_secs(60)));
        assert_eq!(
            spawned.await.expect("no panic"),
            Ok(1),
            "it is `Send` if the future is"
        );
        let late = spawn_job(|| 2).timeout_at(Instant::now() + Duration::from_secs(60));
        assert_eq!(late.await.expect("in time").ok(), Some(2));
    });
}
