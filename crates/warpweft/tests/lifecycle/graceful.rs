//! Shutdowns that let the work end first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use warpweft::cancel::CancelToken;
use warpweft::sync::{Barrier, oneshot};
use warpweft::time::sleep;
use warpweft::{
    BlockingError, GracefulShutdown, JoinError, Remaining, Runtime, ShutdownStep, SpawnError, TaskBuilder,
    block_on, spawn, spawn_blocking, spawn_job, yield_now,
};

/// Long after all that these tests wait for.
const LONG: Duration = Duration::from_secs(30);
/// Too long for any of the tests.
const NEVER: Duration = Duration::from_secs(100_000);

fn two_pools() -> Runtime {
    Runtime::builder()
        .workers(2)
        .then("second", Runtime::builder().workers(1))
        .build()
        .expect("a runtime")
}

/// What is spawned, and what has ended.
#[derive(Default)]
struct Work {
    spawned: AtomicUsize,
    ended: AtomicUsize,
}

/// Spawns work of each kind, from work of each kind, until `depth` is 0.
fn go_on(work: &Arc<Work>, second: &warpweft::Pool, depth: usize, seed: usize) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    work.spawned.fetch_add(1, Relaxed);
    let (work, next) = (Arc::clone(work), second.clone());
    let ends = move || {
        go_on(&work, &next, depth, seed / 6);
        work.ended.fetch_add(1, Relaxed);
    };
    match seed % 6 {
        0 => spawn_job(ends).detach(),
        1 => second.spawn_job(ends).detach(),
        2 => spawn(async move {
            yield_now().await;
            sleep(Duration::from_micros(50)).await;
            ends();
        })
        .detach(),
        3 => warpweft::fiber::spawn(move || {
            block_on(sleep(Duration::from_micros(50)));
            ends();
        })
        .detach(),
        4 => match warpweft::try_spawn_blocking(ends) {
            Ok(handle) => handle.detach(),
            Err(refused) => panic!("there is room: {refused}"),
        },
        _ => spawn_job(move || {
            warpweft::blocking(|| thread::sleep(Duration::from_micros(20)));
            let (sender, receiver) = oneshot::channel();
            let helper = spawn_job(move || sender.send(()));
            receiver.wait().expect("it is sent");
            helper.wait().expect("no panic").expect("it is received");
            ends();
        })
        .detach(),
    }
}

#[test]
fn what_the_work_spawns_is_waited_for_too() {
    for round in 0..300 {
        let runtime = two_pools();
        let work = Arc::new(Work::default());
        let second = runtime.pool("second").expect("it is there").clone();
        for n in 0..3 {
            let (work, second) = (Arc::clone(&work), second.clone());
            let seed = round * 7919 + n * 104_729;
            runtime.spawn_detached(move || go_on(&work, &second, 8, seed));
        }
        let ended = runtime.shutdown_gracefully(&GracefulShutdown::within(LONG));
        assert_eq!(ended, Ok(ShutdownStep::Drained));
        assert_eq!(work.spawned.load(Relaxed), 24);
        assert_eq!(work.ended.load(Relaxed), 24);
    }
}

#[test]
fn nothing_is_accepted_from_outside_meanwhile() {
    let runtime = two_pools();
    let (first, second) = (
        runtime.first().clone(),
        runtime.pool("second").expect("there").clone(),
    );
    let (go, waits) = oneshot::channel::<()>();
    let other = second.clone();
    let task = runtime.spawn(async move {
        waits.await.expect("the test goes on");
        // From inside, into both pools and to the threads for closures that block.
        let inner = spawn(async { 1 }).await? + other.spawn(async { 2 }).await?;
        Ok::<_, JoinError>(inner + spawn_blocking(|| 3).await? + second_try(&other).await)
    });
    let ends = begin(runtime, GracefulShutdown::within(LONG));
    assert!(!first.is_closed(), "the task is not over");
    for pool in [&first, &second] {
        assert_eq!(pool.try_spawn_job(|| ()).err(), Some(SpawnError::Closed));
        assert!(matches!(pool.spawn_job(|| ()).wait(), Err(JoinError::Shutdown)));
        assert!(matches!(pool.spawn(async {}).wait(), Err(JoinError::Shutdown)));
        assert!(pool.run(|| ()).is_err());
    }
    let pinned = TaskBuilder::new().on_pool(&first).spawn_pinned(0, || ());
    assert!(matches!(pinned.wait(), Err(JoinError::Shutdown)));
    let strange = Runtime::builder().workers(1).build().expect("another runtime");
    let from_there = first.clone();
    let refused = strange.spawn_job(move || from_there.try_spawn_job(|| ()).err());
    assert_eq!(refused.wait().expect("no panic"), Some(SpawnError::Closed));
    go.send(()).expect("it waits");
    assert_eq!(
        task.wait()
            .expect("it was not dropped")
            .expect("nor what it spawned"),
        10
    );
    assert_eq!(ends.join().expect("no panic"), Ok(ShutdownStep::Drained));
    assert!(first.is_closed());
}

/// A spawn that can be refused, from inside.
async fn second_try(pool: &warpweft::Pool) -> i32 {
    match pool.try_spawn(async { 4 }) {
        Ok(task) => task.await.expect("no panic"),
        Err(error) => panic!("refused: {error}"),
    }
}

/// Shuts down on another thread, and returns when that has begun.
fn begin(
    runtime: Runtime,
    shutdown: GracefulShutdown,
) -> thread::JoinHandle<Result<ShutdownStep, Remaining>> {
    // The pools begin one after the other.
    let last = runtime.pools().last().expect("a pool").clone();
    let ends = thread::spawn(move || runtime.shutdown_gracefully(&shutdown));
    let start = Instant::now();
    while last.try_spawn_job(|| ()).is_ok() {
        assert!(start.elapsed() < LONG, "the shutdown begins");
        thread::yield_now();
    }
    ends
}

