//! Spawns that wait for a permit: of each kind, by each type, with a priority, and with admission by delay.

use super::of;
use std::future::ready;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use warpweft::sync::oneshot;
use warpweft::{EnterError, JoinHandle, QueueDelay, Runtime, TaskBuilder, time};
use warpweft_platform::sync::Mutex;

const TARGET: Duration = Duration::from_millis(2);
/// The overload lasts for so long after a refusal: longer than the refusals take together.
const INTERVAL: Duration = Duration::from_secs(1);

type Spawned<T> = Result<JoinHandle<T>, EnterError>;

/// Spawns each kind of task on the first pool, one after the other, with a permit.
async fn each_kind(runtime: &Runtime) -> [Spawned<u32>; 5] {
    let builder = || TaskBuilder::new().name("waits").on(runtime);
    [
        builder().spawn_with_permit(ready(1)).await,
        builder().spawn_job_with_permit(|| 2).await,
        builder().spawn_fiber_with_permit(|| 3).await,
        builder().spawn_local_with_permit(|| ready(4)).await,
        builder().spawn_within(Duration::from_secs(100), ready(5)).await,
    ]
}

#[test]
fn each_kind_of_task_waits_for_a_permit_and_has_it() {
    for (workers, capacity) in [(1, Some(1)), (2, Some(1)), (2, Some(2)), (1, None)] {
        let builder = of(workers, "fifo");
        let builder = match capacity {
            Some(tasks) => builder.capacity(tasks),
            None => builder,
        };
        let runtime = builder.build().expect("a small pool");
        let before = line!();
        let tasks = runtime.block_on(each_kind(&runtime));
        for (number, task) in (1..).zip(tasks) {
            let task = task.expect("it is open");
            assert_eq!(task.info().name(), Some("waits"));
            assert!(
                task.info().location().line() < before,
                "the site is that of the builder"
            );
            assert_eq!(task.wait().ok(), Some(number));
        }
        assert_eq!(runtime.first().free_places(), capacity);
    }
}

#[test]
fn each_kind_of_task_has_the_permit_while_it_runs() {
    let runtime = of(1, "fifo").capacity(1).build().expect("a small pool");
    let pool = runtime.first().clone();
    let free = move || pool.free_places();
    let (of_future, of_job, of_fiber, of_local) = (free.clone(), free.clone(), free.clone(), free.clone());
    let builder = || TaskBuilder::new().on(&runtime);
    runtime.block_on(async {
        for task in [
            builder().spawn_with_permit(async move { of_future() }).await,
            builder().spawn_job_with_permit(of_job).await,
            builder().spawn_fiber_with_permit(of_fiber).await,
            builder().spawn_local_with_permit(move || ready(of_local())).await,
        ] {
            assert_eq!(task.expect("it is open").await.ok(), Some(Some(0)));
        }
    });
    assert_eq!(free(), Some(1));
}

#[test]
fn what_gives_up_waiting_is_dropped_and_takes_no_permit() {
    let runtime = of(1, "fifo").capacity(1).build().expect("a small pool");
    let (open, gate) = oneshot::channel::<()>();
    let holds = runtime.try_spawn(gate).expect("it is free");
    let builder = || TaskBuilder::new().on(&runtime);
    let limit = runtime.first().concurrency_limit(1).expect("a limit");
    runtime.block_on(async {
        let full = EnterError::Full {
            pool: String::from("warpweft"),
            capacity: 1,
        };
        let refused = builder().spawn_within(TARGET, async {}).await;
        assert_eq!(refused.map(drop), Err(full.clone()));
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let waits = builder().spawn_job_with_permit(move || drop(held));
        assert!(time::timeout(TARGET, waits).await.is_err());
        assert_eq!(Arc::strong_count(&alive), 1);
        // The limit has a permit, and the pool has none.
        assert_eq!(limit.spawn_within(TARGET, async {}).await.map(drop), Err(full));
        assert_eq!(limit.free(), 1);
    });
    open.send(()).expect("it waits");
    assert!(holds.wait().is_ok());
    assert_eq!(runtime.first().free_places(), Some(1));
}

