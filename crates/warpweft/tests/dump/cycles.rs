//! Circles through channels, read-write locks and semaphores, and waits that nothing can end.

use super::{accusations, cycle, dump_with, named, runtime};
use std::future::poll_fn;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use warpweft::cancel::CancelToken;
use warpweft::sync::{Barrier, Mutex, Notify, OnceCell, RwLock, Semaphore, channel};
use warpweft::{Dump, Finding, Runtime, TaskState, WaitDump, WaitsFor};

/// The first circle, its names, and whether it is uncertain.
fn uncertain(dump: &Dump) -> Option<bool> {
    dump.findings.iter().find_map(|finding| match finding {
        Finding::Cycle { uncertain, .. } => Some(*uncertain),
        _ => None,
    })
}

fn found(dump: &Dump) -> bool {
    cycle(dump).is_some()
}

/// A client waits for the answer, and the server for the next question.
fn client_and_server(runtime: &Runtime) {
    let (question, questions) = channel::bounded::<u32>(1);
    let (answer, answers) = channel::bounded::<u32>(1);
    drop(named(runtime, "client").spawn(async move {
        question.send(1).await.expect("the server is there");
        // Two answers to one question.
        answers.recv().await.expect("an answer");
        answers.recv().await.expect("another one");
    }));
    drop(named(runtime, "server").spawn(async move {
        while let Ok(number) = questions.recv().await {
            answer.send(number).await.expect("the client is there");
        }
    }));
}

#[test]
fn two_tasks_that_receive_from_each_other() {
    let runtime = ManuallyDrop::new(runtime(2));
    client_and_server(&runtime);
    // A healthy neighbour, which has a way out.
    let sleeps = named(&runtime, "sleeps").spawn(warpweft::time::sleep(Duration::from_secs(1000)));
    let dump = dump_with("the circle", &runtime, found);
    assert_eq!(
        cycle(&dump),
        Some(vec!["client".into(), "server".into()]),
        "{dump}"
    );
    assert_eq!(uncertain(&dump), Some(true), "{dump}");
    assert_eq!(dump.findings.len(), 1, "nothing else is accused: {dump}");
    let text = dump.to_string();
    assert!(
        text.contains("LIKELY DEADLOCK: 2 tasks probably cannot go on, unless one is cancelled"),
        "{text}"
    );
    assert!(text.contains("whose other end was used last by #"), "{text}");
    let json = dump.to_json();
    assert!(json.contains("\"uncertain\":true"), "{json}");
    assert!(json.matches("\"likely\":[").count() >= 2, "{json}");
    assert!(sleeps.cancel());
}

#[test]
fn two_tasks_that_send_to_each_other() {
    let runtime = ManuallyDrop::new(runtime(2));
    let (left, from_left) = channel::bounded::<u32>(1);
    let (right, from_right) = channel::bounded::<u32>(1);
    for (name, send, receive) in [("left", left, from_right), ("right", right, from_left)] {
        drop(named(&runtime, name).spawn(async move {
            send.send(1).await.expect("there is room");
            receive.recv().await.expect("one value");
            loop {
                send.send(2).await.expect("the other one is there");
            }
        }));
    }
    let dump = dump_with("the circle", &runtime, found);
    assert_eq!(cycle(&dump), Some(vec!["left".into(), "right".into()]), "{dump}");
    assert_eq!(uncertain(&dump), Some(true), "{dump}");
    assert_eq!(accusations(&dump).len(), 1, "{dump}");
}

/// The same tasks, but the server's answers come from a thread outside, and then from a task that lives.
#[test]
fn an_end_that_others_use_is_not_accused() {
    let runtime = runtime(2);
    let (question, questions) = channel::bounded::<u32>(1);
    let (answer, answers) = channel::bounded::<u32>(1);
    let client = named(&runtime, "client").spawn(async move {
        question.send(1).await.expect("the server is there");
        answers.recv().await.expect("an answer");
        answers.recv().await
    });
    let server = named(&runtime, "server").spawn(async move { while questions.recv().await.is_ok() {} });
    answer.send(1).wait().expect("the client is there");
    let both_receive = |dump: &Dump| {
        let waits = dump.tasks.iter().flat_map(|task| &task.waits);
        waits
            .filter(|wait| matches!(wait.on, WaitsFor::Receive { .. }))
            .count()
            == 2
    };
    let dump = dump_with("both receive", &runtime, both_receive);
    std::thread::sleep(Duration::from_millis(150));
    let later = runtime.dump();
    assert_eq!(dump.findings, [], "{dump}");
    assert_eq!(
        later.findings,
        [],
        "the thread with the sender is this one: {later}"
    );
    answer.send(2).wait().expect("the client is there");
    assert_eq!(client.wait().expect("no panic"), Ok(2));
    server.wait().expect("no panic");
}

