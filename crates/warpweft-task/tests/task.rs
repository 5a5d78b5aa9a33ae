//! The behaviour of a task in one thread, above all when user code panics in it.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod common;

use common::{Count, Guard, Pool, alone, counting_waker, tasks_alive};
use std::future::{pending, poll_fn};
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use warpweft_task::{Abandon, Header, JoinError, JoinHandle, Ran, TaskRef};

/// Panics when it is dropped.
struct Mine(Count);

/// Panics with a value that panics when it is dropped.
struct DoubleMine(Count);

impl Drop for DoubleMine {
    fn drop(&mut self) {
        self.0.add();
        panic_any(Mine(self.0.clone()));
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        self.0.add();
        panic!("a mine");
    }
}

fn poll_once<T: Send + 'static>(handle: &mut JoinHandle<T>, waker: &Waker) -> Poll<Result<T, JoinError>> {
    Pin::new(handle).poll(&mut Context::from_waker(waker))
}

#[test]
fn the_sizes_are_what_they_are_meant_to_be() {
    assert_eq!(
        size_of::<Header>(),
        48,
        "one cache line with a waker, or with a closure of two words"
    );
    assert_eq!(
        (size_of::<TaskRef>(), size_of::<Option<TaskRef>>()),
        (8, 8),
        "a queue's slot"
    );
    assert_eq!(size_of::<JoinHandle<[u64; 8]>>(), 16);
}

#[test]
fn a_job_gives_its_result() {
    let _alone = alone();
    let pool = Pool::open();
    let (runnable, handle) = pool.job(|| 42);
    assert_eq!(tasks_alive(), 1);
    assert!(!handle.is_finished());
    pool.step(runnable);
    assert!(handle.is_finished());
    assert_eq!(handle.wait().unwrap(), 42);
    pool.close();
}

