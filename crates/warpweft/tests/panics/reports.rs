//! Each panic is told once, with the task that it ended.

use crate::eventually::eventually;
use crate::kinds::{Heard, KINDS, Kind, Log, PanicBy, WAYS, assert_panicked, builder};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use warpweft::{JoinError, Runtime, TaskBuilder, TaskKind, join, join_async, scope, scope_async, spawn};
use warpweft_platform::sync::Mutex;

#[test]
fn each_kind_is_told_with_its_name_and_site_whatever_becomes_of_the_handle() {
    let log = Log::default();
    let runtime = builder(&log).build().expect("a runtime");
    for kind in KINDS {
        for way in WAYS {
            for keeps in [true, false] {
                let line = line!() + 1;
                let handle = kind.spawn(&runtime, move || way.panic());
                match handle {
                    // The joiner comes after the report.
                    Some(handle) if keeps => assert_panicked(handle.wait()),
                    handle => {
                        drop(handle);
                        eventually("it is told", || log.len() == 1);
                    }
                }
                let heard = log.take();
                let Heard {
                    kind: told,
                    name,
                    site,
                    pool,
                    message,
                } = heard.first().expect("it was told");
                assert_eq!(heard.len(), 1, "{kind:?} {way:?} {heard:?}");
                assert_eq!((*told, &**pool), (kind.told(), "kitchen"));
                assert_eq!(message.as_deref(), Some("beans"));
                let named = kind != Kind::Blocking;
                assert_eq!(name.as_deref(), named.then_some("soup"));
                let site = site.expect("a spawn site");
                assert!(
                    site.file().ends_with("reports.rs") && site.line() == line,
                    "{site}"
                );
            }
        }
    }
    assert_eq!(runtime.spawn_job(|| 1).wait().expect("the pool goes on"), 1);
}

#[test]
fn a_task_that_does_not_panic_is_not_told_of() {
    let log = Log::default();
    let runtime = builder(&log).build().expect("a runtime");
    for kind in KINDS {
        kind.spawn(&runtime, || ());
    }
    runtime.spawn(std::future::pending::<()>()).cancel();
    runtime
        .spawn_fiber(|| warpweft::block_on(std::future::pending::<()>()))
        .detach();
    runtime
        .spawn_job(warpweft::yield_now)
        .wait()
        .map(drop)
        .expect("no panic");
    drop(runtime);
    assert_eq!(log.take(), []);
}

#[test]
fn a_panic_in_a_frame_is_told_with_the_task_of_the_frame() {
    let log = Log::default();
    let runtime = builder(&log).build().expect("a runtime");
    for way in WAYS {
        let task = TaskBuilder::new().name("joins").on(&runtime);
        assert_panicked(task.spawn_job(move || join(|| way.panic(), || ())).wait());
        let task = TaskBuilder::new().name("joins").on(&runtime);
        assert_panicked(task.spawn_job(move || join(|| (), || way.panic())).wait());
        let task = TaskBuilder::new().name("scopes").on(&runtime);
        assert_panicked(
            task.spawn_job(move || scope(|scope| scope.spawn(move |_| way.panic())))
                .wait(),
        );
        let task = TaskBuilder::new().name("scopes").on(&runtime);
        assert_panicked(task.spawn_job(move || scope(|_| way.panic())).wait());
        let heard = log.take();
        let names: Vec<_> = heard
            .iter()
            .map(|heard| heard.name.as_deref().expect("a name"))
            .collect();
        assert_eq!(names, ["joins", "joins", "scopes", "scopes"]);
        assert!(heard.iter().all(|heard| heard.kind == TaskKind::Job));
    }
    // A frame that catches it has seen it.
    let caught = runtime.spawn_job(|| catch_unwind(|| join(|| panic!("beans"), || ())).is_err());
    assert!(caught.wait().expect("no panic"));
    assert_eq!(log.take(), []);
}

#[test]
fn a_borrowed_closure_panics_in_the_frame_that_waits_for_it() {
    let log = Log::default();
    let runtime = builder(&log).build().expect("a runtime");
    for way in WAYS {
        let unwound = catch_unwind(AssertUnwindSafe(|| runtime.install(|_| way.panic())));
        let payload = unwound.expect_err("it panics here");
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"beans"));
        let unwound = catch_unwind(AssertUnwindSafe(|| runtime.first().run(|| way.panic())));
        unwound.expect_err("it panics here");
    }
    assert_eq!(log.take(), []);
    let job = runtime.spawn_job(|| warpweft::blocking(|| PanicBy::ResumeUnwind.panic()));
    assert_panicked(job.wait());
    assert_eq!(log.take().len(), 1);
}

