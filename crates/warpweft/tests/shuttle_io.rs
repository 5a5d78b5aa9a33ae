//! A worker sleeps in the poller: which thread wakes it there, which follows it, and the poller's protocol
//! with timers. The poller is the checkers' model, whose events a test fires.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::task::{Poll, Waker};
use std::time::Duration;
use support::{Gate, check, check_fairly, check_often, runtime};
use warpweft::io::model::Pipe;
use warpweft::io::{Progress, Rest};
use warpweft::time::{sleep, timeout};
use warpweft::{Io, JoinError, Runtime, block_on, spawn, spawn_job, yield_now};

const LONG: Duration = Duration::from_secs(1000);

fn with_thread(workers: usize) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .io(Io::Thread)
        .build()
        .expect("a small pool")
}

fn pipe(runtime: &Runtime) -> Arc<Pipe> {
    Arc::new(runtime.block_on(async { Pipe::new() }).expect("it lives"))
}

fn events_reach_a_task(runtime: &Runtime) {
    let pipe = pipe(runtime);
    let taking = Arc::clone(&pipe);
    let task = runtime.spawn(async move {
        taking.take().await?;
        taking.take().await
    });
    pipe.fire();
    thread::yield_now();
    pipe.fire();
    task.wait().expect("no panic").expect("it lives");
}

#[test]
fn an_event_wakes_the_only_worker_in_the_poller() {
    check_often(|| events_reach_a_task(&runtime(1, "fifo")));
}

#[test]
fn an_event_wakes_one_of_two_workers() {
    check(|| events_reach_a_task(&runtime(2, "lifo")));
}

#[test]
fn an_event_is_pushed_by_the_thread_that_polls() {
    check(|| events_reach_a_task(&with_thread(1)));
    check(|| events_reach_a_task(&with_thread(2)));
}

#[test]
fn a_push_wakes_the_worker_in_the_poller() {
    check_often(|| {
        let runtime = runtime(1, "fifo");
        let _pipe = pipe(&runtime);
        thread::yield_now();
        assert_eq!(runtime.spawn_job(|| 1).wait().expect("no panic"), 1);
        assert_eq!(runtime.spawn_job(|| 2).wait().expect("no panic"), 2);
    });
}

#[test]
fn a_driver_that_comes_late_finds_a_poller_among_the_sleepers() {
    check_fairly(|| {
        let runtime = runtime(2, "fifo");
        // Both are parked, or about to be.
        while runtime.idle_workers().1 < 2 {
            thread::yield_now();
        }
        let pipe = pipe(&runtime);
        let fires = {
            let pipe = Arc::clone(&pipe);
            thread::spawn(move || pipe.fire())
        };
        // On this thread: no push wakes a worker.
        block_on(pipe.take()).expect("it lives");
        fires.join().expect("no panic");
    });
}

#[test]
fn the_poller_leaves_for_work_and_another_sleeper_follows() {
    check_often(|| {
        let runtime = runtime(2, "fifo");
        let (first, second) = (pipe(&runtime), pipe(&runtime));
        let (waits, gives) = (Arc::clone(&first), Arc::clone(&second));
        let gate = Gate::default();
        let open = gate.clone();
        // Holds its worker until the other task, which needs the next event, has run.
        let holds = runtime.spawn(async move {
            waits.take().await.expect("it lives");
            gives.fire();
            open.await;
        });
        let opens = runtime.spawn(async move {
            second.take().await.expect("it lives");
            gate.open();
        });
        first.fire();
        opens.wait().expect("no panic");
        holds.wait().expect("no panic");
    });
}

#[test]
fn a_worker_that_holds_on_does_not_keep_the_poller_from_the_other() {
    check_fairly(|| {
        // No monitor that would send a standby poller there.
        let unwatched = Runtime::builder().workers(2).stuck_after(None).build();
        let runtime = unwatched.expect("a small pool");
        // Workers that have run some tasks look at the poller after some more, and not before the next one.
        let some: Vec<_> = (0..8).map(|_| runtime.spawn_job(|| ())).collect();
        for job in some {
            job.wait().expect("no panic");
        }
        let (first, second) = (pipe(&runtime), pipe(&runtime));
        let seen = Arc::new(AtomicUsize::new(0));
        let (waits, gives, until) = (Arc::clone(&first), Arc::clone(&second), Arc::clone(&seen));
        // A long computation: it ends only when the other worker has had the second event.
        let computes = runtime.spawn(async move {
            waits.take().await.expect("it lives");
            gives.fire();
            while until.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
        });
        let sees = runtime.spawn(async move {
            second.take().await.expect("it lives");
            seen.store(1, Ordering::Release);
        });
        first.fire();
        sees.wait().expect("no panic");
        computes.wait().expect("no panic");
    });
}