/// A sender of which there were two: the task that used one and dropped it is not the one that has the other.
#[test]
fn a_task_that_dropped_its_sender_is_not_accused() {
    let runtime = runtime(2);
    let go = Arc::new(Notify::new());
    let (sender, receiver) = channel::bounded::<u32>(4);
    let (other, waits) = (sender.clone(), go.clone());
    let keeps = runtime.spawn(async move {
        waits.notified().await;
        other.send(2).await.expect("the receiver is there");
    });
    let uses = runtime.spawn(async move {
        sender.send(1).await.expect("the receiver is there");
    });
    uses.wait().expect("no panic");
    let receives = named(&runtime, "receives").spawn(async move {
        receiver.recv().await.expect("the first");
        receiver.recv().await
    });
    let waits = |dump: &Dump| {
        let mut waits = dump.tasks.iter().flat_map(|task| &task.waits);
        waits.any(|wait| matches!(wait.on, WaitsFor::Receive { senders: 1, .. }))
    };
    dump_with("it receives", &runtime, waits);
    // Longer than a dump gives one that has ended.
    std::thread::sleep(Duration::from_millis(1200));
    let dump = runtime.dump();
    let is_accusation = |finding: &Finding| matches!(finding, Finding::Abandoned { .. });
    assert!(!dump.findings.iter().any(is_accusation), "{dump}");
    go.notify_one();
    assert_eq!(receives.wait().expect("no panic"), Ok(2));
    keeps.wait().expect("no panic");
}

#[test]
fn two_read_write_locks_in_opposite_order() {
    // Writers both, and a reader that wants to write where another one reads.
    for reads in [false, true] {
        let runtime = ManuallyDrop::new(runtime(2));
        let locks = [Arc::new(RwLock::new(())), Arc::new(RwLock::new(()))];
        let both = Arc::new(Barrier::new(2));
        for (name, first, second) in [("left", 0, 1), ("right", 1, 0)] {
            let (first, second, both) = (locks[first].clone(), locks[second].clone(), both.clone());
            drop(named(&runtime, name).spawn(async move {
                let _reader = match reads {
                    true => Some(first.read().await),
                    false => None,
                };
                let _writer = match reads {
                    true => None,
                    false => Some(first.write().await),
                };
                both.arrive().await;
                drop(second.write().await);
            }));
        }
        let dump = dump_with("the circle", &runtime, found);
        assert_eq!(cycle(&dump), Some(vec!["left".into(), "right".into()]), "{dump}");
        assert_eq!(uncertain(&dump), Some(false), "{dump}");
        let text = dump.to_string();
        assert!(text.contains("waits for the rwlock of `right` ("), "{text}");
        assert!(text.contains(", to write"), "{text}");
    }
}

/// A reader that reads again, behind a writer that waits for it.
#[test]
fn a_lock_that_is_read_twice_around_a_writer() {
    let runtime = ManuallyDrop::new(runtime(2));
    let lock = Arc::new(RwLock::new(()));
    let has = Arc::new(Notify::new());
    let (other, told) = (lock.clone(), has.clone());
    drop(named(&runtime, "writes").spawn(async move {
        told.notified().await;
        drop(other.write().await);
    }));
    drop(named(&runtime, "reads").spawn_job(move || {
        let _first = lock.read().wait();
        has.notify_one();
        while lock.try_read().is_some() {
            std::thread::yield_now();
        }
        drop(lock.read().wait());
    }));
    let dump = dump_with("the circle", &runtime, found);
    assert_eq!(cycle(&dump), Some(vec!["reads".into()]), "{dump}");
}

/// A reader that came first, and has gone, is not accused of what another one has.
#[test]
fn a_reader_that_has_gone_is_not_accused() {
    let runtime = runtime(2);
    let lock = Arc::new(RwLock::new(()));
    let (lent, writes) = (lock.clone(), lock.clone());
    let (reads, both) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tells, waits) = (reads.clone(), both.clone());
    let parent = named(&runtime, "parent").spawn(async move {
        let first = lent.read().await;
        tells.notify_one();
        waits.notified().await;
        drop(first);
        let writer = warpweft::spawn(async move { drop(writes.write().await) });
        writer.await.expect("no panic");
    });
    reads.notified().wait();
    let mine = lock.read().wait();
    both.notify_one();
    let writes = |dump: &Dump| {
        let mut waits = dump.tasks.iter().flat_map(|task| &task.waits);
        waits.any(|wait| matches!(wait.on, WaitsFor::Permits { kind: "rwlock", .. }))
            && dump.tasks.iter().filter(|task| !task.waits.is_empty()).count() >= 2
    };
    let dump = dump_with("both wait", &runtime, writes);
    drop(mine);
    parent.wait().expect("no panic");
    assert_eq!(accusations(&dump), [], "{dump}");
}