#[test]
fn a_second_panic_that_has_no_place_is_told_as_a_fork() {
    let log = Log::default();
    let runtime = builder(&log).build().expect("a runtime");
    let say = |text: &'static str| resume_unwind(Box::new(text));
    let both = TaskBuilder::new().on(&runtime);
    assert_panicked(
        both.spawn_job(move || join(|| say("first"), || say("second")))
            .wait(),
    );
    let heard = log.take();
    let told: Vec<_> = heard
        .iter()
        .map(|heard| (heard.kind, heard.message.as_deref()))
        .collect();
    assert_eq!(
        told,
        [(TaskKind::Fork, Some("second")), (TaskKind::Job, Some("first"))]
    );

    let job = runtime.spawn_job(move || {
        scope(|scope| {
            scope.spawn(move |_| say("a"));
            scope.spawn(move |_| say("b"));
            say("body");
        });
    });
    assert_panicked(job.wait());
    let mut messages = log.messages();
    assert_eq!(messages.pop().as_deref(), Some("body"));
    messages.sort();
    assert_eq!(messages, ["a", "b"]);

    let future = join_async(async move { say("first") }, async move { say("second") });
    assert_panicked(runtime.spawn(future).wait());
    let messages = log.messages();
    assert_eq!(messages.last().map(String::as_str), Some("first"));
}

#[test]
fn both_halves_on_different_threads() {
    /// Waits until both halves are here, so each has its own thread.
    fn meet(here: &AtomicUsize) {
        here.fetch_add(1, Ordering::SeqCst);
        while here.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
    }
    let log = Log::default();
    let runtime = builder(&log).workers(2).build().expect("a runtime");
    for _ in 0..50 {
        let here = Arc::new(AtomicUsize::new(0));
        let there = Arc::clone(&here);
        let job = runtime.spawn_job(move || {
            let second = move || {
                meet(&there);
                resume_unwind(Box::new("second"));
            };
            let first = move || {
                meet(&here);
                resume_unwind(Box::new("first"));
            };
            join(first, second)
        });
        assert_panicked(job.wait());
        assert_eq!(log.messages(), ["second", "first"]);
    }
}

#[test]
fn futures_of_a_scope_are_told_whether_their_handle_takes_the_panic_or_not() {
    let log = Log::default();
    let runtime = builder(&log).build().expect("a runtime");
    for way in WAYS {
        let outcome = runtime.spawn(scope_async(move |scope| async move {
            scope
                .spawn(async move { way.panic() })
                .await
                .map_err(|error| error.to_string())
        }));
        let error = outcome
            .wait()
            .expect("the handle has the panic")
            .expect_err("it panicked");
        assert!(
            error.starts_with("the future, spawned at ") && error.ends_with("beans"),
            "{error}"
        );
        assert_eq!(log.take().len(), 1);

        // The handle is dropped, so the scope panics, and its task with it.
        let outcome = runtime.spawn(scope_async(move |scope| async move {
            drop(scope.spawn(async move { way.panic() }));
        }));
        assert_panicked(outcome.wait());
        assert_eq!(log.messages(), ["beans", "beans"]);

        let job = runtime
            .spawn_job(move || scope(|scope| scope.spawn_future(async move { way.panic() }).wait().is_err()));
        assert!(job.wait().expect("the handle has the panic"));
        assert_eq!(log.messages(), ["beans"]);
    }
}

/// It panics when it is dropped.
struct PanicsOnDrop(&'static str);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        resume_unwind(Box::new(self.0));
    }
}

#[test]
fn destructors_that_panic_are_told() {
    let log = Log::default();
    let runtime = builder(&log).build().expect("a runtime");
    // Of a future that is cancelled: its end is not the panic.
    let guard = PanicsOnDrop("dropped");
    let waits = runtime.spawn(async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    runtime
        .spawn(warpweft::yield_now())
        .wait()
        .expect("the other one waits now");
    waits.cancel();
    assert!(matches!(waits.wait(), Err(JoinError::Cancelled)));
    assert_eq!(log.messages(), ["dropped"]);
    // Of a future that has panicked already.
    struct Panics(#[allow(dead_code, reason = "its destructor is what counts")] PanicsOnDrop);
    impl Future for Panics {
        type Output = ();
        fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
            resume_unwind(Box::new("polled"))
        }
    }
    let both = runtime.spawn(Panics(PanicsOnDrop("dropped")));
    assert_eq!(
        both.wait()
            .expect_err("a panic")
            .into_panic()
            .expect("a payload")
            .downcast_ref(),
        Some(&"polled")
    );
    assert_eq!(log.messages(), ["dropped", "polled"]);
}

#[test]
fn a_payload_whose_destructor_panics_harms_nothing() {
    struct Payload(Arc<AtomicUsize>);
    impl Drop for Payload {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("a payload that panics");
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let log = Log::default();
    let runtime = builder(&log).build().expect("a runtime");
    for (number, kind) in KINDS.into_iter().enumerate() {
        let payload = Payload(Arc::clone(&dropped));
        drop(kind.spawn(&runtime, move || panic_any(payload)));
        eventually("its payload is dropped", || {
            dropped.load(Ordering::SeqCst) == number + 1
        });
    }
    eventually("each is told", || log.len() == KINDS.len());
    assert!(log.take().iter().all(|heard| heard.message.is_none()));
    // The second panic of a join, too.
    let payload = Payload(Arc::clone(&dropped));
    let job = runtime.spawn_job(move || join(|| PanicBy::Macro.panic(), || panic_any(payload)));
    assert_panicked(job.wait());
    assert_eq!(dropped.load(Ordering::SeqCst), KINDS.len() + 1);
    assert_eq!(runtime.spawn_job(|| 1).wait().expect("the pool goes on"), 1);
}

#[test]
fn a_hook_that_panics_harms_nothing() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let runtime = Runtime::builder()
        .workers(1)
        .on_panic(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            // Its payload panics, too, when it is dropped.
            panic_any(PanicsOnDrop("hook"));
        })
        .build()
        .expect("a runtime");
    for kind in KINDS {
        if let Some(handle) = kind.spawn(&runtime, || PanicBy::Macro.panic()) {
            let error = handle.wait().expect_err("it panicked");
            assert_eq!(
                error.into_panic().expect("a panic").downcast_ref(),
                Some(&"beans")
            );
        }
    }
    assert_eq!(runtime.spawn_job(|| 1).wait().expect("the pool goes on"), 1);
    eventually("each is told", || calls.load(Ordering::SeqCst) == KINDS.len());
}