#[test]
fn a_busy_worker_looks_at_the_poller() {
    check_fairly(|| {
        let runtime = runtime(1, "fifo");
        let pipe = pipe(&runtime);
        let seen = Arc::new(AtomicUsize::new(0));
        let until = Arc::clone(&seen);
        let busy = runtime.spawn(async move {
            while until.load(Ordering::Acquire) == 0 {
                yield_now().await;
            }
        });
        let other = runtime.spawn({
            let (seen, pipe) = (Arc::clone(&seen), Arc::clone(&pipe));
            async move {
                pipe.take().await.expect("it lives");
                seen.store(1, Ordering::Release);
            }
        });
        // A second one that never sleeps: the worker always has something to do.
        let busy_too = runtime.spawn(async move {
            while seen.load(Ordering::Acquire) == 0 {
                yield_now().await;
            }
        });
        pipe.fire();
        for task in [busy, other, busy_too] {
            task.wait().expect("no panic");
        }
    });
}

#[test]
fn two_tasks_take_from_one_pipe() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let pipe = pipe(&runtime);
        let tasks = [(); 2].map(|()| {
            let pipe = Arc::clone(&pipe);
            runtime.spawn(async move { pipe.take().await })
        });
        pipe.fire();
        pipe.fire();
        for task in tasks {
            task.wait().expect("no panic").expect("it lives");
        }
    });
}

#[test]
fn a_waiter_that_leaves_takes_no_event() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let pipe = pipe(&runtime);
        let given_up = runtime.spawn({
            let pipe = Arc::clone(&pipe);
            async move { timeout(Duration::from_millis(1), pipe.take()).await.is_ok() }
        });
        let stays = runtime.spawn({
            let pipe = Arc::clone(&pipe);
            async move { pipe.take().await }
        });
        pipe.fire();
        if given_up.wait().expect("no panic") {
            pipe.fire();
        }
        stays.wait().expect("no panic").expect("it lives");
    });
}

#[test]
fn a_timer_set_from_outside_wakes_the_poller() {
    check_often(|| {
        let runtime = runtime(1, "fifo");
        // The worker sleeps without a deadline: only the timer's own notification ends that.
        let _pipe = pipe(&runtime);
        runtime.block_on(sleep(LONG));
    });
}

#[test]
fn a_timer_set_from_outside_wakes_the_thread_that_polls() {
    check(|| {
        let runtime = with_thread(1);
        runtime.block_on(sleep(LONG));
        runtime.block_on(sleep(LONG));
    });
}

#[test]
fn timers_of_two_threads() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let inside = runtime.spawn(async {
            sleep(LONG).await;
            spawn(sleep(LONG)).await.expect("no panic");
        });
        runtime.block_on(sleep(Duration::from_millis(1)));
        inside.wait().expect("no panic");
    });
}

#[test]
fn a_job_that_waits_for_an_event_lends_its_worker() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let pipe = pipe(&runtime);
        let waiting = Arc::clone(&pipe);
        let job = runtime.spawn_job(move || block_on(waiting.take()));
        let other = runtime.spawn_job(|| spawn_job(|| 1).wait().expect("no panic"));
        pipe.fire();
        assert_eq!(other.wait().expect("no panic"), 1);
        job.wait().expect("no panic").expect("it lives");
    });
}

fn the_end_meets_waiters(runtime: &Runtime) {
    let pipe = pipe(runtime);
    let task = runtime.spawn({
        let pipe = Arc::clone(&pipe);
        async move { pipe.take().await }
    });
    let sleeper = runtime.spawn(sleep(LONG));
    let outside = {
        let pipe = Arc::clone(&pipe);
        thread::spawn(move || block_on(pipe.take()))
    };
    runtime.shutdown();
    assert!(matches!(task.wait(), Err(JoinError::Shutdown) | Ok(Err(_))));
    // For the poller's model, time passes when a thread waits for it.
    assert!(matches!(sleeper.wait(), Err(JoinError::Shutdown) | Ok(())));
    let error = outside.join().expect("no panic").expect_err("nothing was fired");
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    assert!(runtime.block_on(async { Pipe::new() }).is_err());
}

