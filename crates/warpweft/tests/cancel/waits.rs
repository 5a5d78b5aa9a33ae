//! Waits on a thread's own stack, which a token stops as it stops fibers.

use super::{HOUR, in_time, runtime};
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};
use warpweft::cancel::{CancelToken, Cancelled, with_deadline};
use warpweft::time::sleep;
use warpweft::{JoinError, Runtime, uncooperative};

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(5)
}

/// Calls each wait for a task that does not end, under a token that is soon cancelled.
fn each(runtime: &Runtime, run: impl Fn(&(dyn Fn() + Sync)) -> Result<(), Cancelled>) {
    let waits: [&(dyn Fn() + Sync); 3] = [
        &|| {
            let outside = warpweft::cancel::detached(|| runtime.spawn(sleep(HOUR)));
            drop(outside.wait());
        },
        &|| runtime.block_on(sleep(HOUR)),
        &|| runtime.first().block_on(sleep(HOUR)),
    ];
    for (n, wait) in waits.into_iter().enumerate() {
        let outcome = run(wait);
        assert!(outcome.is_err_and(|cancelled| cancelled.is_deadline()), "{n}");
    }
}

#[test]
fn on_a_thread_of_no_pool() {
    in_time(|| {
        let runtime = runtime(1);
        each(&runtime, |wait| with_deadline(soon(), wait));
    });
}

#[test]
fn in_a_job() {
    in_time(|| {
        let (runtime, other) = (runtime(1), runtime(1));
        each(&other, |wait| {
            let job = runtime.install(|_| with_deadline(soon(), wait));
            job.expect("it is open")
        });
        // Its own pool has one worker, which the job gives away.
        each(&runtime, |wait| {
            let job = runtime.install(|_| with_deadline(soon(), wait));
            job.expect("it is open")
        });
    });
}

#[test]
fn in_a_closure_that_blocks() {
    in_time(|| {
        let (waited_for, waits) = (runtime(1), runtime(1));
        let closure = waits.spawn_blocking(move || each(&waited_for, |wait| with_deadline(soon(), wait)));
        assert!(closure.wait().is_ok());
    });
}

/// The frame lends what the job uses, so it waits for the job.
#[test]
fn a_frame_that_lends_is_not_stopped() {
    in_time(|| {
        let runtime = runtime(2);
        let (mut began, mut ended) = (false, false);
        let outcome = with_deadline(soon(), || {
            runtime.install(|_| {
                began = true;
                std::thread::sleep(Duration::from_millis(50));
                ended = true;
            })
        });
        assert!(outcome.is_ok() || !began, "the value is there");
        assert_eq!(began, ended);
        let calls = std::sync::atomic::AtomicUsize::new(0);
        let _ = with_deadline(soon(), || {
            runtime.broadcast(|_| {
                std::thread::sleep(Duration::from_millis(50));
                calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            })
        });
        let after = calls.into_inner();
        assert!(after == 0 || after == 2, "{after}");
    });
}

#[test]
fn a_handle_that_is_no_longer_waited_for_belongs_to_a_task_that_goes_on() {
    in_time(|| {
        let runtime = runtime(1);
        let (token, gate) = (CancelToken::new(), warpweft::sync::oneshot::channel::<()>());
        let (open, closed) = gate;
        let (tell, told) = std::sync::mpsc::channel();
        let task = runtime.spawn(async move {
            let _ = closed.await;
            let _ = tell.send(());
        });
        let canceller = token.clone();
        let cancels = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            canceller.cancel();
        });
        assert!(token.run(|| task.wait()).is_err());
        cancels.join().expect("it cancels");
        drop(open);
        told.recv().expect("the task went on");
        let late = token.run(|| runtime.spawn(async {}).wait());
        assert!(matches!(late, Err(_) | Ok(Err(JoinError::Cancelled))));
    });
}

/// Waits until it is polled again.
async fn pend() {
    let mut is_first = true;
    poll_fn(|cx| {
        if std::mem::take(&mut is_first) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

/// What it waits for may have come in the poll in which it is cancelled, too late for that poll.
#[test]
fn a_future_that_is_cancelled_in_a_poll_is_polled_once_more() {
    in_time(|| {
        let (token, canceller) = (CancelToken::new(), CancelToken::new());
        let cancels = canceller.clone();
        let value = warpweft::block_on(canceller.run_async(async move {
            cancels.cancel();
            pend().await;
            5
        }));
        assert!(matches!(value, Ok(5)), "{value:?}");
        let cancels = token.clone();
        let ended = warpweft::block_on(token.run_async(async move {
            cancels.cancel();
            pend().await;
            pend().await;
        }));
        assert!(ended.is_err(), "once, and not twice");
        // The same for a task that has the token of its spawner.
        let runtime = runtime(1);
        for (yields, is_value) in [(1, true), (2, false)] {
            let token = CancelToken::new();
            let cancels = token.clone();
            let task = token.run(|| {
                runtime.spawn(async move {
                    cancels.cancel();
                    for _ in 0..yields {
                        pend().await;
                    }
                    5
                })
            });
            let value = task.expect("it is not cancelled yet").wait();
            assert_eq!(value.is_ok(), is_value, "{value:?}");
        }
    });
}

/// The outer token must not unwind the code, so that is the error of the inner wait.
#[test]
fn in_uncooperative_code_the_end_of_a_future_is_an_error() {
    in_time(|| {
        let outer = CancelToken::new();
        let canceller = outer.clone();
        let (begin, begun) = std::sync::mpsc::channel();
        let cancels = std::thread::spawn(move || {
            begun.recv().expect("it begins");
            std::thread::sleep(Duration::from_millis(5));
            canceller.cancel();
        });
        let ended = outer.run(|| {
            uncooperative(|| {
                // A closure under a token that is cancelled before does not begin.
                begin.send(()).expect("the canceller waits");
                warpweft::block_on(CancelToken::new().run_async(std::future::pending::<()>())).is_err()
            })
        });
        cancels.join().expect("it cancels");
        assert!(matches!(ended, Ok(true)), "{ended:?}");
    });
}
