//! Who has permits: circles through semaphores of several permits, permits that were lost, and full pools.

use super::{accusations, cycle, dump_with, named, runtime};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warpweft::sync::{Barrier, Mutex, Notify, RwLock, Semaphore};
use warpweft::time::sleep;
use warpweft::{ConcurrencyLimit, Dump, Finding, Runtime, TaskBuilder, TaskState, WaitDump, WaitsFor};

/// A neighbour that goes on for ever, so that the runtime is never idle.
fn beats(runtime: &Runtime) {
    drop(named(runtime, "beats").spawn(async {
        loop {
            sleep(Duration::from_millis(5)).await;
        }
    }));
}

/// The waits for permits of the tasks with that name.
fn waits_of<'a>(dump: &'a Dump, name: &'a str) -> impl Iterator<Item = &'a WaitDump> {
    let of_name = dump
        .tasks
        .iter()
        .filter(move |task| task.name.as_deref() == Some(name));
    of_name
        .flat_map(|task| &task.waits)
        .filter(|wait| matches!(wait.on, WaitsFor::Permits { .. }) && !wait.told)
}

/// Returns true if the first circle is uncertain.
fn is_uncertain(dump: &Dump) -> Option<bool> {
    dump.findings.iter().find_map(|finding| match finding {
        Finding::Cycle { uncertain, .. } => Some(*uncertain),
        _ => None,
    })
}

fn found(dump: &Dump) -> bool {
    cycle(dump).is_some()
}

/// Each of three tasks has one of three permits, and wants a second one.
#[test]
fn as_many_tasks_as_permits_and_each_wants_one_more() {
    for are_named in [true, false] {
        let runtime = ManuallyDrop::new(runtime(2));
        beats(&runtime);
        let (permits, all) = (Arc::new(Semaphore::new(3)), Arc::new(Barrier::new(3)));
        for name in ["one", "two", "three"] {
            let (permits, all) = (permits.clone(), all.clone());
            let builder = TaskBuilder::new().on(&runtime);
            let builder = if are_named { builder.name(name) } else { builder };
            drop(builder.spawn(async move {
                let _first = permits.acquire(1).await.expect("open");
                all.arrive().await;
                drop(permits.acquire(1).await);
            }));
        }
        let dump = dump_with("the circle", &runtime, |dump| {
            cycle(dump).is_some_and(|names| names.len() == 3)
        });
        // A task without a name may have the address of an earlier one.
        assert_eq!(is_uncertain(&dump), Some(!are_named), "{dump}");
        assert_eq!(dump.findings.len(), 1, "{dump}");
        let is_said_so = dump.to_string().contains("some of which are probably with #");
        assert_eq!(is_said_so, !are_named, "{dump}");
        if are_named {
            assert_eq!(
                cycle(&dump),
                Some(vec!["one".into(), "three".into(), "two".into()])
            );
            let text = dump.to_string();
            assert!(text.contains("depends on some of #"), "{text}");
            let json = dump.to_json();
            assert!(
                json.contains("\"held\":[1,1,1],\"missing\":1,\"absent\":0"),
                "{json}"
            );
        }
    }
}

/// As above, but one of the three sleeps, and gives its permit back.
#[test]
fn one_of_the_holders_is_enough() {
    let runtime = runtime(2);
    let (permits, all) = (Arc::new(Semaphore::new(3)), Arc::new(Barrier::new(3)));
    let stop = Arc::new(Notify::new());
    let task = |name, wants: bool| {
        let (permits, all, stop) = (permits.clone(), all.clone(), stop.clone());
        named(&runtime, name).spawn(async move {
            let _first = permits.acquire(1).await.expect("open");
            all.arrive().await;
            if wants {
                drop(permits.acquire(1).await.expect("open"));
            } else {
                stop.notified().await;
            }
        })
    };
    let tasks = [task("one", true), task("two", true), task("sleeps", false)];
    let dump = dump_with("both wait", &runtime, |dump| {
        waits_of(dump, "one").count() + waits_of(dump, "two").count() == 2
    });
    let wait = waits_of(&dump, "one").next().expect("it waits");
    assert_eq!(wait.holders.len(), 3, "all are known: {dump}");
    assert!(!wait.is_holder_missing, "{dump}");
    assert_eq!(accusations(&dump), [], "{dump}");
    stop.notify_one();
    tasks.into_iter().for_each(|task| task.wait().expect("no panic"));
}