#[test]
fn two_semaphores_in_opposite_order() {
    let runtime = ManuallyDrop::new(runtime(2));
    let semaphores = [Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(3))];
    let both = Arc::new(Barrier::new(2));
    for (name, [first, second], wanted) in [("left", [0, 1], 1), ("right", [1, 0], 3)] {
        let (first, second) = (semaphores[first].clone(), semaphores[second].clone());
        let both = both.clone();
        drop(named(&runtime, name).spawn_job(move || {
            let _first = first.acquire(wanted).wait().expect("open");
            both.arrive().wait();
            drop(second.acquire(1).wait());
        }));
    }
    let dump = dump_with("the circle", &runtime, found);
    assert_eq!(cycle(&dump), Some(vec!["left".into(), "right".into()]), "{dump}");
    assert_eq!(uncertain(&dump), Some(false), "{dump}");
}

/// One of two holders is known, and waits for the task that waits; the other one gives its permit back, which
/// is enough.
#[test]
fn a_semaphore_of_which_others_have_permits_is_no_circle() {
    let runtime = runtime(2);
    let semaphore = Arc::new(Semaphore::new(2));
    let (has, both) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (inside, tells, goes) = (semaphore.clone(), has.clone(), both.clone());
    let task = named(&runtime, "twice").spawn(async move {
        let _first = inside.acquire(1).await.expect("open");
        tells.notify_one();
        goes.notified().await;
        let other = inside.clone();
        let waits = warpweft::spawn(async move {
            drop(other.acquire(1).await.expect("open"));
        });
        waits.await.expect("no panic");
    });
    has.notified().wait();
    let mine = semaphore.try_acquire(1).expect("the second one");
    both.notify_one();
    let waits = |dump: &Dump| {
        let mut waits = dump.tasks.iter().flat_map(|task| &task.waits);
        waits.any(|wait| {
            matches!(
                wait.on,
                WaitsFor::Permits {
                    kind: "semaphore",
                    free: 0,
                    ..
                }
            )
        }) && dump.tasks.iter().filter(|task| !task.waits.is_empty()).count() >= 2
    };
    let dump = dump_with("both wait", &runtime, waits);
    drop(mine);
    task.wait().expect("no panic");
    assert_eq!(accusations(&dump), [], "{dump}");
}

