//! Bounded pools, and limits of concurrency.

use super::{here, of};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use warpweft::policy::Count;
use warpweft::sync::Semaphore;
use warpweft::{EnterError, JoinError, JoinHandle, Pool, SpawnError, block_on, stage, time, yield_now};

/// As long as a wait that must be refused may take.
const LONG: Duration = Duration::from_secs(5);

#[test]
fn a_bounded_pool_never_has_more_than_it_may() {
    for workers in [1, 2, 4] {
        let runtime = stage("first", of(workers, "fifo"))
            .then("second", of(workers, "lifo").capacity(3))
            .then("third", of(workers, "fifo").capacity(2))
            .build()
            .expect("small pools");
        let [second, third] =
            ["second", "third"].map(|name| runtime.pool(name).expect("it is there").clone());
        let inside = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let tasks: Vec<_> = (0..40)
            .map(|n| {
                let (second, third, inside) = (second.clone(), third.clone(), Arc::clone(&inside));
                runtime.spawn(async move {
                    second.enter().await.expect("it is open");
                    assert!(inside[0].fetch_add(1, Ordering::Relaxed) < 3);
                    yield_now().await;
                    inside[0].fetch_sub(1, Ordering::Relaxed);
                    if n % 3 == 0 {
                        return;
                    }
                    third.enter().await.expect("it is open");
                    assert!(inside[1].fetch_add(1, Ordering::Relaxed) < 2);
                    time::sleep(Duration::from_micros(100)).await;
                    inside[1].fetch_sub(1, Ordering::Relaxed);
                    assert!(n % 3 != 1, "some panic, and give their place back all the same");
                })
            })
            .collect();
        let panics = tasks
            .into_iter()
            .map(JoinHandle::wait)
            .filter(Result::is_err)
            .count();
        assert_eq!(panics, 13);
        assert_eq!((second.free_places(), third.free_places()), (Some(3), Some(2)));
        assert_eq!((second.capacity(), runtime.first().capacity()), (Some(3), None));
    }
}

#[test]
fn full_stages_hold_up_those_before_them() {
    let runtime = stage("source", of(1, "fifo"))
        .then("middle", of(1, "fifo").capacity(1))
        .then("sink", of(1, "fifo").capacity(1))
        .build()
        .expect("small pools");
    let [middle, sink] = ["middle", "sink"].map(|name| runtime.pool(name).expect("it is there").clone());
    let gate = Arc::new(Semaphore::new(0));
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let (middle, sink, gate) = (middle.clone(), sink.clone(), Arc::clone(&gate));
            runtime.spawn(async move {
                middle.enter().await.expect("it is open");
                sink.enter().await.expect("it is open");
                drop(gate.acquire(1).await);
            })
        })
        .collect();
    // One in the sink; one in the middle, which waits for the sink and keeps its permit; one in the source.
    while (middle.free_places(), sink.free_places()) != (Some(0), Some(0))
        || sink.counters().total().get(Count::Suspensions) == 0
    {
        std::thread::yield_now();
    }
    let late = middle.clone();
    let refused = runtime.spawn(async move { late.try_enter().await });
    let error = refused.wait().expect("no panic").expect_err("it is full");
    let (pool, capacity) = (String::from("middle"), 1);
    assert_eq!(
        error.to_string(),
        "the one place of the bounded pool `middle` is taken: come back later, or wait for one without a \
         limit, by `enter` or `spawn_with_permit`"
    );
    assert_eq!(
        error,
        EnterError::Full {
            pool: pool.clone(),
            capacity
        }
    );
    let full = SpawnError::Full { pool, capacity };
    assert_eq!(
        full.to_string(),
        "the one place of the bounded pool `middle` is taken: wait for one by `spawn_with_permit`, or spawn \
         fewer"
    );
    assert_eq!(middle.try_spawn(async {}).map(drop), Err(full.clone()));
    assert_eq!(middle.try_spawn_job(|| ()).map(drop), Err(full));
    assert!(tasks.iter().all(|task| !task.is_finished()));
    gate.add(1);
    for task in tasks {
        task.wait().expect("no panic");
    }
    assert_eq!((middle.free_places(), sink.free_places()), (Some(1), Some(1)));
}