/// Weights: without the three permits of one task, those of the other two do not suffice.
#[test]
fn a_request_that_needs_the_permits_of_one_of_them() {
    let runtime = ManuallyDrop::new(runtime(2));
    beats(&runtime);
    let (permits, lock) = (Arc::new(Semaphore::new(5)), Arc::new(Mutex::new(())));
    let (all, stop) = (Arc::new(Barrier::new(4)), Arc::new(Notify::new()));
    for (name, takes) in [("small", 1), ("other", 1), ("large", 3)] {
        let (permits, all, lock) = (permits.clone(), all.clone(), lock.clone());
        let stop = stop.clone();
        drop(named(&runtime, name).spawn(async move {
            let _some = permits.acquire(takes).await.expect("open");
            all.arrive().await;
            if takes == 3 {
                drop(lock.lock().await);
            } else {
                stop.notified().await;
            }
        }));
    }
    drop(named(&runtime, "wants").spawn(async move {
        let _guard = lock.lock().await;
        all.arrive().await;
        drop(permits.acquire(3).await);
    }));
    let dump = dump_with("the circle", &runtime, found);
    assert_eq!(cycle(&dump), Some(vec!["large".into(), "wants".into()]), "{dump}");
    assert_eq!(is_uncertain(&dump), Some(false), "{dump}");
}

/// Tasks end, and leave permits behind.
#[test]
fn permits_that_tasks_have_taken_with_them() {
    let runtime = runtime(2);
    let permits = Arc::new(Semaphore::new(3));
    let all = Arc::new(Barrier::new(3));
    let forget = |_| {
        let (permits, all) = (permits.clone(), all.clone());
        runtime.spawn(async move {
            let permit = permits.acquire(1).await.expect("open");
            all.arrive().await;
            std::mem::forget(permit);
        })
    };
    let tasks: Vec<_> = (0..3).map(forget).collect();
    tasks.into_iter().for_each(|task| task.wait().expect("no panic"));
    let wanted = permits.clone();
    let waits = named(&runtime, "waits").spawn(async move {
        assert!(wanted.acquire(1).await.is_err(), "it only closes");
    });
    // A worker may still have a task in its hands that has ended.
    let dump = dump_with("they are missing", &runtime, |dump| {
        waits_of(dump, "waits").any(|wait| wait.holders.is_empty() && wait.is_holder_missing)
    });
    let wait = waits_of(&dump, "waits").next().expect("it waits");
    assert!(
        matches!(
            wait.on,
            WaitsFor::Permits {
                absent: 3,
                missing: 1,
                free: 0,
                ..
            }
        ),
        "{dump}"
    );
    let text = dump.to_string();
    assert!(text.contains("3 permits with tasks that are not here"), "{text}");
    assert!(text.contains("not here: it has ended"), "{text}");
    permits.close();
    waits.wait().expect("no panic");
}

