//! Runtimes that end in tasks of others, or in a destructor of a thread-local, and threads that wait on in
//! one that has ended.

use super::{in_time, one};
use std::cell::RefCell;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::sync::oneshot;
use warpweft::time::{interval, sleep, timeout};
use warpweft::{GracefulShutdown, Pool, Runtime, SpawnBlocking, fiber, spawn_blocking};

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(1000);

/// One worker that no monitor replaces.
fn alone() -> Runtime {
    let builder = Runtime::builder().workers(1).stuck_after(None);
    builder.build().expect("one worker")
}

/// A task of one runtime ends another one, a job of which waits for a fiber of the first one that waits on
/// the same thread.
fn ends_while_it_is_waited_for(end: fn(Runtime)) {
    for as_fiber in [true, false] {
        in_time(move || {
            let (first, second) = (alone(), alone());
            let (go, gone) = oneshot::channel::<()>();
            let waits = first.spawn_fiber(move || {
                fiber::wait(async { gone.await.ok() });
                5
            });
            let (began, begun) = mpsc::channel();
            let job = second.spawn_job(move || {
                began.send(()).expect("the test waits");
                thread::sleep(SHORT);
                go.send(()).expect("the fiber waits");
                waits.wait()
            });
            begun.recv().expect("the job runs");
            let ends = if as_fiber {
                first.spawn_fiber(move || end(second))
            } else {
                first.spawn(async move { end(second) })
            };
            ends.wait().expect("it ends");
            assert_eq!(
                job.wait()
                    .expect("it runs to its end")
                    .expect("the fiber goes on"),
                5
            );
        });
    }
}

#[test]
fn a_task_that_drops_another_runtime_lets_its_worker_go_on() {
    ends_while_it_is_waited_for(drop);
}

#[test]
fn a_task_that_ends_another_runtime_in_time_lets_its_worker_go_on() {
    ends_while_it_is_waited_for(|runtime| runtime.shutdown_timeout(LONG).expect("the job ends"));
}

#[test]
fn a_task_that_ends_another_runtime_gracefully_lets_its_worker_go_on() {
    ends_while_it_is_waited_for(|runtime| {
        let end = GracefulShutdown::within(LONG).drain_for(LONG);
        runtime.shutdown_gracefully(&end).expect("the job ends");
    });
}

thread_local! {
    static OWNED: RefCell<Option<Arc<Runtime>>> = const { RefCell::new(None) };
}

/// The thread is joined by the runtime that it ends.
#[test]
fn a_thread_local_of_a_runtimes_own_thread_may_hold_its_last_handle() {
    in_time(|| {
        let runtime = Arc::new(one());
        let (left, pool) = (Arc::downgrade(&runtime), runtime.first().clone());
        let owned = Arc::clone(&runtime);
        runtime
            .spawn_job(move || OWNED.set(Some(owned)))
            .wait()
            .expect("it runs");
        drop(runtime);
        let shuts_down = || OWNED.with_borrow(|owned| owned.as_ref().map(|owned| owned.shutdown()));
        let end = pool.spawn_job(shuts_down).wait();
        assert!(end.expect("it runs to its end").is_some(), "on the same thread");
        while left.strong_count() > 0 {
            thread::sleep(SHORT);
        }
    });
}

#[test]
fn a_thread_of_the_program_waits_for_a_runtime_that_it_has_left() {
    in_time(|| {
        let (send, threads) = mpsc::channel::<warpweft::PoolThread>();
        let send = std::sync::Mutex::new(send);
        let builder = Runtime::builder().workers(1).start_threads(move |thread| {
            let send = send.lock().map_err(|_| std::io::ErrorKind::Other)?;
            send.send(thread).map_err(std::io::Error::other)
        });
        let runtime = Arc::new(builder.build().expect("one worker"));
        let (tell, told) = mpsc::channel();
        let waits = move || {
            tell.send(false).expect("the test waits");
            thread::sleep(5 * SHORT);
            tell.send(true).expect("the test waits");
        };
        drop(runtime.try_spawn_blocking(waits).expect("a thread"));
        told.recv().expect("the closure has begun");
        let closes = Arc::clone(&runtime);
        drop(runtime.spawn_job(move || closes.shutdown()));
        // It runs here until the pool is closed, by a task.
        threads.recv().expect("the pool starts one").run();
        drop(runtime);
        assert_eq!(told.try_recv(), Ok(true), "the closure has run to its end");
    });
}

/// Ends a runtime in which this thread waits.
fn ended_meanwhile(wait: impl Future<Output = ()>) {
    let runtime = Arc::new(one());
    let ended = Arc::clone(&runtime);
    let end = thread::spawn(move || {
        thread::sleep(SHORT);
        ended.shutdown();
    });
    runtime.block_on(async {
        // This one begins before the end.
        sleep(5 * SHORT).await;
        end.join().expect("the runtime has ended");
        wait.await;
    });
}

#[test]
fn no_wait_ends_early_in_a_runtime_that_has_ended() {
    in_time(|| {
        let begin = Instant::now();
        ended_meanwhile(async {
            assert!(begin.elapsed() >= 5 * SHORT);
            let later = Instant::now();
            sleep(SHORT).await;
            assert!(later.elapsed() >= SHORT);
            let in_time = timeout(LONG, sleep(SHORT)).await;
            assert!(in_time.is_ok(), "the limit has not passed");
            let mut ticks = interval(SHORT);
            let later = Instant::now();
            for _ in 0..3 {
                ticks.tick().await;
            }
            assert!(later.elapsed() >= 2 * SHORT);
        });
    });
}

/// The future is made outside of the runtime in which it is awaited.
#[test]
fn a_closure_that_blocks_runs_where_it_is_awaited() {
    let runtime = Runtime::builder()
        .workers(1)
        .name("here")
        .build()
        .expect("one worker");
    let name = || Pool::current().map(|pool| pool.name().to_owned());
    let future: SpawnBlocking<_, _> = spawn_blocking(name);
    assert_eq!(
        runtime.block_on(future).expect("it runs").as_deref(),
        Some("here")
    );
    let admitted = spawn_blocking(name).admitted();
    let name = runtime.block_on(async { admitted.await.expect("a thread").await });
    assert_eq!(name.expect("it runs").as_deref(), Some("here"));
}