/// A future that has a permit, or was given one, is not polled while another one of its task waits for it.
#[test]
fn a_permit_in_a_future_that_is_not_polled() {
    let runtime = runtime(2);
    let semaphore = Arc::new(Semaphore::new(1));
    let has = named(&runtime, "has").spawn(async move {
        let mut first = Box::pin(async {
            let _permit = semaphore.acquire(1).await;
            std::future::pending::<()>().await;
        });
        poll_fn(|cx| {
            assert!(first.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(semaphore.acquire(1).await);
        drop(first);
    });
    let dump = dump_with("the circle", &runtime, found);
    assert_eq!(cycle(&dump), Some(vec!["has".into()]), "{dump}");
    assert!(has.cancel());

    let lock = Arc::new(RwLock::new(()));
    let mine = lock.write().wait();
    let inside = lock.clone();
    let given = named(&runtime, "given").spawn(async move {
        let mut first = Box::pin(inside.write());
        poll_fn(|cx| {
            assert!(first.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(inside.write().await);
        drop(first);
    });
    let waits = |dump: &Dump| {
        let mut tasks = dump.tasks.iter();
        tasks.any(|task| task.name.as_deref() == Some("given") && task.waits.len() == 2)
    };
    dump_with("it waits twice", &runtime, waits);
    drop(mine);
    let not_polled = |dump: &Dump| {
        let mut findings = dump.findings.iter();
        findings.any(|finding| matches!(finding, Finding::NotPolled { .. }))
    };
    dump_with("the finding", &runtime, not_polled);
    assert!(given.cancel());
}

/// A maker that asks the same cell.
#[test]
fn a_cell_whose_maker_asks_for_it() {
    let runtime = runtime(1);
    let cell = Arc::new(OnceCell::<u32>::new());
    let task = named(&runtime, "makes").spawn(async move {
        let inside = cell.clone();
        *cell
            .get_or_init(|| async move { *inside.get_or_init(|| async { 1 }).await })
            .await
    });
    let dump = dump_with("the circle", &runtime, found);
    assert_eq!(cycle(&dump), Some(vec!["makes".into()]), "{dump}");
    assert!(
        dump.to_string().contains("the initialisation of a once cell by "),
        "{dump}"
    );
    assert!(task.cancel());
}

/// A job and a fiber that wait for a future which has kept no waker.
#[test]
fn waits_of_jobs_and_fibers_without_a_waker() {
    let runtime = ManuallyDrop::new(runtime(2));
    let lost = || warpweft::block_on(std::future::pending::<()>());
    drop(named(&runtime, "job").spawn_job(lost));
    drop(named(&runtime, "fiber").spawn_fiber(lost));
    drop(
        named(&runtime, "healthy")
            .spawn_job(|| warpweft::block_on(warpweft::time::sleep(Duration::from_secs(1000)))),
    );
    let names = |dump: &Dump| {
        let mut names: Vec<_> = dump
            .findings
            .iter()
            .filter(|finding| matches!(finding, Finding::NobodyCanWake { .. }))
            .flat_map(Finding::tasks)
            .filter_map(|&task| dump.tasks[task].name.clone())
            .filter(|name| ["job", "fiber", "healthy"].contains(&name.as_str()))
            .collect();
        names.sort();
        names
    };
    let all = ["fiber", "job"];
    let dump = dump_with("both", &runtime, |dump| names(dump) == all);
    let healthy = dump
        .tasks
        .iter()
        .find(|task| task.name.as_deref() == Some("healthy"));
    let healthy = healthy.expect("it is there");
    assert!(
        healthy.state != TaskState::Waiting || healthy.wakers == Some(1),
        "{dump}"
    );
}

#[test]
fn a_scope_of_futures_that_wait_for_a_lock_of_their_parent_is_a_circle() {
    let runtime = runtime(2);
    let mutex = Arc::new(Mutex::new(()));
    let task = named(&runtime, "parent").spawn(async move {
        let _guard = mutex.lock().await;
        let inside = Arc::clone(&mutex);
        warpweft::scope_async(async |scope| {
            drop(scope.spawn(async move { drop(inside.lock().await) }));
        })
        .await;
    });
    let dump = dump_with("the circle", &runtime, found);
    let parent = dump
        .tasks
        .iter()
        .find(|task| task.name.as_deref() == Some("parent"));
    let waits = &parent.expect("it is there").waits;
    assert!(
        matches!(&**waits, [wait] if wait.on == WaitsFor::Fork && wait.since.is_some()),
        "{dump}"
    );
    assert_eq!(dump.findings[0].tasks().len(), 2, "{dump}");
    assert!(task.cancel());
}

/// A task under a token with a deadline goes on at that time, so its circle is none.
#[test]
fn a_deadline_is_a_way_out() {
    let runtime = runtime(2);
    let token = CancelToken::new();
    for style in ["future", "fiber"] {
        let limited = token.with_deadline(Instant::now() + Duration::from_secs(3600));
        let cancel = limited.clone();
        let (left, right) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let both = Arc::new(Barrier::new(2));
        let (first, second, there) = (left.clone(), right.clone(), both.clone());
        let has_limit = named(&runtime, "limited");
        let has_limit = match style {
            "future" => has_limit.spawn(async move {
                let locks = async {
                    let _first = first.lock().await;
                    there.arrive().await;
                    drop(second.lock().await);
                };
                assert!(limited.run_async(locks).await.is_err());
            }),
            _ => has_limit.spawn_fiber(move || {
                let locks = || {
                    let _first = first.lock().wait();
                    there.arrive().wait();
                    drop(second.lock().wait());
                };
                assert!(limited.run(locks).is_err());
            }),
        };
        let other = named(&runtime, "other").spawn(async move {
            let _first = right.lock().await;
            both.arrive().await;
            drop(left.lock().await);
        });
        let locks = |dump: &Dump| {
            let waits = dump.tasks.iter().flat_map(|task| &task.waits);
            let is_lock = |wait: &&WaitDump| matches!(wait.on, WaitsFor::Lock { .. });
            waits.filter(is_lock).count()
        };
        let until = "waits for the deadline of its token in 59 min";
        let dump = dump_with("both wait", &runtime, |dump| {
            locks(dump) == 2 && dump.to_string().contains(until)
        });
        assert_eq!(cycle(&dump), None, "{style}: {dump}");
        assert_eq!(dump.findings, [], "{style}: {dump}");
        cancel.cancel();
        has_limit.wait().expect("no panic");
        other.wait().expect("no panic");
    }
}