/// The first taker has ended with its permit. Another one lives and will give its own back.
#[test]
fn a_task_that_has_ended_is_not_said_to_have_some() {
    let runtime = runtime(2);
    let permits = Arc::new(Semaphore::new(2));
    let taken = permits.clone();
    let forgets = named(&runtime, "forgets").spawn(async move {
        std::mem::forget(taken.acquire(1).await.expect("open"));
    });
    forgets.wait().expect("no panic");
    let (has, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (taken, tells, stops) = (permits.clone(), has.clone(), stop.clone());
    let keeps = named(&runtime, "keeps").spawn(async move {
        let _permit = taken.acquire(1).await.expect("open");
        tells.notify_one();
        stops.notified().await;
    });
    has.notified().wait();
    let wanted = permits.clone();
    let waits = named(&runtime, "waits").spawn(async move {
        drop(wanted.acquire(1).await.expect("open"));
    });
    let dump = dump_with("it waits", &runtime, |dump| waits_of(dump, "waits").count() == 1);
    let wait = waits_of(&dump, "waits").next().expect("it waits");
    assert!(!wait.is_holder_missing, "the other one suffices: {dump}");
    let WaitsFor::Permits {
        ref owner, absent, ..
    } = wait.on
    else {
        panic!("{dump}")
    };
    let owner = owner.as_deref().unwrap_or_default();
    assert!(
        owner.contains("`keeps`") && absent == 1,
        "{owner} {absent}: {dump}"
    );
    assert!(!dump.to_string().contains("`forgets`"), "{dump}");
    stop.notify_one();
    keeps.wait().expect("no panic");
    waits.wait().expect("no panic");
}

/// A task of a full limit joins another task of the limit.
#[test]
fn a_limit_whose_tasks_wait_for_places_in_it() {
    type Spawn = fn(&ConcurrencyLimit, Inside);
    type Inside = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
    let ways: [Spawn; 4] = [
        |limit, inside| limit.spawn(inside).detach(),
        |limit, inside| limit.try_spawn(inside).expect("a place").detach(),
        |limit, inside| {
            let inside = || warpweft::block_on(inside);
            limit.try_spawn_fiber(inside).expect("a place").detach();
        },
        |limit, inside| limit.spawn_job(|| warpweft::block_on(inside)).detach(),
    ];
    for spawn in ways {
        let runtime = ManuallyDrop::new(runtime(3));
        beats(&runtime);
        let limit = runtime.first().concurrency_limit(2).expect("not 0");
        let both = Arc::new(Barrier::new(2));
        for _ in 0..2 {
            let (inner, both) = (limit.clone(), both.clone());
            spawn(
                &limit,
                Box::pin(async move {
                    both.arrive().await;
                    let _ = inner.spawn(async {}).await;
                }),
            );
        }
        let dump = dump_with("the circle", &runtime, found);
        assert_eq!(is_uncertain(&dump), Some(true), "they have no names: {dump}");
        assert!(
            dump.to_string().contains("of a concurrency limit (0 free"),
            "{dump}"
        );
    }
}

/// A task of a bounded pool joins a task elsewhere, which waits for a place in the pool.
#[test]
fn a_full_pool_whose_tasks_wait_for_who_wants_a_place() {
    let open = Runtime::builder().workers(1).name("open");
    let builder = open.then("narrow", Runtime::builder().workers(1).capacity(2));
    let runtime = ManuallyDrop::new(builder.build().expect("a runtime"));
    beats(&runtime);
    let narrow = runtime.pool("narrow").expect("it is there").clone();
    for _ in 0..2 {
        let target = narrow.clone();
        let outer = runtime.first().clone();
        let task = TaskBuilder::new().name("inside").on_pool(&narrow);
        let task = task.try_spawn(async move {
            let wants = TaskBuilder::new().name("wants").on_pool(&outer);
            let _ = wants
                .spawn(async move { target.spawn_with_permit(async {}).await.map(drop) })
                .await;
        });
        drop(task.expect("a place"));
    }
    let dump = dump_with("the circle", &runtime, found);
    assert_eq!(is_uncertain(&dump), Some(false), "{dump}");
    // One circle of four, or two of two.
    let mut stuck: Vec<_> = dump.findings.iter().flat_map(|it| it.tasks().to_vec()).collect();
    stuck.sort_unstable();
    stuck.dedup();
    let names = |&task: &usize| dump.tasks[task].name.as_deref();
    let inside = stuck.iter().filter_map(names).filter(|name| *name == "inside");
    assert_eq!((stuck.len(), inside.count()), (4, 2), "{dump}");
    assert!(
        dump.to_string()
            .contains("a place in pool `narrow` (capacity 2, all taken)"),
        "{dump}"
    );
}

/// A task ends with a permit, and the next one of the same site and name gets its memory.
#[test]
fn a_later_task_of_the_same_name_is_not_accused() {
    for are_named in [true, false] {
        let runtime = runtime(1);
        for _ in 0..100 {
            let permits = Arc::new(Semaphore::new(1));
            let task = || {
                let permits = permits.clone();
                let builder = TaskBuilder::new().on(&runtime);
                let builder = if are_named { builder.name("same") } else { builder };
                builder.spawn(async move {
                    if let Ok(permit) = permits.acquire(1).await {
                        std::mem::forget(permit);
                    }
                })
            };
            task().wait().expect("no panic");
            let waits = task();
            let is_waiting = |dump: &Dump| {
                // Its step has ended: until then the dump may see it in its queue and on its worker.
                let waiting = dump.tasks.iter().filter(|task| task.state == TaskState::Waiting);
                let waits = waiting.flat_map(|task| &task.waits);
                waits
                    .filter(|wait| matches!(wait.on, WaitsFor::Permits { .. }))
                    .count()
                    == 1
            };
            let dump = dump_with("it waits", &runtime, is_waiting);
            if are_named {
                assert!(!found(&dump), "{dump}");
                let wait = waits_of(&dump, "same").next().expect("it waits");
                assert!(wait.is_holder_missing, "{dump}");
            } else {
                assert_ne!(is_uncertain(&dump), Some(false), "{dump}");
            }
            permits.close();
            waits.wait().expect("no panic");
        }
    }
}

/// Two readers, and each wants to write.
#[test]
fn two_readers_that_want_to_write() {
    let runtime = ManuallyDrop::new(runtime(2));
    beats(&runtime);
    let (lock, both) = (Arc::new(RwLock::new(())), Arc::new(Barrier::new(2)));
    for name in ["left", "right"] {
        let (lock, both) = (lock.clone(), both.clone());
        drop(named(&runtime, name).spawn(async move {
            let _reader = lock.read().await;
            both.arrive().await;
            drop(lock.write().await);
        }));
    }
    let dump = dump_with("the circle", &runtime, found);
    // The first reader is known. It might have moved its guard to the other task, for all that is known.
    assert_eq!(is_uncertain(&dump), Some(true), "{dump}");
    assert_eq!(accusations(&dump).len(), 1, "{dump}");
    assert!(dump.to_string().contains("the rwlock"), "{dump}");
}

/// A permit goes to a future that is not polled. The slot does not name the one that gave it back.
#[test]
fn a_permit_that_was_given_and_not_taken() {
    let runtime = runtime(1);
    let permits = Arc::new(Semaphore::new(2));
    let _keeps = permits.try_acquire(1).expect("the first one");
    let mine = permits.try_acquire(1).expect("the second one");
    let inside = permits.clone();
    let given = named(&runtime, "given").spawn(async move {
        let mut first = Box::pin(inside.acquire(1));
        std::future::poll_fn(|cx| {
            assert!(first.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(inside.acquire(2).await);
        drop(first);
    });
    dump_with("it waits twice", &runtime, |dump| {
        waits_of(dump, "given").count() == 2
    });
    drop(mine);
    let not_polled = |dump: &Dump| {
        let mut findings = dump.findings.iter();
        findings.any(|finding| matches!(finding, Finding::NotPolled { .. }))
    };
    dump_with("the finding", &runtime, not_polled);
    assert!(given.cancel() && given.wait().is_err());
}

/// A task takes permits for others, as a server does that limits its connections.
#[test]
fn a_task_that_passes_its_permits_on() {
    for of in [3, 1] {
        let runtime = runtime(2);
        let permits: &'static Semaphore = Box::leak(Box::new(Semaphore::new(of)));
        let stop = Arc::new(Notify::new());
        let told = stop.clone();
        let accepts = named(&runtime, "accepts").spawn(async move {
            loop {
                let Ok(permit) = permits.acquire(1).await else {
                    return;
                };
                let stop = told.clone();
                warpweft::spawn(async move {
                    stop.notified().await;
                    drop(permit);
                })
                .detach();
            }
        });
        let is_full = |dump: &Dump| waits_of(dump, "accepts").count() == 1;
        let dump = dump_with("it waits", &runtime, is_full);
        // One permit that was taken once could be the task's own.
        assert!(of == 1 || accusations(&dump).is_empty(), "{dump}");
        for _ in 0..20 {
            let start = Instant::now();
            stop.notify_one();
            while permits.free() > 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(5));
            let dump = dump_with("it waits again", &runtime, is_full);
            // After a second it is said that no task is known to end the wait. A busy machine takes as long.
            if start.elapsed() < Duration::from_millis(900) {
                assert_eq!(accusations(&dump), [], "{dump}");
            }
        }
        permits.close();
        accepts.wait().expect("no panic");
    }
}

/// More holders than there are slots: the rest may come back at any time.
#[test]
fn more_holders_than_are_noted() {
    const HOLDERS: usize = 12;
    let runtime = ManuallyDrop::new(runtime(2));
    let (permits, all) = (Arc::new(Semaphore::new(HOLDERS)), Arc::new(Barrier::new(HOLDERS)));
    for _ in 0..HOLDERS {
        let (permits, all) = (permits.clone(), all.clone());
        drop(named(&runtime, "holds").spawn(async move {
            let _first = permits.acquire(1).await.expect("open");
            all.arrive().await;
            drop(permits.acquire(1).await);
        }));
    }
    let dump = dump_with("all wait", &runtime, |dump| {
        waits_of(dump, "holds").count() == HOLDERS
    });
    assert_eq!(accusations(&dump), [], "{dump}");
    assert!(
        waits_of(&dump, "holds").all(|wait| wait.holders.is_empty()),
        "{dump}"
    );
}

/// Permits of several numbers, and read-write locks, come and go while dumps look at them.
#[test]
fn a_thousand_dumps_beside_healthy_contention() {
    let runtime = runtime(2);
    let over = Arc::new(AtomicBool::new(false));
    let permits = Arc::new(Semaphore::new(3));
    let lock = Arc::new(RwLock::new(0_u64));
    let limit = runtime.first().concurrency_limit(2).expect("not 0");
    let load: Vec<_> = (0..6_usize)
        .map(|at| {
            let (over, permits, lock) = (over.clone(), permits.clone(), lock.clone());
            let limit = limit.clone();
            named(&runtime, "load").spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let some = permits.acquire(1 + at % 3).await.expect("open");
                    let read = *lock.read().await;
                    warpweft::yield_now().await;
                    if at % 2 == 0 {
                        *lock.write().await = read + 1;
                    }
                    drop(some);
                    let _ = limit.spawn(warpweft::yield_now()).await;
                }
            })
        })
        .collect();
    for _ in 0..1000 {
        let dump = runtime.dump();
        assert_eq!(dump.findings, [], "{dump}");
    }
    over.store(true, Ordering::Relaxed);
    load.into_iter().for_each(|task| task.wait().expect("no panic"));
    assert_eq!(permits.free(), 3);
    assert_eq!(limit.free(), 2);
}

/// The body of a bounded scope takes the permits of its jobs.
#[test]
fn a_body_that_waits_for_room_does_not_wait_for_itself() {
    let runtime = runtime(2);
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let body = named(&runtime, "body").spawn_job(move || {
        warpweft::scope_bounded(1, |scope| {
            for _ in 0..2 {
                scope.spawn(|| assert!(gate.lock().expect("no panic").recv().is_err()));
            }
        })
    });
    let waits = |dump: &Dump| {
        let mut waits = waits_of(dump, "body");
        waits.any(|wait| {
            wait.since
                .is_some_and(|since| since > Duration::from_millis(1200))
        })
    };
    let dump = dump_with("it waits", &runtime, waits);
    // What the job that has the place waits for is another matter.
    let of_body = |finding: &Finding| {
        let mut names = finding
            .tasks()
            .iter()
            .map(|&task| dump.tasks[task].name.as_deref());
        names.any(|name| name == Some("body"))
    };
    assert!(!accusations(&dump).iter().any(of_body), "{dump}");
    assert!(
        dump.to_string()
            .contains("a place in a bounded scope (capacity 1, all taken)"),
        "{dump}"
    );
    drop(open);
    assert_eq!(body.wait().expect("no panic"), Ok(()));
}
