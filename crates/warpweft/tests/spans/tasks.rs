//! Tasks and stolen halves run in the span of their spawner.

use super::eventually::eventually;
use super::in_time::in_time;
use super::{ASKED, around, assert_over, runtime};
use std::sync::{Arc, mpsc};
use tracing::{info, info_span};
use warpweft::sync::oneshot;
use warpweft::{Runtime, TaskBuilder, block_on, fiber, join, scope, spawn_blocking, spawn_job};

#[test]
fn whatever_is_spawned_runs_in_the_span_of_its_spawner() {
    let runtime = runtime(2);
    let spawner = info_span!("spawner");
    spawner.in_scope(|| {
        runtime
            .spawn(async { info!("spawned") })
            .wait()
            .expect("a future");
        runtime.spawn_job(|| info!("spawned")).wait().expect("a job");
        runtime.spawn_fiber(|| info!("spawned")).wait().expect("a fiber");
        let (sender, receiver) = mpsc::channel::<()>();
        TaskBuilder::new().on(&runtime).spawn_detached(move || {
            info!("spawned");
            drop(sender);
        });
        assert!(receiver.recv().is_err(), "it has run");
        let pinned = TaskBuilder::new()
            .on(&runtime)
            .spawn_pinned(1, || info!("spawned"));
        pinned.wait().expect("a pinned job");
        runtime
            .block_on(async { spawn_blocking(|| info!("spawned")).await })
            .expect("a job that may block");
        runtime
            .first()
            .try_spawn(async { info!("spawned") })
            .expect("room")
            .wait()
            .expect("a future");
        runtime
            .install(|_| {
                info!("spawned");
                scope(|scope| scope.spawn(|_| info!("spawned")));
                scope(|scope| scope.spawn_pinned(0, |_| info!("spawned")));
                fiber::scope(|scope| scope.spawn(|_| info!("spawned")));
                scope(|scope| drop(scope.spawn_future(async { info!("spawned") })));
                info_span!("half").in_scope(|| join(|| info!("in half"), || info!("in half")));
            })
            .expect("it lives");
    });
    assert_eq!(around("spawned"), ["spawner"; 12]);
    assert_eq!(around("in half"), ["spawner:half"; 2]);
    drop(spawner);
    assert_over("spawner");
}

#[test]
fn a_task_has_a_span_of_its_own_where_a_subscriber_wants_it() {
    let runtime = runtime(1);
    let verbose = info_span!("verbose");
    verbose.in_scope(|| {
        let builder = || TaskBuilder::new().on(&runtime);
        let named = builder().name("teller").spawn(async { info!("verbose future") });
        named.wait().expect("it ends");
        builder()
            .spawn_job(|| info!("verbose job"))
            .wait()
            .expect("it ends");
        builder()
            .spawn_fiber(|| info!("verbose fiber"))
            .wait()
            .expect("it ends");
    });
    let task = "verbose:task kind=\"future\" name=\"teller\" file=tasks.rs line";
    assert_eq!(around("verbose future"), [task]);
    assert_eq!(
        around("verbose job"),
        ["verbose:task kind=\"job\" file=tasks.rs line"]
    );
    assert_eq!(
        around("verbose fiber"),
        ["verbose:task kind=\"fiber\" file=tasks.rs line"]
    );
}

#[test]
fn a_future_is_in_its_span_at_each_poll_and_when_it_is_dropped() {
    struct Tells;
    impl Drop for Tells {
        fn drop(&mut self) {
            info!("dropped future");
        }
    }
    let runtime = runtime(1);
    let (go, gone) = oneshot::channel();
    let future = info_span!("polled").in_scope(|| {
        runtime.spawn(async move {
            let _tells = Tells;
            info!("polled future");
            gone.await.expect("it is told");
            info!("polled future");
        })
    });
    eventually("it waits", || around("polled future").len() == 1);
    let between = runtime.spawn_job(|| info!("between polls"));
    between.wait().expect("it ends");
    go.send(()).expect("it waits");
    future.wait().expect("it ends");
    assert_eq!(around("polled future"), ["polled"; 2]);
    assert_eq!(around("dropped future"), ["polled"]);
    assert_eq!(around("between polls"), [""]);
    assert_over("polled");
}

