//! What fails is tried again: how often, how long, and for which errors.

use std::cell::Cell;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use warpweft::cancel::CancelToken;
use warpweft::time::{GaveUp, Retry, TimeoutExt as _, sleep};
use warpweft::{JoinError, JoinHandle, Runtime, spawn, spawn_job};

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
    let runtime = one();
    let start = Instant::now();
    let calls = Cell::new(0);
    let fails = || {
        calls.set(calls.get() + 1);
        async { Err::<(), _>(io::Error::from(ErrorKind::ConnectionRefused)) }
    };
    let error = runtime
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
        .first_delay(Duration::from_secs(20))
        .longest_delay(Duration::MAX);
    let error = one().block_on(
        long.within(Duration::from_secs(10))
            .run(|| async { Err::<(), _>(1) }),
    );
    let error = error.expect_err("it fails");
    assert_eq!(
        (error.attempts, error.last, error.reason),
        (1, Some(1), GaveUp::NextTooLate)
    );
    let text = error.to_string();
    assert!(
        text.contains("1 attempt, because the time would be over before the next attempt: 1"),
        "{text}"
    );
    assert!(start.elapsed() < Duration::from_secs(10));
    // A limit beyond the clock is none.
    let ended = one().block_on(quick().within(Duration::MAX).run(|| async { Ok::<_, u32>(7) }));
    assert_eq!(ended.ok(), Some(7));
}

/// Sleeps end at once then, and a server that is down would be called without pause.
#[test]
fn the_end_of_the_runtime_ends_the_attempts() {
    let runtime = one();
    let (begins, begun) = channel();
    let job = runtime.spawn_job(move || {
        let retry = Retry::new()
            .attempts(1_000_000)
            .first_delay(Duration::from_secs(100))
            .longest_delay(Duration::from_secs(100));
        let mut calls = 0;
        let error = retry.call(|| {
            calls += 1;
            begins.send(()).expect("the test waits");
            Err::<(), _>(calls)
        });
        let error = error.expect_err("it fails");
        (error.attempts, error.last, error.reason, error.to_string())
    });
    begun.recv().expect("it begins");
    drop(runtime);
    let text = "gave up after 1 attempt, because the runtime shuts down: 1".to_owned();
    assert_eq!(job.wait().ok(), Some((1, Some(1), GaveUp::Shutdown, text)));
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

/// Fails until `stop`, or for so long that the test fails.
fn fails_until(stop: &AtomicBool) -> impl Fn() -> Result<(), &'static str> {
    let start = Instant::now();
    move || match stop.load(Relaxed) || start.elapsed() > Duration::from_secs(20) {
        true => Ok(()),
        false => Err("not yet"),
    }
}

fn at_once() -> Retry {
    Retry::new().attempts(u32::MAX).first_delay(Duration::ZERO)
}

#[test]
fn a_limit_and_a_cancellation_end_attempts_without_delay() {
    let (runtime, start) = (one(), Instant::now());
    for delay in [Duration::ZERO, Duration::from_nanos(1)] {
        let retry = move || async move {
            let (never, retry) = (
                AtomicBool::new(false),
                at_once().first_delay(delay).longest_delay(delay),
            );
            let fails = fails_until(&never);
            retry.run(|| async { fails() }).await
        };
        let limited = runtime.spawn(async move { retry().timeout(5 * TICK).await });
        assert!(limited.wait().expect("no panic").is_err(), "{delay:?}");
        let outside = runtime.block_on(retry().timeout(5 * TICK));
        assert!(outside.is_err(), "{delay:?}");
        let endless = runtime.spawn(retry());
        runtime.block_on(sleep(TICK));
        endless.cancel();
        assert!(matches!(endless.wait(), Err(JoinError::Cancelled)), "{delay:?}");
    }
    let token = CancelToken::new();
    let retry = || at_once().call(fails_until(&AtomicBool::new(false)));
    let fiber = token
        .run(|| runtime.spawn_fiber(retry))
        .expect("it is not cancelled");
    runtime.block_on(sleep(TICK));
    token.cancel();
    assert!(matches!(fiber.wait(), Err(JoinError::Cancelled)));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn others_run_between_attempts_without_delay() {
    type Attempts = fn(&Runtime, Arc<AtomicBool>) -> JoinHandle<Result<(), ()>>;
    let ways: [Attempts; 3] = [
        |runtime, stop| {
            runtime.spawn(async move {
                let fails = fails_until(&stop);
                at_once().run(|| async { fails() }).await.map_err(drop)
            })
        },
        |runtime, stop| runtime.spawn_job(move || at_once().call(fails_until(&stop)).map_err(drop)),
        |runtime, stop| runtime.spawn_fiber(move || at_once().call(fails_until(&stop)).map_err(drop)),
    ];
    // No other worker steps in.
    let alone = Runtime::builder().workers(1).stuck_after(None);
    let runtime = alone.build().expect("a worker");
    for attempts in ways {
        let stop = Arc::new(AtomicBool::new(false));
        let start = Instant::now();
        let attempts = attempts(&runtime, Arc::clone(&stop));
        let other = runtime.spawn(async move { stop.store(true, Relaxed) });
        other.wait().expect("no panic");
        assert_eq!(attempts.wait().ok(), Some(Ok(())));
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
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