#[test]
fn a_hook_may_spawn_and_finds_the_pool() {
    let log = Log::default();
    let hook = log.hook();
    let runtime = Runtime::builder()
        .workers(1)
        .name("kitchen")
        .on_panic(move |report| {
            hook(report);
            if report.message() == Some("beans") {
                drop(spawn(async {
                    resume_unwind(Box::new(String::from("from the hook")))
                }));
            }
        })
        .build()
        .expect("a runtime");
    drop(Kind::Job.spawn(&runtime, || PanicBy::Macro.panic()));
    eventually("both are told", || log.len() == 2);
    assert_eq!(log.messages(), ["beans", "from the hook"]);
}

#[test]
fn each_pool_has_its_own() {
    let (first, second) = (Log::default(), Log::default());
    let runtime = builder(&first)
        .then("cellar", Runtime::builder().workers(1).on_panic(second.hook()))
        .then("garden", Runtime::builder().workers(1))
        .build()
        .expect("a runtime");
    let cellar = runtime.pool("cellar").expect("a pool").clone();
    assert_panicked(cellar.spawn_job(|| PanicBy::Macro.panic()).wait());
    assert_eq!((first.len(), second.take()[0].pool.as_str()), (0, "cellar"));
    assert_panicked(
        runtime
            .pool("garden")
            .expect("a pool")
            .spawn_job(|| PanicBy::Macro.panic())
            .wait(),
    );
    assert_eq!((first.len(), second.len()), (0, 0));
    // The pool in which it panics is told.
    let moves = runtime.spawn(async move {
        cellar.enter().await.expect("it is open");
        PanicBy::Macro.panic();
    });
    assert_panicked(moves.wait());
    assert_eq!((first.len(), second.len()), (0, 1));
}

#[test]
fn errors_name_the_task() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let line = line!() + 1;
    let handle = Kind::Job.spawn(&runtime, || PanicBy::Macro.panic());
    let error = handle.expect("a handle").wait().expect_err("it panicked");
    let text = error.to_string();
    assert!(text.starts_with("the job `soup`, spawned at "), "{text}");
    assert!(
        text.contains(&format!("reports.rs:{line}:")) && text.ends_with(" panicked: beans"),
        "{text}"
    );
    let JoinError::Panicked(panic) = error else {
        unreachable!("{error}")
    };
    assert_eq!((panic.kind(), panic.name()), (TaskKind::Job, Some("soup")));
    assert_eq!(panic.message(), Some("beans"));
    let unnamed = runtime
        .spawn(async { panic_any(7) })
        .wait()
        .expect_err("it panicked");
    assert!(
        unnamed
            .to_string()
            .ends_with(", panicked: (a payload that is not text)"),
        "{unnamed}"
    );
    // It is part of every handle's result.
    assert_eq!(size_of::<JoinError>(), 16);
}

/// A name may come from the program's input. It must neither begin a line nor be a command of a terminal.
#[test]
fn names_are_escaped_in_texts() {
    let texts = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&texts);
    let runtime = Runtime::builder()
        .workers(1)
        .name("kit\nchen")
        .on_panic(move |report| told.lock().push(report.to_string()))
        .build()
        .expect("a runtime");
    let task = TaskBuilder::new()
        .name("a\nwarpweft: forged\u{1b}[31m")
        .on(&runtime);
    let error = task.spawn_job(|| PanicBy::Macro.panic()).wait();
    texts.lock().push(error.expect_err("it panicked").to_string());
    for text in texts.lock().iter() {
        assert!(text.contains(r"job `a\nwarpweft: forged\u{1b}[31m`"), "{text}");
        assert!(!text.contains(['\n', '\u{1b}']), "{text}");
    }
    assert!(
        texts.lock()[0].starts_with(r"pool `kit\nchen`: the job"),
        "{texts:?}"
    );
}