#[test]
fn closures_that_block_are_waited_for_and_not_accepted_from_outside() {
    let runtime = two_pools();
    let (release, waits) = mpsc::channel::<()>();
    let closure = runtime
        .try_spawn_blocking(move || waits.recv())
        .expect("there is room");
    // Not admitted before it is awaited.
    let late = runtime.spawn_blocking(|| ());
    let admission = runtime.spawn_blocking(|| ()).admitted();
    let ends = begin(runtime, GracefulShutdown::within(LONG));
    assert!(matches!(late.wait(), Err(JoinError::Shutdown)));
    let refused = block_on(admission).expect_err("not from outside");
    assert!(matches!(refused.error(), BlockingError::Closed));
    thread::sleep(Duration::from_millis(20));
    assert!(!ends.is_finished(), "the closure runs");
    drop(release);
    assert!(closure.wait().expect("no panic").is_err());
    assert_eq!(ends.join().expect("no panic"), Ok(ShutdownStep::Drained));
}

#[test]
fn what_does_not_end_by_itself_is_cancelled_and_then_dropped() {
    let token = CancelToken::new().with_grace(LONG);
    let runtime = two_pools();
    let begun = Arc::new(Barrier::new(3));
    let (listens, begins) = (token.clone(), Arc::clone(&begun));
    let polite = runtime.spawn(token.run_async(async move {
        // What has not begun has no grace.
        begins.arrive().await;
        listens.cancelled().await;
        sleep(Duration::from_millis(5)).await;
        "goodbye"
    }));
    let fiber = {
        let (token, begins) = (token.clone(), Arc::clone(&begun));
        runtime.spawn_fiber(move || {
            token.run(|| {
                begins.arrive().wait();
                block_on(sleep(NEVER));
            })
        })
    };
    begun.arrive().wait();
    let loops = {
        let token = token.clone();
        runtime.spawn_job(move || token.run(|| warpweft::par_for(0..usize::MAX, 1, |_| ())))
    };
    let shutdown = GracefulShutdown::within(LONG)
        .drain_for(Duration::from_millis(20))
        .then_cancel(&token);
    assert_eq!(
        runtime.shutdown_gracefully(&shutdown),
        Ok(ShutdownStep::Cancelled)
    );
    assert_eq!(polite.wait().expect("not dropped"), Ok("goodbye"));
    assert!(fiber.wait().expect("not dropped").is_err());
    assert!(loops.wait().expect("not dropped").is_err());

    // A tenth of the limit is for the threads to end. A busy machine may stop one for longer than a tenth of
    // the first limit, and does not for a tenth of the second one.
    let are_dropped_within = |seconds| {
        let runtime = two_pools();
        let stays = runtime.spawn(sleep(NEVER));
        let ends = runtime.spawn(token.run_async(async {}));
        let limit = Duration::from_secs(seconds);
        let start = Instant::now();
        let shutdown = GracefulShutdown::within(limit).then_cancel(&token);
        let ended = runtime.shutdown_gracefully(&shutdown);
        assert!(start.elapsed() >= limit / 10 * 9, "both steps had their time");
        assert!(matches!(stays.wait(), Err(JoinError::Shutdown)));
        assert!(ends.wait().expect("it ended").is_err());
        ended.is_ok_and(|step| step == ShutdownStep::Dropped)
    };
    assert!([2, 20].into_iter().any(are_dropped_within));
}

#[test]
fn what_is_stuck_is_named_at_the_limit() {
    let runtime = two_pools();
    let (release, waits) = mpsc::channel::<()>();
    let (begins, begun) = mpsc::channel();
    let job = TaskBuilder::new().name("stuck").on(&runtime).spawn_job(move || {
        begins.send(()).expect("the test waits");
        waits.recv()
    });
    begun.recv().expect("it begins");
    let limit = Duration::from_millis(100);
    let start = Instant::now();
    let remaining = runtime
        .shutdown_gracefully(&GracefulShutdown::within(limit))
        .expect_err("a job is stuck");
    assert!(start.elapsed() >= limit && remaining.waited >= limit);
    assert!(remaining.to_string().contains("`stuck`"), "{remaining}");
    assert!(remaining.to_string().contains(file!()), "{remaining}");
    drop(release);
    assert!(job.wait().is_ok_and(|received| received.is_err()));
}

#[test]
fn a_task_does_not_wait_for_itself() {
    let runtime = two_pools();
    let (give, take) = mpsc::channel::<Runtime>();
    let own = runtime.spawn_job(move || {
        let runtime = take.recv().expect("the test sends it");
        runtime.shutdown_gracefully(&GracefulShutdown::within(NEVER))
    });
    give.send(runtime).expect("it waits");
    let left = own.wait();
    assert!(
        matches!(left, Ok(Err(_)) | Err(JoinError::Shutdown)),
        "it is told at once: {left:?}"
    );
}

#[test]
fn a_pool_that_polls_and_has_had_stuck_workers_becomes_quiet() {
    let runtime = Runtime::builder()
        .workers(2)
        .stuck_after(Some(Duration::from_millis(1)))
        .build()
        .expect("a runtime");
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            runtime.spawn_detached(|| thread::sleep(Duration::from_millis(30)));
            runtime.spawn(async {
                for _ in 0..20 {
                    sleep(Duration::from_millis(1)).await;
                }
            })
        })
        .collect();
    assert_eq!(
        runtime.shutdown_gracefully(&GracefulShutdown::within(LONG)),
        Ok(ShutdownStep::Drained)
    );
    for task in tasks {
        task.wait().expect("it was waited for");
    }
}
