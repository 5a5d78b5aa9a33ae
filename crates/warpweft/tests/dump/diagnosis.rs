//! Programs that hang: the dump says why.

use super::{accusations, cycle, dump_with, runtime};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use warpweft::sync::{Barrier, Mutex, Notify, Semaphore, channel};
use warpweft::{Dump, Finding, Runtime, TaskBuilder, TaskState, WaitsFor};

/// Two futures, two jobs or two fibers, which take two locks in opposite order.
fn opposite_order(spawn: impl Fn(&Runtime, &'static str, Arc<Mutex<()>>, Arc<Mutex<()>>, Arc<Barrier>)) {
    let runtime = ManuallyDrop::new(runtime(2));
    let (left, right) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
    let both = Arc::new(Barrier::new(2));
    spawn(&runtime, "left first", left.clone(), right.clone(), both.clone());
    spawn(&runtime, "right first", right, left, both);
    let dump = dump_with("the circle", &runtime, |dump| cycle(dump).is_some());
    assert_eq!(
        cycle(&dump),
        Some(vec!["left first".into(), "right first".into()]),
        "{dump}"
    );
    let text = dump.to_string();
    assert!(text.contains("DEADLOCK: 2 tasks cannot go on"), "{text}");
    assert_eq!(text.matches("diagnosis.rs:").count() % 2, 0, "both sites: {text}");
    assert!(text.contains("waits for the mutex of `"), "{text}");
}

#[test]
fn two_locks_in_opposite_order_in_futures() {
    opposite_order(|runtime, name, first, second, both| {
        let task = TaskBuilder::new().name(name).on(runtime).spawn(async move {
            let _first = first.lock().await;
            both.arrive().await;
            let _second = second.lock().await;
        });
        drop(task);
    });
}

#[test]
fn two_locks_in_opposite_order_in_jobs() {
    opposite_order(|runtime, name, first, second, both| {
        let task = TaskBuilder::new().name(name).on(runtime).spawn_job(move || {
            let _first = first.lock().wait();
            both.arrive().wait();
            let _second = second.lock().wait();
        });
        drop(task);
    });
}

#[test]
fn two_locks_in_opposite_order_in_fibers() {
    opposite_order(|runtime, name, first, second, both| {
        let task = TaskBuilder::new().name(name).on(runtime).spawn_fiber(move || {
            let _first = first.lock().wait();
            both.arrive().wait();
            let _second = second.lock().wait();
        });
        drop(task);
    });
}

/// The locks that a job takes after a wait are its own: it may have another worker then.
#[test]
fn a_job_has_its_locks_after_a_wait() {
    let runtime = runtime(1);
    let (lock, pause, has) = (
        Arc::new(Mutex::new(())),
        Arc::new(Notify::new()),
        Arc::new(Notify::new()),
    );
    let (inside, waits, told) = (lock.clone(), pause.clone(), has.clone());
    let owner = TaskBuilder::new().name("owner").on(&runtime).spawn_job(move || {
        waits.notified().wait();
        let guard = inside.lock().wait();
        told.notify_one();
        waits.notified().wait();
        drop(guard);
    });
    dump_with("it waits", &runtime, |dump| {
        dump.tasks
            .iter()
            .any(|task| task.name.as_deref() == Some("owner") && !task.waits.is_empty())
    });
    pause.notify_one();
    has.notified().wait();
    let waits = TaskBuilder::new()
        .name("waits")
        .on(&runtime)
        .spawn(async move { drop(lock.lock().await) });
    let owned = |dump: &Dump| {
        dump.tasks.iter().flat_map(|task| &task.waits).any(|wait| {
            let by_owner = |&holder: &usize| dump.tasks[holder].name.as_deref() == Some("owner");
            matches!(wait.on, WaitsFor::Lock { .. }) && wait.holders.iter().any(by_owner)
        })
    };
    let dump = dump_with("the owner", &runtime, owned);
    assert_eq!(accusations(&dump), [], "{dump}");
    pause.notify_one();
    owner.wait().expect("no panic");
    waits.wait().expect("no panic");
}

/// A task with a way out is in no circle, even if one of its waits is part of one.
#[test]
fn a_timeout_is_a_way_out() {
    let runtime = runtime(2);
    let (left, right) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
    let both = Arc::new(Barrier::new(2));
    for (first, second) in [(left.clone(), right.clone()), (right, left)] {
        let both = both.clone();
        drop(runtime.spawn(async move {
            let _first = first.lock().await;
            both.arrive().await;
            let _ = warpweft::time::timeout(Duration::from_secs(1000), second.lock()).await;
        }));
    }
    let waits_twice = |dump: &Dump| {
        let both = dump.tasks.iter().filter(|task| task.waits.len() == 2);
        both.count() == 2
    };
    let dump = dump_with("both wait", &runtime, waits_twice);
    assert_eq!(accusations(&dump), [], "{dump}");
    assert!(dump.to_string().contains("waits for a timer in 16 min"), "{dump}");
}

/// A future that has a lock is not polled while another one in the same task waits for the lock.
#[test]
fn a_lock_in_a_future_that_is_not_polled() {
    let runtime = runtime(1);
    let lock = Arc::new(Mutex::new(()));
    let task = TaskBuilder::new()
        .name("futurelock")
        .on(&runtime)
        .spawn(async move {
            let mut first = Box::pin(async {
                let _guard = lock.lock().await;
                std::future::pending::<()>().await;
            });
            std::future::poll_fn(|cx| {
                assert!(first.as_mut().poll(cx).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            let _guard = lock.lock().await;
            drop(first);
        });
    let dump = dump_with("the circle", &runtime, |dump| cycle(dump).is_some());
    assert_eq!(cycle(&dump), Some(vec!["futurelock".into()]), "{dump}");
    assert!(task.cancel());
}

/// The same, with a future that was woken for the lock and never looks.
#[test]
fn a_lock_for_a_future_that_is_not_polled() {
    let runtime = runtime(2);
    let lock = Arc::new(Mutex::new(()));
    let (owner, release) = (lock.clone(), Arc::new(Notify::new()));
    let (go, tell) = (release.clone(), Arc::new(Notify::new()));
    let has = tell.clone();
    drop(runtime.spawn(async move {
        let guard = owner.lock().await;
        has.notify_one();
        go.notified().await;
        drop(guard);
    }));
    let task = TaskBuilder::new()
        .name("futurelock")
        .on(&runtime)
        .spawn(async move {
            tell.notified().await;
            let mut first = Box::pin(lock.lock());
            std::future::poll_fn(|cx| {
                assert!(std::pin::Pin::new(&mut first).poll(cx).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            release.notify_one();
            let _guard = lock.lock().await;
            drop(first);
        });
    let not_polled = |dump: &Dump| {
        dump.findings
            .iter()
            .any(|finding| matches!(finding, Finding::NotPolled { .. }))
    };
    let dump = dump_with("the finding", &runtime, not_polled);
    assert!(dump.to_string().contains("FUTURELOCK: #"), "{dump}");
    assert!(task.cancel());
}

/// A task joins one that joins it.
#[test]
fn tasks_that_join_each_other() {
    let runtime = ManuallyDrop::new(runtime(2));
    let (send, receive) = warpweft::sync::oneshot::channel::<warpweft::JoinHandle<()>>();
    let first = TaskBuilder::new().name("first").on(&runtime).spawn(async move {
        let second = receive.await.expect("the handle is sent");
        let _ = second.await;
    });
    let second = TaskBuilder::new().name("second").on(&runtime).spawn(async move {
        let _ = first.await;
    });
    send.send(second).expect("it waits");
    let dump = dump_with("the circle", &runtime, |dump| cycle(dump).is_some());
    assert_eq!(
        cycle(&dump),
        Some(vec!["first".into(), "second".into()]),
        "{dump}"
    );
    assert!(
        dump.to_string()
            .contains("waits for the end of a task, which depends on #"),
        "{dump}"
    );
}

/// The same, with jobs that block their threads.
#[test]
fn jobs_that_join_each_other() {
    let runtime = ManuallyDrop::new(runtime(2));
    let (send, receive) = mpsc::channel::<warpweft::JoinHandle<()>>();
    let first = TaskBuilder::new().name("first").on(&runtime).spawn_job(move || {
        let second = receive.recv().expect("the handle is sent");
        let _ = second.wait();
    });
    let second = TaskBuilder::new().name("second").on(&runtime).spawn_job(move || {
        let _ = first.wait();
    });
    send.send(second).expect("it waits");
    let dump = dump_with("the circle", &runtime, |dump| cycle(dump).is_some());
    assert_eq!(
        cycle(&dump),
        Some(vec!["first".into(), "second".into()]),
        "{dump}"
    );
}

/// A future that waits, and has given its waker to nobody.
#[test]
fn a_future_without_a_waker() {
    let runtime = runtime(1);
    let task = TaskBuilder::new()
        .name("lost")
        .on(&runtime)
        .spawn(std::future::pending::<()>());
    let lost = |dump: &Dump| {
        dump.findings.iter().any(|finding| match finding {
            Finding::NobodyCanWake { tasks } => dump.tasks[tasks[0]].name.as_deref() == Some("lost"),
            _ => false,
        })
    };
    let dump = dump_with("the finding", &runtime, lost);
    assert!(dump.to_string().contains("NOBODY CAN WAKE #"), "{dump}");
    assert!(task.cancel());
}

/// The task that had the only sender has leaked it, and has ended.
#[test]
fn a_sender_that_was_leaked() {
    let runtime = runtime(1);
    let (send, receive) = mpsc::channel();
    let maker = runtime.spawn_job(move || {
        let (sender, receiver) = channel::bounded::<u32>(4);
        sender.try_send(1).expect("there is room");
        std::mem::forget(sender);
        send.send(receiver).expect("the test waits");
    });
    maker.wait().expect("no panic");
    let receiver = receive.recv().expect("it was sent");
    let task = TaskBuilder::new()
        .name("waits")
        .on(&runtime)
        .spawn(async move { while receiver.recv().await.is_ok() {} });
    let abandoned = |dump: &Dump| {
        dump.findings
            .iter()
            .any(|finding| matches!(finding, Finding::Abandoned { .. }))
    };
    let dump = dump_with("the finding", &runtime, abandoned);
    let found = dump
        .tasks
        .iter()
        .find(|task| task.name.as_deref() == Some("waits"));
    let waits = &found.expect("it is there").waits;
    assert!(
        matches!(waits[..], [ref wait] if matches!(wait.on, WaitsFor::Receive { capacity: 4, senders: 1, .. })),
        "{dump}"
    );
    assert!(dump.to_string().contains("NOBODY IS KNOWN TO WAKE #"), "{dump}");
    assert!(task.cancel());
}

/// A sender that was made here and has not been used may be anywhere.
#[test]
fn a_sender_that_was_passed_on_and_not_used() {
    let runtime = runtime(1);
    let end = Arc::new(Notify::new());
    let go = end.clone();
    let task = TaskBuilder::new().name("waits").on(&runtime).spawn(async move {
        let (sender, receiver) = channel::bounded::<u32>(4);
        let other = sender.clone();
        drop(sender);
        let sends = warpweft::spawn(async move {
            go.notified().await;
            other.send(1).await.expect("there is room");
        });
        let received = receiver.recv().await;
        sends.await.expect("no panic");
        received
    });
    let waiting = |dump: &Dump| {
        let receives = |wait: &warpweft::WaitDump| matches!(wait.on, WaitsFor::Receive { senders: 1, .. });
        dump.tasks.iter().flat_map(|task| &task.waits).any(receives)
    };
    let dump = dump_with("it receives", &runtime, waiting);
    assert_eq!(accusations(&dump), [], "{dump}");
    end.notify_one();
    assert_eq!(task.wait().expect("no panic"), Ok(1));
}

/// While the task with the sender lives and can go on, nothing is suspected.
#[test]
fn a_sender_of_a_task_that_lives() {
    let runtime = runtime(1);
    let (sender, receiver) = channel::bounded::<u32>(4);
    let end = Arc::new(Notify::new());
    let go = end.clone();
    let sends = runtime.spawn(async move {
        sender.send(1).await.expect("there is room");
        go.notified().await;
        drop(sender);
    });
    let waits = TaskBuilder::new()
        .name("waits")
        .on(&runtime)
        .spawn(async move { while receiver.recv().await.is_ok() {} });
    let waiting = |dump: &Dump| {
        dump.tasks
            .iter()
            .any(|task| task.name.as_deref() == Some("waits") && task.state == TaskState::Waiting)
            && dump.tasks.iter().filter(|task| !task.waits.is_empty()).count() >= 2
    };
    let dump = dump_with("both wait", &runtime, waiting);
    assert_eq!(accusations(&dump), [], "{dump}");
    end.notify_one();
    sends.wait().expect("no panic");
    waits.wait().expect("no panic");
}

/// A lock is held across a join whose other half, on another worker, wants it (rayon#592 with a fork that was
/// stolen).
#[test]
fn a_lock_held_across_a_join() {
    let runtime = ManuallyDrop::new(runtime(2));
    let lock = Arc::new(Mutex::new(()));
    let inside = lock.clone();
    let job = TaskBuilder::new().name("joins").on(&runtime).spawn_job(move || {
        let guard = inside.lock().wait();
        let (taken, wait) = mpsc::channel();
        let stolen = inside.clone();
        warpweft::join(
            move || wait.recv().expect("the other half was taken"),
            move || {
                taken.send(()).expect("the first half waits");
                drop(stolen.lock().wait());
            },
        );
        drop(guard);
    });
    let found = |dump: &Dump| {
        dump.findings.iter().any(|finding| match finding {
            Finding::Cycle { tasks, .. } => {
                tasks.len() == 2
                    && tasks
                        .iter()
                        .any(|&task| dump.tasks[task].name.as_deref() == Some("joins"))
            }
            _ => false,
        })
    };
    let dump = dump_with("the circle", &runtime, found);
    let text = dump.to_string();
    assert!(text.contains("waits for the mutex of `joins` ("), "{text}");
    assert!(text.contains("the other parts of its join or scope"), "{text}");
    drop(job);
}

/// A task ends and forgets its permit. The next task may have its address, and is not taken for it.
#[test]
fn the_holder_of_a_forgotten_permit_is_named_and_no_other_task() {
    let runtime = runtime(1);
    for _ in 0..20 {
        let permits = Arc::new(Semaphore::new(1));
        let taken = permits.clone();
        let forgets = runtime.spawn(async move {
            std::mem::forget(taken.acquire(1).await.expect("open"));
        });
        forgets.wait().expect("no panic");
        let wanted = permits.clone();
        let waits = TaskBuilder::new().name("waits").on(&runtime).spawn(async move {
            assert!(wanted.acquire(1).await.is_err(), "it only closes");
        });
        let of_name = |dump: &Dump| {
            let mut tasks = dump.tasks.iter();
            let task = tasks.find(|task| task.name.as_deref() == Some("waits"))?;
            task.waits.first().cloned()
        };
        let dump = dump_with("it waits", &runtime, |dump| of_name(dump).is_some());
        let wait = of_name(&dump).expect("it waits");
        assert!(wait.holders.is_empty() && wait.is_holder_missing, "{dump}");
        assert!(
            !dump
                .findings
                .iter()
                .any(|finding| matches!(finding, Finding::Cycle { .. })),
            "{dump}"
        );
        let text = dump.to_string();
        assert!(
            text.contains("some of which are with a task that is not here: it has ended"),
            "{text}"
        );
        permits.close();
        waits.wait().expect("no panic");
    }
}

/// As above, of a lock; and a lock whose owner waits is not said to be without one.
#[test]
fn the_owner_of_a_forgotten_lock_is_missing() {
    let runtime = runtime(1);
    let lock = Arc::new(Mutex::new(()));
    let taken = lock.clone();
    let forgets = runtime.spawn(async move { std::mem::forget(taken.lock().await) });
    forgets.wait().expect("no panic");
    let wanted = lock.clone();
    let waits = runtime.spawn(async move { drop(wanted.lock().await) });
    let is_missing = |dump: &Dump| {
        let waits = dump.tasks.iter().flat_map(|task| &task.waits);
        let locks = waits.filter(|wait| matches!(wait.on, WaitsFor::Lock { .. }));
        locks.map(|wait| wait.is_holder_missing).next()
    };
    let dump = dump_with("it waits", &runtime, |dump| is_missing(dump).is_some());
    assert_eq!(is_missing(&dump), Some(true), "{dump}");
    assert!(waits.cancel() && waits.wait().is_err());

    let (lock, pause) = (Arc::new(Mutex::new(())), Arc::new(Notify::new()));
    let (owned, paused, wanted) = (lock.clone(), pause.clone(), lock);
    let owner = runtime.spawn(async move {
        let _guard = owned.lock().await;
        paused.notified().await;
    });
    let waits = runtime.spawn(async move { drop(wanted.lock().await) });
    let dump = dump_with("it waits", &runtime, |dump| is_missing(dump).is_some());
    assert_eq!(is_missing(&dump), Some(false), "{dump}");
    pause.notify_one();
    owner.wait().expect("no panic");
    waits.wait().expect("no panic");
}