#[test]
fn a_future_runs_in_steps() {
    let _alone = alone();
    let pool = Pool::open();
    let mut steps = 0;
    let (runnable, handle) = pool.future(poll_fn(move |cx| {
        steps += 1;
        if steps == 3 {
            return Poll::Ready(steps);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }));
    pool.step(runnable);
    assert!(!handle.is_finished());
    pool.run();
    assert_eq!(handle.wait().unwrap(), 3);
    assert_eq!(
        pool.pushed.get(),
        0,
        "a task that wakes itself goes back without a waker's push"
    );
    pool.close();
}

#[test]
fn a_panic_of_a_job_is_its_result() {
    let _alone = alone();
    let pool = Pool::open();
    let (runnable, handle) = pool.job(|| -> u32 { panic!("bad {}", std::hint::black_box(7)) });
    pool.step(runnable);
    let error = handle.wait().unwrap_err();
    assert!(error.is_panic() && !error.is_cancelled());
    assert!(error.to_string().starts_with("the job, spawned at "));
    assert!(error.to_string().ends_with(", panicked: bad 7"));
    assert_eq!(
        *error.into_panic().unwrap().downcast::<String>().unwrap(),
        "bad 7"
    );
    pool.close();
}

/// Only what is shown says it: the message is what the code has said.
#[test]
fn a_panic_for_want_of_tokio_says_what_gives_it() {
    const TEXT: &str = "there is no reactor running, must be called from the context of a Tokio 1.x runtime";
    let _alone = alone();
    let pool = Pool::open();
    let (runnable, handle) = pool.job(|| -> u32 { panic!("{TEXT}") });
    pool.step(runnable);
    let JoinError::Panicked(panic) = handle.wait().unwrap_err() else {
        panic!("it panicked")
    };
    assert_eq!(panic.message(), Some(TEXT));
    let mend = "`Builder::tokio_context` of the crate warpweft-tokio";
    assert!(panic.to_string().contains(mend), "{panic}");
    pool.close();
}

#[test]
fn a_payload_of_any_type_arrives() {
    let _alone = alone();
    let pool = Pool::open();
    let (runnable, handle) = pool.job(|| panic_any(1234_u64));
    pool.step(runnable);
    let payload = handle.wait().unwrap_err().into_panic().unwrap();
    assert_eq!(*payload.downcast::<u64>().unwrap(), 1234);
    pool.close();
}

#[test]
fn a_panic_of_a_future_drops_it() {
    let _alone = alone();
    let (pool, dropped) = (Pool::open(), Count::default());
    let guard = dropped.guard();
    let (runnable, handle) = pool.future(Box::pin(async move {
        let _guard = guard;
        panic!("in a step");
    }));
    pool.step(runnable);
    assert_eq!(dropped.get(), 1);
    let result: Result<(), JoinError> = handle.wait();
    assert!(result.unwrap_err().is_panic());
    pool.close();
}

#[test]
fn a_panic_in_the_drop_of_a_future_that_panicked_stays_inside() {
    let _alone = alone();
    let (pool, dropped) = (Pool::open(), Count::default());
    let mine = Mine(dropped.clone());
    let (runnable, handle) = pool.future(poll_fn(move |_| -> Poll<()> {
        let _ = &mine;
        panic!("the first panic")
    }));
    pool.step(runnable);
    assert_eq!(dropped.get(), 1);
    let text = handle.wait().unwrap_err().to_string();
    assert!(text.ends_with(", panicked: the first panic"), "{text}");
    pool.close();
}

#[test]
fn a_panic_in_the_drop_of_a_future_that_ended_is_its_result() {
    let _alone = alone();
    let (pool, dropped, result) = (Pool::open(), Count::default(), Count::default());
    let (mine, mut value) = (Mine(dropped.clone()), Some(result.guard()));
    let (runnable, handle) = pool.future(poll_fn(move |_| {
        let _ = &mine;
        Poll::Ready(value.take())
    }));
    pool.step(runnable);
    assert_eq!((dropped.get(), result.get()), (1, 1));
    let text = handle.wait().map(drop).unwrap_err().to_string();
    assert!(text.ends_with(", panicked: a mine"), "{text}");
    pool.close();
}

#[test]
fn a_panic_in_the_drop_of_a_cancelled_future_stays_inside() {
    let _alone = alone();
    let (pool, dropped) = (Pool::open(), Count::default());
    let mine = Mine(dropped.clone());
    let (runnable, handle) = pool.future(Box::pin(async move {
        let _mine = mine;
        pending::<()>().await;
    }));
    assert!(handle.cancel());
    pool.step(runnable);
    assert_eq!(dropped.get(), 1);
    assert!(handle.wait().unwrap_err().is_cancelled());
    pool.close();
}

#[test]
fn a_panic_in_the_drop_of_a_result_stays_inside() {
    let _alone = alone();
    let (pool, dropped) = (Pool::open(), Count::default());
    let mine = dropped.clone();
    // There is no handle: the runner drops the result.
    let (runnable, handle) = pool.job(move || Mine(mine));
    handle.detach();
    pool.step(runnable);
    assert_eq!(dropped.get(), 1);
    // The handle is dropped after the end: it drops the result.
    let mine = dropped.clone();
    let (runnable, handle) = pool.job(move || Mine(mine));
    pool.step(runnable);
    drop(handle);
    assert_eq!(dropped.get(), 2);
    pool.close();
}

#[test]
fn a_panic_thrown_with_something_that_panics_stays_inside() {
    let _alone = alone();
    let (pool, dropped) = (Pool::open(), Count::default());
    let mine = dropped.clone();
    // The runner drops the result and the payload of its `Drop`.
    let (runnable, handle) = pool.job(move || DoubleMine(mine));
    handle.detach();
    pool.step(runnable);
    assert_eq!(dropped.get(), 2);
    // Dropped with the cancelled future.
    let mine = DoubleMine(dropped.clone());
    let (runnable, handle) = pool.future(Box::pin(async move {
        let _mine = mine;
        pending::<()>().await;
    }));
    runnable.abandon(Abandon::Shutdown);
    assert_eq!(dropped.get(), 4);
    assert!(handle.wait().unwrap_err().is_cancelled());
    pool.close();
}

#[test]
fn a_detached_job_ends_alone() {
    let _alone = alone();
    let (pool, ran) = (Pool::open(), Count::default());
    let guard = ran.guard();
    pool.step(pool.detached_job(move || drop(guard)));
    assert_eq!((ran.get(), tasks_alive()), (1, 0));
    pool.step(pool.detached_job(|| panic!("nobody hears it")));
    pool.close();
}

#[test]
fn a_task_ref_that_is_dropped_goes_to_its_pool() {
    let _alone = alone();
    let (pool, dropped) = (Pool::open(), Count::default());
    let guard = dropped.guard();
    let (runnable, handle) = pool.job(move || drop(guard));
    drop(runnable.into_task_ref());
    assert_eq!((pool.dropped.get(), dropped.get()), (1, 1));
    assert!(matches!(handle.wait(), Err(JoinError::Dropped)));
    pool.close();
}

#[test]
fn a_runnable_that_is_dropped_ends_at_once() {
    let _alone = alone();
    let (pool, dropped) = (Pool::open(), Count::default());
    let guard = dropped.guard();
    let (task, handle) = pool.job(move || drop(guard));
    drop(task);
    assert_eq!((pool.dropped.get(), dropped.get()), (0, 1), "no policy had it");
    assert!(matches!(handle.wait(), Err(JoinError::Dropped)));
    pool.close();
}

/// The answer of `cancel` is binding: a closure that was cancelled while it ran returns no value.
#[test]
fn a_closure_that_was_cancelled_while_it_ran_has_no_value() {
    let _alone = alone();
    let (pool, dropped) = (Pool::open(), Count::default());
    let guard = dropped.guard();
    let (give, take) = channel::<JoinHandle<Guard>>();
    let (answer, answered) = channel();
    let (task, handle) = pool.job(move || {
        let own = take.recv().expect("the test sends it");
        answer.send((own.cancel(), own)).expect("the test listens");
        guard
    });
    give.send(handle).expect("the closure listens");
    pool.step(task);
    let (unfinished, handle) = answered.recv().expect("the closure answers");
    assert!(unfinished);
    assert_eq!(dropped.get(), 1, "its value goes at its end");
    assert!(matches!(handle.wait(), Err(JoinError::Cancelled)));
    assert_eq!(dropped.get(), 1);
    pool.close();
}

/// The joiner gets a panic even after it requested the end.
#[test]
fn a_closure_that_was_cancelled_and_panics_says_that_it_panicked() {
    let _alone = alone();
    let pool = Pool::open();
    let (give, take) = channel::<JoinHandle<()>>();
    let (back, taken) = channel();
    let (task, handle) = pool.job(move || {
        let own = take.recv().expect("the test sends it");
        own.cancel();
        back.send(own).expect("the test listens");
        panic!("all the same");
    });
    give.send(handle).expect("the closure listens");
    pool.step(task);
    let handle = taken.recv().expect("the closure sends it");
    assert!(handle.wait().unwrap_err().is_panic());
    pool.close();
}

#[test]
fn an_abandoned_task_says_why() {
    let _alone = alone();
    let pool = Pool::open();
    for (why, text) in [
        (Abandon::Cancelled, "the task was cancelled"),
        (Abandon::Shutdown, "the pool shut down before the task ended"),
        (
            Abandon::Dropped,
            "the pool's policy dropped the task instead of keeping it",
        ),
    ] {
        let (runnable, handle) = pool.job(|| ());
        runnable.abandon(why);
        assert_eq!(handle.wait().unwrap_err().to_string(), text);
    }
    pool.close();
}

#[test]
fn a_task_that_nobody_can_wake_or_join_is_cancelled() {
    let _alone = alone();
    let (pool, dropped) = (Pool::open(), Count::default());
    let guard = dropped.guard();
    let (runnable, handle) = pool.future(Box::pin(async move {
        let _guard = guard;
        pending::<()>().await;
    }));
    pool.step(runnable);
    assert_eq!(dropped.get(), 0, "it may still be joined, or cancelled");
    drop(handle);
    pool.run();
    assert_eq!(dropped.get(), 1);
    pool.close();
}

#[test]
fn cancelling_an_ended_task_does_nothing() {
    let _alone = alone();
    let pool = Pool::open();
    let (runnable, handle) = pool.job(|| 1);
    pool.step(runnable);
    assert!(!handle.cancel());
    assert_eq!(handle.wait().unwrap(), 1);
    pool.close();
}

#[test]
fn the_end_wakes_the_waker_of_the_last_poll_only() {
    let _alone = alone();
    let pool = Pool::open();
    let ((one, ones), (two, twos)) = (counting_waker(), counting_waker());
    let (runnable, mut handle) = pool.job(|| 5);
    for waker in [&one, &one, &two] {
        assert!(poll_once(&mut handle, waker).is_pending());
    }
    assert_eq!(
        Arc::strong_count(&ones),
        2,
        "the handle keeps one waker, the last"
    );
    assert_eq!(Arc::strong_count(&twos), 3);
    pool.step(runnable);
    assert_eq!((ones.wakes.get(), twos.wakes.get()), (0, 1));
    assert_eq!(Arc::strong_count(&twos), 2);
    assert!(matches!(poll_once(&mut handle, &one), Poll::Ready(Ok(5))));
    drop(handle);
    pool.close();
}

#[test]
fn a_panic_of_the_joiners_waker_is_not_the_runners() {
    struct Broken;
    impl Wake for Broken {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }
    let _alone = alone();
    let pool = Pool::open();
    let (runnable, mut handle) = pool.job(|| 5);
    assert!(poll_once(&mut handle, &Waker::from(Arc::new(Broken))).is_pending());
    pool.step(runnable);
    assert_eq!(handle.wait().unwrap(), 5);
    pool.close();
}

#[test]
#[should_panic(expected = "polled after it had given its result")]
fn a_handle_gives_its_result_once() {
    let _alone = alone();
    let pool = Pool::open();
    let (runnable, mut handle) = pool.job(|| 5);
    pool.step(runnable);
    assert!(poll_once(&mut handle, Waker::noop()).is_ready());
    let _ = poll_once(&mut handle, Waker::noop());
}

#[test]
fn the_policy_word_travels_with_the_task_ref() {
    let _alone = alone();
    let pool = Pool::open();
    let (mut runnable, handle) = pool.future(Box::pin(pending::<()>()));
    assert_eq!(runnable.policy_word(), 0);
    runnable.set_policy_word(u64::MAX);
    let Ran::Pending(mut pending) = runnable.run() else {
        unreachable!("it is always pending")
    };
    assert_eq!(pending.task().policy_word(), u64::MAX);
    assert_eq!(pending.task().info().policy_word(), u64::MAX);
    pending.task().set_policy_word(3);
    handle.cancel();
    drop(pending.suspend());
    assert!(handle.wait().is_err(), "a dropped runnable ends its task");
    pool.close();
}

#[test]
fn wakers_outlive_the_task_and_the_pool() {
    let _alone = alone();
    let pool = Pool::open();
    let (sender, wakers) = channel();
    let mut first = true;
    let (runnable, handle) = pool.future(poll_fn(move |cx| {
        let _ = sender.send(cx.waker().clone());
        if std::mem::take(&mut first) {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }));
    pool.step(runnable);
    let waker: Waker = wakers.recv().unwrap();
    let second = waker.clone();
    assert!(waker.will_wake(&second));
    waker.wake();
    pool.run();
    handle.wait().unwrap();
    let third = wakers.recv().unwrap();
    assert_eq!(tasks_alive(), 1, "its wakers keep the allocation");
    second.wake_by_ref();
    second.wake();
    drop(third);
    assert_eq!(tasks_alive(), 0);
    assert_eq!(pool.pushed.get(), 1);
    pool.close();
}

#[test]
fn a_thread_waits_for_a_task_of_another() {
    let _alone = alone();
    let pool = Pool::open();
    for round in 0..200 {
        let (runnable, handle) = pool.job(move || round);
        let runner = thread::spawn(move || pool.step(runnable));
        assert_eq!(handle.wait().unwrap(), round);
        runner.join().unwrap();
    }
    pool.close();
}

#[test]
fn names_and_spawn_sites_are_kept() {
    let _alone = alone();
    let pool = Pool::open();
    let (runnable, handle) = pool.job(|| ());
    assert_eq!(runnable.info().name(), None);
    assert!(runnable.info().location().file().ends_with("mod.rs"));
    assert_eq!(handle.info().location(), runnable.info().location());
    assert!(format!("{handle:?}").contains("finished: false"));
    pool.step(runnable);
    assert!(format!("{handle:?}").contains("finished: true"));
    drop(handle);
    pool.close();
}