#[test]
fn a_source_of_a_limit_waits_for_both_permits() {
    let runtime = of(1, "fifo").capacity(2).build().expect("a small pool");
    let limit = runtime.first().concurrency_limit(1).expect("a limit");
    let (open, gate) = oneshot::channel::<()>();
    runtime.block_on(async {
        let first = limit.spawn_with_permit(gate).await.expect("it is free");
        let error = limit.spawn_within(TARGET, async {}).await.map(drop);
        let error = error.expect_err("the limit is reached");
        assert!(matches!(error, EnterError::AtLimit { limit: 1, .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            "as many tasks run as a limit of 1 at a time in pool `warpweft` admits: come back later, or wait for it \
             without a limit of time"
        );
        assert_eq!(runtime.first().free_places(), Some(1));
        let second = limit.spawn_with_permit(async { 2 });
        open.send(()).expect("it waits");
        assert_eq!(second.await.expect("the first one ends").await.ok(), Some(2));
        assert!(first.await.is_ok());
    });
    assert_eq!(runtime.first().free_places(), Some(2));
}

/// A task that waited for its permit comes with its priority before those that were pushed meanwhile.
#[test]
fn a_priority_reaches_what_waited() {
    let runtime = of(1, "priority:3")
        .stuck_after(None)
        .build()
        .expect("a small pool");
    let urgent = runtime.priority(0).expect("there are three");
    let order = Arc::new(Mutex::new(Vec::new()));
    let push = |what: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().push(what)
    };
    let (first, second, third) = (push("plain"), push("urgent job"), push("urgent fiber"));
    let builder = || TaskBuilder::new().on(&runtime).priority(urgent);
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let holds = runtime.spawn_job(move || {
        drop(tell);
        let _ = released.recv();
    });
    let _ = told.recv();
    let plain = runtime.spawn_job(first);
    let tasks = runtime.block_on(async {
        [
            builder().spawn_job_with_permit(second).await.expect("open"),
            builder().spawn_fiber_with_permit(third).await.expect("open"),
        ]
    });
    drop(release);
    for task in [holds, plain].into_iter().chain(tasks) {
        task.wait().expect("no panic");
    }
    assert_eq!(*order.lock(), ["urgent job", "urgent fiber", "plain"]);
}

#[test]
fn what_waits_for_a_permit_asks_for_admission() {
    let delay = QueueDelay::new().target(TARGET).interval(INTERVAL);
    let builder = of(1, "priority:2").name("web").stuck_after(None);
    let runtime = builder
        .capacity(20)
        .admission(delay)
        .build()
        .expect("a small pool");
    let pool = runtime.first().clone();
    let limit = pool.concurrency_limit(5).expect("a limit");
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel::<()>();
    runtime.spawn_detached(move || {
        drop(tell);
        let _ = released.recv();
    });
    let _ = told.recv();
    let (waiting, refused) = runtime.block_on(async {
        let waiting = each_kind(&runtime).await;
        thread::sleep(TARGET + INTERVAL);
        let mut refused: Vec<_> = each_kind(&runtime).await.into_iter().collect();
        refused.push(pool.spawn_with_permit(ready(6)).await);
        refused.push(pool.spawn_within(TARGET, ready(7)).await);
        refused.push(limit.spawn_with_permit(ready(8)).await);
        refused.push(limit.spawn_within(TARGET, ready(9)).await);
        (waiting, refused)
    });
    for refused in refused {
        let error = refused.map(drop).expect_err("nothing starts");
        assert!(matches!(error, EnterError::Overloaded(_)), "{error:?}");
        assert!(
            error.to_string().starts_with("the pool `web` is overloaded: "),
            "{error}"
        );
    }
    assert_eq!((pool.free_places(), limit.free()), (Some(15), 5));
    let stats = pool.admission().expect("the builder says so").stats();
    assert_eq!((stats.admitted, stats.refused, stats.waiting), (5, 9, 5));
    // Another class is not overloaded.
    let urgent = TaskBuilder::new()
        .on(&runtime)
        .priority(runtime.priority(0).expect("there are two"));
    let urgent = runtime.block_on(urgent.spawn_with_permit(ready(10)));
    drop(release);
    let waiting = waiting.into_iter().chain([urgent]);
    for task in waiting {
        assert!(task.expect("no overload").wait().is_ok());
    }
    let stats = pool.admission().expect("the builder says so").stats();
    assert_eq!(stats.waiting, 0, "each says that it starts");
}