#[test]
fn the_pool_closes_under_waiting_tasks() {
    check(|| the_end_meets_waiters(&runtime(2, "fifo")));
}

#[test]
fn the_pool_closes_under_the_thread_that_polls() {
    check(|| the_end_meets_waiters(&with_thread(1)));
}

#[test]
fn an_event_meets_the_end() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let pipe = pipe(&runtime);
        let task = runtime.spawn({
            let pipe = Arc::clone(&pipe);
            async move { pipe.take().await }
        });
        let fires = thread::spawn(move || pipe.fire());
        runtime.shutdown();
        assert!(matches!(task.wait(), Err(JoinError::Shutdown) | Ok(_)));
        fires.join().expect("no panic");
    });
}

#[test]
fn a_place_is_used_again_while_an_event_is_on_its_way() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let old = pipe(&runtime);
        old.fire();
        let fires = {
            let old = Arc::clone(&old);
            thread::spawn(move || old.fire())
        };
        drop(old);
        let new = pipe(&runtime);
        let task = runtime.spawn({
            let new = Arc::clone(&new);
            async move { new.take().await }
        });
        fires.join().expect("no panic");
        new.fire();
        task.wait().expect("no panic").expect("it lives");
    });
}

/// A read that took all there was waits without another attempt. What comes meanwhile, or came before it
/// waits, is an event. With two workers, one polls while the other is in the middle of the read.
#[test]
fn a_read_that_emptied_the_source_waits_for_what_comes_next() {
    check_often(|| {
        let runtime = runtime(2, "fifo");
        let pipe = pipe(&runtime);
        let task = runtime.spawn({
            let pipe = Arc::clone(&pipe);
            async move {
                let mut units = 0;
                while units < 3 {
                    units += pipe.take_all().await?;
                }
                Ok::<_, std::io::Error>(units)
            }
        });
        let fires = {
            let pipe = Arc::clone(&pipe);
            thread::spawn(move || pipe.fire())
        };
        pipe.fire();
        pipe.fire();
        fires.join().expect("no panic");
        assert_eq!(task.wait().expect("no panic").expect("it lives"), 3);
    });
}

const SOON: Rest = Rest::Within(Duration::from_millis(1));

/// An engine with one wait, which a model ends.
struct OneWait {
    over: AtomicBool,
    waker: Mutex<Option<Waker>>,
    rest: Rest,
}

impl Progress for OneWait {
    fn turn(&self, wakers: &mut Vec<Waker>) -> Rest {
        if self.over.load(Ordering::Acquire) {
            wakers.extend(self.waker.lock().expect("no panic").take());
        }
        self.rest
    }
}

/// A task waits for the engine while its wait is ended, by a thread that rings or not.
fn an_engine_ends_a_wait(runtime: &Runtime, rest: Rest, rings: bool) {
    let engine = Arc::new(OneWait {
        over: AtomicBool::new(false),
        waker: Mutex::new(None),
        rest,
    });
    let notifier = runtime
        .set_progress(Arc::clone(&engine) as _)
        .expect("there is none yet");
    let waits = Arc::clone(&engine);
    let task = runtime.spawn(poll_fn(move |cx| {
        *waits.waker.lock().expect("no panic") = Some(cx.waker().clone());
        if waits.over.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        Poll::Pending
    }));
    engine.over.store(true, Ordering::Release);
    if rings {
        notifier.notify();
    }
    task.wait().expect("no panic");
}

#[test]
fn a_notification_ends_the_sleep_of_the_worker_that_calls_an_engine() {
    check_often(|| an_engine_ends_a_wait(&runtime(1, "fifo"), Rest::Asleep, true));
    check(|| an_engine_ends_a_wait(&runtime(2, "lifo"), Rest::Asleep, true));
    check(|| an_engine_ends_a_wait(&with_thread(1), Rest::Asleep, true));
}

#[test]
fn an_engine_that_rests_for_a_time_is_called_again() {
    check_fairly(|| an_engine_ends_a_wait(&runtime(1, "fifo"), SOON, false));
    check_fairly(|| an_engine_ends_a_wait(&with_thread(1), SOON, false));
}