#[test]
fn a_job_that_waits_keeps_its_spans_on_its_thread() {
    let runtime = runtime(1);
    let lock = Arc::new(warpweft::sync::Mutex::new(()));
    let (go, gone) = oneshot::channel();
    let held = block_on(lock.lock());
    let job = runtime.spawn_job({
        let lock = Arc::clone(&lock);
        move || {
            let _job = info_span!("waiting job").entered();
            block_on(gone).expect("it is told");
            info!("job after block_on");
            drop(block_on(lock.lock()));
            info!("job after lock");
            spawn_job(|| info!("job's child")).wait().expect("it ends");
            info!("job after wait");
        }
    });
    let other = runtime.spawn_job(|| info!("job meanwhile"));
    other.wait().expect("it ends");
    go.send(()).expect("it waits");
    eventually("the job waits for the lock", || {
        !around("job after block_on").is_empty()
    });
    drop(held);
    job.wait().expect("it ends");
    for message in [
        "job after block_on",
        "job after lock",
        "job's child",
        "job after wait",
    ] {
        assert_eq!(around(message), ["waiting job"], "{message}");
    }
    assert_eq!(around("job meanwhile"), [""]);
    assert_over("waiting job");
}

#[test]
fn a_half_that_was_stolen_is_in_the_span_of_its_fork() {
    let runtime = runtime(2);
    let outside = info_span!("forker");
    let threads = outside.in_scope(|| {
        runtime.install(|_| {
            let _inner = info_span!("around join").entered();
            let (begun, begins) = mpsc::channel();
            join(
                move || {
                    // The other half has begun, so another thread has it.
                    begins.recv().expect("it begins");
                    info!("first half");
                    std::thread::current().id()
                },
                move || {
                    info!("second half");
                    begun.send(()).expect("it is waited for");
                    std::thread::current().id()
                },
            )
        })
    });
    let (first, second) = threads.expect("it lives");
    assert_ne!(first, second);
    assert_eq!(around("first half"), ["forker:around join"]);
    assert_eq!(around("second half"), ["forker:around join"]);
    assert_over("around join");
}

#[test]
fn a_task_on_top_of_a_frame_that_has_no_spare_thread_does_not_see_its_spans() {
    drop(runtime(1));
    let builder = Runtime::builder().workers(1).max_threads(1).stuck_after(None);
    let runtime = builder.build().expect("a runtime");
    let (go, gone) = oneshot::channel();
    let job = runtime.spawn_job(move || {
        let _frame = info_span!("no spare").entered();
        block_on(gone).expect("it is told");
        info!("below a task");
    });
    let above = runtime.spawn_job(move || {
        info!("on top");
        go.send(()).expect("the frame waits");
    });
    above.wait().expect("it ends");
    job.wait().expect("it ends");
    assert_eq!(around("on top"), [""]);
    assert_eq!(around("below a task"), ["no spare"]);
    assert_over("no spare");
}

/// A layer that writes its log in a closure that blocks, for one.
#[test]
fn a_subscriber_may_use_the_runtime_while_a_span_begins() {
    in_time(|| {
        let runtime = Arc::new(runtime(1));
        *ASKED.lock().expect("no panic") = Some(Arc::clone(&runtime));
        let spawned = info_span!("verbose").in_scope(|| runtime.try_spawn_blocking(|| 7));
        *ASKED.lock().expect("no panic") = None;
        let spawned = spawned.unwrap_or_else(|_| panic!("there is room"));
        assert_eq!(spawned.wait().expect("no panic"), 7);
    });
}