#[test]
fn who_has_a_place_cannot_wait_for_one_before_it() {
    for workers in [1, 2, 4] {
        let runtime = stage("a", of(workers, "fifo").capacity(1))
            .then("b", of(workers, "fifo").capacity(1))
            .build()
            .expect("small pools");
        let [a, b] = ["a", "b"].map(|name| runtime.pool(name).expect("it is there").clone());
        let error = EnterError::OutOfOrder {
            from: String::from("b"),
            to: String::from("a"),
        };
        let (there, back) = (b.clone(), a.clone());
        let task = runtime.spawn(async move {
            there.enter().await.expect("it is open");
            let refused = back.enter().await;
            assert_eq!(back.run(|| ()), refused);
            assert_eq!(
                back.spawn_with_permit(async {}).await.err(),
                refused.clone().err()
            );
            back.try_enter().await.expect("there is a place");
            (refused, back.is_here())
        });
        assert_eq!(task.wait().expect("no panic"), (Err(error), true));
        // Its own pool, too, may be full of tasks that wait for a permit of it.
        let own = a.clone();
        let twice = a.try_spawn(async move { own.spawn_within(LONG, async {}).await.err() });
        let error = twice.expect("there is a place").wait().expect("no panic");
        let pool = String::from("a");
        assert_eq!(error, Some(EnterError::OwnPool { pool }));
        // A pool of another runtime has no order with this one's.
        let other = stage("other", of(1, "fifo").capacity(1))
            .build()
            .expect("a small pool");
        let elsewhere = other.first().clone();
        let stranger = a.try_spawn(async move { elsewhere.enter().await });
        assert!(matches!(
            stranger.expect("there is a place").wait().expect("no panic"),
            Err(EnterError::OutOfOrder { .. })
        ));
        assert!(
            a.spawn_job(move || b.run(|| ()))
                .wait()
                .expect("no panic")
                .is_ok()
        );
    }
}

/// Spawns ten tasks of `pool`, each with a permit, and returns how many there were at a time at most.
async fn accept(pool: Pool) -> Result<usize, EnterError> {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..10 {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        let handler = async move {
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            yield_now().await;
            now.fetch_sub(1, Ordering::Relaxed);
        };
        pool.spawn_with_permit(handler).await?.detach();
    }
    Ok(most.load(Ordering::Relaxed))
}

#[test]
fn who_has_no_place_may_wait_for_one_of_its_own_pool() {
    for workers in [1, 2, 4] {
        let runtime = of(workers, "fifo").capacity(2).build().expect("a small pool");
        let pool = runtime.first().clone();
        let source = || accept(pool.clone());
        let (for_job, for_fiber) = (source(), source());
        // Others sleep there, without a place, so that there is something to look through.
        let sleepers: Vec<_> = (0..200)
            .map(|_| pool.spawn(std::future::pending::<()>()))
            .collect();
        let most = [
            pool.spawn(source()).wait(),
            pool.spawn_job(move || block_on(for_job)).wait(),
            pool.spawn_fiber(move || block_on(for_fiber)).wait(),
            pool.install(|_| block_on(source()))
                .map_err(|_| JoinError::Shutdown),
        ];
        for most in most {
            let most = most.expect("no panic").expect("it has no place");
            assert!((1..=2).contains(&most), "{most}");
        }
        drop(sleepers);
    }
}

#[test]
fn who_has_a_place_cannot_wait_for_another_one_of_its_pool() {
    for workers in [1, 2] {
        let runtime = of(workers, "fifo").capacity(1).build().expect("a small pool");
        let pool = runtime.first().clone();
        let (for_job, for_fiber, for_local) = (pool.clone(), pool.clone(), pool.clone());
        let wants = move |pool: Pool| async move {
            // Also after it has slept, and after it was woken.
            time::sleep(Duration::from_micros(100)).await;
            pool.spawn_within(LONG, async {}).await.map(drop)
        };
        let refused = [
            pool.try_spawn(wants(pool.clone())).expect("free").wait(),
            pool.try_spawn_job(move || block_on(wants(for_job)))
                .expect("free")
                .wait(),
            pool.try_spawn_fiber(move || block_on(wants(for_fiber)))
                .expect("free")
                .wait(),
            pool.try_spawn_local(move || wants(for_local))
                .expect("free")
                .wait(),
            // The caller waits, and has the permit for the closure.
            Ok(pool.run(|| block_on(wants(pool.clone()))).expect("free")),
            // A part of a task that has one, wherever it runs.
            pool.try_spawn_job({
                let pool = pool.clone();
                move || warpweft::join(|| block_on(wants(pool.clone())), || block_on(wants(pool.clone())))
            })
            .expect("free")
            .wait()
            .map(|(first, second)| match second {
                Err(EnterError::OwnPool { .. }) => first,
                other => other,
            }),
        ];
        for refused in refused {
            let error = refused.expect("no panic").expect_err("it would wait for itself");
            assert_eq!(
                error,
                EnterError::OwnPool {
                    pool: String::from("warpweft")
                }
            );
            let text = error.to_string();
            assert!(
                text.contains("`warpweft`") && text.contains("for itself for ever"),
                "{text}"
            );
        }
        assert_eq!(pool.free_places(), Some(1));
    }
}

