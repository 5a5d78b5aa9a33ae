//! Waits that are under way, or begin, while a runtime closes: it is polled until its end.

use super::in_time;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;
use warpweft::io::{Io, Progress, ProgressNotifier, Rest};
use warpweft::time::{sleep, timeout};
use warpweft::{Pool, Runtime, block_on};

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(1000);

/// Calls `test` with runtimes that poll in each way, with and without a monitor, with one worker and two.
fn each(test: fn(Runtime)) {
    for io in [Io::Inline, Io::Thread] {
        for workers in [1, 2] {
            for monitored in [true, false] {
                let mut builder = Runtime::builder().workers(workers).io(io);
                if !monitored {
                    builder = builder.stuck_after(None);
                }
                let runtime = builder.build().expect("workers");
                in_time(move || test(runtime));
            }
        }
    }
}

#[test]
fn a_destructor_of_a_task_may_wait_for_a_timer() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            block_on(sleep(SHORT));
        }
    }
    each(|runtime| {
        for _ in 0..3 {
            let waits = Waits;
            runtime
                .spawn(async move {
                    sleep(LONG).await;
                    drop(waits);
                })
                .detach();
        }
        runtime.block_on(sleep(SHORT));
        runtime.shutdown();
    });
}

/// The last job waits for a thread whose wait ends by a time limit. `begins` says when that begins: before
/// the runtime closes, or afterwards, with its first timer of all.
fn waits_for_a_limit_elsewhere(runtime: &Runtime, begins_before: bool) {
    let (tell, told) = mpsc::channel();
    let (began, begun) = mpsc::channel();
    let job = runtime.spawn_job(move || {
        began.send(()).expect("the test waits");
        told.recv().expect("it is told")
    });
    begun.recv().expect("it begins");
    let pool = runtime.block_on(async { Pool::current() });
    let pool = pool.expect("the pool of this call");
    let (close, closes) = mpsc::channel::<()>();
    let (set, is_set) = mpsc::channel();
    let other = thread::spawn(move || {
        if !begins_before {
            let _closed = closes.recv();
            thread::sleep(SHORT);
        }
        let limit = pool.block_on(async {
            let mut limit = pin!(timeout(SHORT, std::future::pending::<()>()));
            // Polled once, so that the timer is set.
            poll_fn(|cx| Poll::Ready(limit.as_mut().poll(cx).is_ready())).await;
            let _ = set.send(());
            limit.await
        });
        tell.send(limit.is_err()).expect("the job waits");
    });
    if begins_before {
        is_set.recv().expect("it begins");
    }
    drop(close);
    runtime.shutdown();
    assert!(job.wait().expect("no panic"), "the limit passed");
    other.join().expect("no panic");
}

#[test]
fn a_time_limit_of_another_thread_passes_while_the_runtime_closes() {
    each(|runtime| waits_for_a_limit_elsewhere(&runtime, true));
}

#[test]
fn the_first_timer_of_a_runtime_may_come_while_it_closes() {
    each(|runtime| waits_for_a_limit_elsewhere(&runtime, false));
}

/// The timer of a task fires while the pool closes. What its destructor waits for is reported by the thread
/// that would end it.
#[test]
fn a_task_that_is_woken_meanwhile_may_wait_in_its_destructor() {
    struct Waits(Pool);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.block_on(sleep(SHORT));
        }
    }
    each(|runtime| {
        let pool = runtime.block_on(async { Pool::current() });
        let waits = Waits(pool.expect("the pool of this call"));
        let (began, begun) = mpsc::channel();
        runtime
            .spawn(async move {
                let _waits = waits;
                began.send(()).expect("the test waits");
                sleep(2 * SHORT).await;
            })
            .detach();
        begun.recv().expect("it begins");
        waits_for_a_limit_elsewhere(&runtime, false);
    });
}

/// An engine usually keeps what ends the poller's sleep.
#[test]
fn an_engine_is_dropped_with_its_runtime() {
    struct Turns(std::sync::OnceLock<ProgressNotifier>);
    impl Progress for Turns {
        fn turn(&self, _: &mut Vec<Waker>) -> Rest {
            Rest::Asleep
        }
    }
    each(|runtime| {
        let engine = Arc::new(Turns(std::sync::OnceLock::new()));
        let weak: Weak<Turns> = Arc::downgrade(&engine);
        let notifier = runtime.set_progress(Arc::clone(&engine) as _).expect("the first");
        notifier.notify();
        assert!(engine.0.set(notifier.clone()).is_ok());
        drop(engine);
        drop(runtime);
        assert!(weak.upgrade().is_none());
        // It does nothing any more.
        notifier.notify();
    });
}