#[test]
fn who_has_a_place_behind_many_sleepers_cannot_wait_for_another_one() {
    let runtime = of(1, "fifo").capacity(600).build().expect("a small pool");
    let pool = runtime.first().clone();
    let sleepers: Vec<_> = (0..599)
        .map(|_| pool.try_spawn(std::future::pending::<()>()).expect("free"))
        .collect();
    let own = pool.clone();
    let last = pool.try_spawn(async move { own.spawn_within(LONG, async {}).await.map(drop) });
    let error = last.expect("free").wait().expect("no panic");
    assert!(matches!(error, Err(EnterError::OwnPool { .. })), "{error:?}");
    drop(sleepers);
}

#[test]
fn a_source_waits_until_there_is_room() {
    for workers in [1, 2, 4] {
        let runtime = stage("parse", of(workers, "fifo").capacity(2))
            .build()
            .expect("a small pool");
        let parse = runtime.first();
        let inside = Arc::new(AtomicUsize::new(0));
        let handles = runtime.block_on(async {
            let mut handles = Vec::new();
            for n in 0..50 {
                let inside = Arc::clone(&inside);
                let task = parse.spawn_with_permit(async move {
                    assert!(inside.fetch_add(1, Ordering::Relaxed) < 2);
                    yield_now().await;
                    inside.fetch_sub(1, Ordering::Relaxed);
                    n
                });
                handles.push(task.await.expect("it is open"));
            }
            handles
        });
        let sum: u32 = handles
            .into_iter()
            .map(|task| task.wait().expect("no panic"))
            .sum();
        assert_eq!((sum, parse.free_places()), (1225, Some(2)));
        let one = parse.try_spawn(async { 1 }).expect("there is room");
        assert_eq!(one.wait().expect("no panic"), 1);
        let one = parse.try_spawn_job(|| 1).expect("there is room");
        assert_eq!(one.wait().expect("no panic"), 1);
        assert_eq!(parse.free_places(), Some(2));
    }
}

#[test]
fn closing_tells_those_who_wait_for_a_place() {
    let target = stage("target", of(1, "fifo").capacity(1))
        .build()
        .expect("a small pool");
    let runtime = of(1, "fifo").build().expect("a small pool");
    let pool = target.first().clone();
    let blocker = pool
        .try_spawn(std::future::pending::<()>())
        .expect("there is room");
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let pool = pool.clone();
            runtime.spawn(async move { pool.enter().await })
        })
        .collect();
    let thread = {
        let pool = pool.clone();
        std::thread::spawn(move || pool.run(|| ()))
    };
    while runtime.counters().total().get(Count::Suspensions) < 3 {
        std::thread::yield_now();
    }
    drop(target);
    for task in tasks {
        assert_eq!(task.wait().expect("no panic"), Err(EnterError::Closed));
    }
    assert_eq!(thread.join().expect("no panic"), Err(EnterError::Closed));
    assert!(matches!(blocker.wait(), Err(JoinError::Shutdown)));
}

#[test]
fn a_source_that_was_given_a_permit_of_a_closed_pool_spawns_nothing() {
    let runtime = of(1, "fifo").capacity(1).build().expect("a small pool");
    let pool = runtime.first().clone();
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let first = pool.try_spawn(async move { opened.acquire(1).await.is_ok() });
    let mut source = pin!(pool.spawn_with_permit(async {}));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(source.as_mut().poll(&mut cx).is_pending());
    // The end of the first task gives it the permit, and the pool closes before it looks.
    gate.add(1);
    assert!(first.expect("there is room").wait().expect("no panic"));
    drop(runtime);
    let spawned = source.as_mut().poll(&mut cx).map_ok(drop);
    assert_eq!(spawned, Poll::Ready(Err(EnterError::Closed)));
}

#[test]
fn a_concurrency_limit_admits_n_at_a_time() {
    for workers in [1, 2, 4] {
        let runtime = of(workers, "fifo").build().expect("a small pool");
        let concurrency_limit = runtime.first().concurrency_limit(2).expect("two at a time");
        let inside = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..30)
            .map(|n| {
                let inside = Arc::clone(&inside);
                concurrency_limit.spawn(async move {
                    assert!(inside.fetch_add(1, Ordering::Relaxed) < 2);
                    yield_now().await;
                    inside.fetch_sub(1, Ordering::Relaxed);
                    assert!(n % 5 != 0, "some panic");
                    n
                })
            })
            .collect();
        let cancelled = concurrency_limit.spawn(std::future::pending::<()>());
        cancelled.cancel();
        let ends: Vec<_> = tasks.into_iter().map(JoinHandle::wait).collect();
        assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 24);
        let job = concurrency_limit.spawn_job(here);
        assert_eq!(job.wait().expect("no panic"), runtime.name());
        assert!(cancelled.wait().is_err());
        assert_eq!(
            (
                concurrency_limit.free(),
                concurrency_limit.limit(),
                concurrency_limit.pool() == runtime.first()
            ),
            (2, 2, true)
        );
    }
}
