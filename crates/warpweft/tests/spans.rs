//! Spans of `tracing`: tasks run in the span of their spawner, and fibers that share a thread do not see each
//! other's.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the subscriber and the test's own threads are outside of the library"
)]

#[path = "support/eventually.rs"]
mod eventually;

use eventually::eventually;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, mpsc};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber, info, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};
use warpweft::effect::{Continuation, Coroutine, Effect, Handler, Next, perform};
use warpweft::sync::{Notify, oneshot};
use warpweft::time::sleep;
use warpweft::{Runtime, TaskBuilder, block_on, fiber, join, scope, spawn_blocking, spawn_job};

/// What the recorder has seen. Tests share it, so each has messages and spans of its own.
static SEEN: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
/// How often each span was entered, less how often it was exited; and whether it is closed.
static SPANS: Mutex<Option<HashMap<String, (i64, bool)>>> = Mutex::new(None);
/// What a thread had entered, innermost last, and then exited out of order.
static DISORDER: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

/// Records each event with the spans around it, as `outer:inner`, and how spans are entered and exited.
struct Recorder;

/// A span as text: its name and fields.
struct Name(String);

/// Puts fields into a text.
struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.push_str(&format!("{value:?}"));
        } else if field.name() == "spawn.file" {
            let text = format!("{value:?}");
            let file = text.trim_matches('"').rsplit('/').next().unwrap_or_default();
            self.0.push_str(&format!(" file={file}"));
        } else if field.name() == "spawn.line" {
            self.0.push_str(" line");
        } else {
            self.0.push_str(&format!(" {}={value:?}", field.name()));
        }
    }
}

fn in_spans(f: impl FnOnce(&mut HashMap<String, (i64, bool)>)) {
    f(SPANS.lock().expect("no panic").get_or_insert_default());
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    /// Spans of tasks are wanted inside of a span `verbose` only.
    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        let is_verbose = || {
            context
                .lookup_current()
                .is_some_and(|span| span.scope().any(|span| span.name() == "verbose"))
        };
        metadata.target() != "warpweft::task" || is_verbose()
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut text = attributes.metadata().name().to_owned();
        attributes.record(&mut Text(&mut text));
        in_spans(|spans| {
            spans.insert(text.clone(), (0, false));
        });
        let span = context.span(id).expect("a new span");
        span.extensions_mut().insert(Name(text));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut message = String::new();
        event.record(&mut Text(&mut message));
        let spans = context.event_scope(event).into_iter().flatten();
        let mut names: Vec<_> = spans.map(|span| name_of(&span)).collect();
        names.reverse();
        SEEN.lock().expect("no panic").push((names.join(":"), message));
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        ENTERED.with(|entered| entered.borrow_mut().push(id.clone()));
        let name = name_of(&context.span(id).expect("it is there"));
        in_spans(|spans| spans.get_mut(&name).expect("it was made").0 += 1);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let last = ENTERED.with(|entered| entered.borrow_mut().pop());
        let name = name_of(&context.span(id).expect("it is there"));
        if last.as_ref() != Some(id) {
            DISORDER.lock().expect("no panic").push(name.clone());
        }
        in_spans(|spans| spans.get_mut(&name).expect("it was made").0 -= 1);
        if name.starts_with("bomb") && IS_ARMED.swap(false, Ordering::Relaxed) {
            panic!("the subscriber panics");
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let name = name_of(&context.span(&id).expect("it is there"));
        in_spans(|spans| spans.get_mut(&name).expect("it was made").1 = true);
    }
}

/// True if the next exit of a span `bomb` panics.
static IS_ARMED: AtomicBool = AtomicBool::new(false);

fn name_of<'a, S: LookupSpan<'a>>(span: &tracing_subscriber::registry::SpanRef<'a, S>) -> String {
    span.extensions()
        .get::<Name>()
        .map_or_else(|| span.name().to_owned(), |name| name.0.clone())
}

/// Installs the recorder, and makes a runtime without compensating workers.
fn runtime(workers: usize) -> Runtime {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = Registry::default().with(Recorder);
        tracing::subscriber::set_global_default(subscriber).expect("the first one");
    });
    let builder = Runtime::builder().workers(workers).stuck_after(None);
    builder.build().expect("a runtime")
}

/// The spans around the events with that message, in the order of the events.
fn around(message: &str) -> Vec<String> {
    let seen = SEEN.lock().expect("no panic");
    seen.iter()
        .filter(|(_, of)| of == message)
        .map(|(spans, _)| spans.clone())
        .collect()
}

/// Checks that a span was exited as often as entered, and that it is closed.
fn assert_over(name: &str) {
    eventually(&format!("the span {name} is closed"), || {
        let mut state = None;
        in_spans(|spans| state = spans.get(name).copied());
        state == Some((0, true))
    });
    let disorder = DISORDER.lock().expect("no panic");
    assert!(!disorder.iter().any(|span| span == name), "{disorder:?}");
}

#[test]
fn fibers_of_a_thread_have_spans_of_their_own() {
    let runtime = runtime(1);
    let fibers: Vec<_> = (0..4)
        .map(|j| {
            runtime.spawn_fiber(move || {
                let _fiber = info_span!("own", j).entered();
                for turn in 0..3 {
                    info!("own {j}");
                    match turn {
                        0 => drop(fiber::yield_now()),
                        1 => fiber::wait(sleep(Duration::from_millis(1))),
                        _ => {}
                    }
                }
            })
        })
        .collect();
    fibers
        .into_iter()
        .for_each(|fiber| fiber.wait().expect("it ends"));
    for j in 0..4 {
        let name = format!("own j={j}");
        assert_eq!(around(&format!("own {j}")), [name.as_str(); 3]);
        assert_over(&name);
    }
}

#[test]
fn spans_in_each_other_are_entered_again_in_their_order() {
    let runtime = runtime(1);
    let fibers = ["a", "b"].map(|name| {
        runtime.spawn_fiber(move || {
            let _outer = info_span!("outer", name).entered();
            fiber::yield_now();
            {
                let _inner = info_span!("inner", name).entered();
                fiber::yield_now();
                let again = info_span!("innermost", name);
                again.in_scope(|| {
                    fiber::yield_now();
                    again.in_scope(fiber::yield_now);
                    info!("nested {name} deep");
                });
                fiber::yield_now();
            }
            fiber::yield_now();
            info!("nested {name} up");
        })
    });
    fibers
        .into_iter()
        .for_each(|fiber| fiber.wait().expect("it ends"));
    for name in ["a", "b"] {
        let all = ["outer", "inner", "innermost"].map(|span| format!("{span} name={name:?}"));
        assert_eq!(around(&format!("nested {name} deep")), [all.join(":")]);
        assert_eq!(around(&format!("nested {name} up")), [all[0].clone()]);
        all.iter().for_each(|span| assert_over(span));
    }
}

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
    let task = "verbose:task kind=\"future\" name=\"teller\" file=spans.rs line";
    assert_eq!(around("verbose future"), [task]);
    assert_eq!(
        around("verbose job"),
        ["verbose:task kind=\"job\" file=spans.rs line"]
    );
    assert_eq!(
        around("verbose fiber"),
        ["verbose:task kind=\"fiber\" file=spans.rs line"]
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
fn a_fiber_on_top_of_a_frame_that_waits_does_not_see_its_spans() {
    let runtime = runtime(1);
    let woken = Arc::new(Notify::new());
    let fiber = runtime.spawn_fiber({
        let woken = Arc::clone(&woken);
        move || {
            info!("below frame");
            fiber::wait(woken.notified());
            info!("above frame");
        }
    });
    eventually("the fiber waits", || !around("below frame").is_empty());
    let (go, gone) = oneshot::channel();
    let (waits, is_waiting) = mpsc::channel();
    // One worker and one thread so far: the fiber's. So the frame of the job is on that thread, and while it
    // waits the fiber continues on top of it.
    let job = runtime.spawn_job(move || {
        let _frame = info_span!("frame").entered();
        waits.send(()).expect("the test waits");
        block_on(gone).expect("it is told");
        info!("in frame");
    });
    is_waiting.recv().expect("the job runs");
    woken.notify_one();
    fiber.wait().expect("it ends");
    go.send(()).expect("the job waits");
    job.wait().expect("it ends");
    assert_eq!(around("above frame"), [""]);
    assert_eq!(around("in frame"), ["frame"]);
    assert_over("frame");
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
fn a_fiber_that_waits_for_a_half_takes_its_spans_along() {
    let runtime = runtime(2);
    let fiber = runtime.spawn_fiber(|| {
        let (go, gone) = oneshot::channel();
        // It starts on this thread, when this fiber waits.
        let beside = fiber::spawn_local(move || {
            info!("beside a join");
            go.send(()).expect("the other half waits");
        });
        info_span!("joining").in_scope(|| {
            let (begun, begins) = mpsc::channel();
            join(
                move || begins.recv().expect("another thread begins it"),
                move || {
                    begun.send(()).expect("it is waited for");
                    block_on(gone).expect("it is told");
                },
            );
            info!("after a join");
        });
        beside.wait().expect("it ends");
    });
    fiber.wait().expect("it ends");
    assert_eq!(around("beside a join"), [""]);
    assert_eq!(around("after a join"), ["joining"]);
    assert_over("joining");
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

#[test]
fn a_span_whose_handles_are_gone_stays_open_while_a_fiber_that_waits_is_in_it() {
    let runtime = runtime(1);
    let (go, gone) = oneshot::channel();
    let fiber = info_span!("long").in_scope(|| {
        runtime.spawn_fiber(move || {
            info!("long begins");
            block_on(gone).expect("it is told");
            info!("long ends");
        })
    });
    eventually("the fiber waits", || around("long begins").len() == 1);
    // The fiber has left the thread: another task is not in the span, and nobody has entered it.
    runtime
        .spawn_job(|| info!("long meanwhile"))
        .wait()
        .expect("it ends");
    assert_eq!(around("long meanwhile"), [""]);
    in_spans(|spans| assert_eq!(spans.get("long"), Some(&(0, false))));
    go.send(()).expect("it waits");
    fiber.wait().expect("it ends");
    assert_eq!(around("long ends"), ["long"]);
    assert_over("long");
}

#[test]
fn a_fiber_that_panics_leaves_no_span_behind() {
    let runtime = runtime(1);
    let fiber = runtime.spawn_fiber(|| {
        let _span = info_span!("panics").entered();
        fiber::yield_now();
        std::panic::resume_unwind(Box::new("as planned"));
    });
    assert!(fiber.wait().is_err());
    runtime
        .spawn_fiber(|| info!("after panic"))
        .wait()
        .expect("it ends");
    assert_eq!(around("after panic"), [""]);
    assert_over("panics");
}

#[test]
fn a_fiber_that_is_unwound_at_the_end_exits_its_spans() {
    let runtime = runtime(1);
    let fiber = runtime.spawn_fiber(|| {
        struct Tells;
        impl Drop for Tells {
            fn drop(&mut self) {
                info!("unwound");
            }
        }
        let _span = info_span!("unwinds").entered();
        let _tells = Tells;
        info!("unwinds later");
        block_on(std::future::pending::<()>());
    });
    eventually("the fiber waits", || around("unwinds later").len() == 1);
    drop(runtime);
    assert!(fiber.wait().is_err());
    assert_eq!(around("unwound"), ["unwinds"]);
    assert_over("unwinds");
}

#[test]
fn a_subscriber_that_panics_at_a_wait_does_not_end_the_wait() {
    let runtime = runtime(1);
    let turns = Arc::new(AtomicUsize::new(0));
    let fiber = runtime.spawn_fiber({
        let turns = Arc::clone(&turns);
        move || {
            let _bomb = info_span!("bomb").entered();
            IS_ARMED.store(true, Ordering::Relaxed);
            fiber::wait(sleep(Duration::from_millis(1)));
            turns.fetch_add(1, Ordering::Relaxed);
        }
    });
    fiber.wait().expect("the panic ended in the wait");
    assert!(!IS_ARMED.load(Ordering::Relaxed), "it has panicked");
    assert_eq!(turns.load(Ordering::Relaxed), 1);
}

struct Yield;
impl Effect for Yield {
    type Answer = ();
}

#[test]
fn a_handler_and_its_bodies_do_not_see_each_others_spans() {
    let runtime = runtime(1);
    let fiber = runtime.spawn_fiber(|| {
        let _fiber = info_span!("made here").entered();
        let mut queue: VecDeque<_> = ["a", "b"]
            .map(|name| {
                Coroutine::new(move || {
                    let _body = info_span!("body", name).entered();
                    perform(Yield);
                    info!("body {name}");
                })
            })
            .into();
        let _handler = info_span!("handler").entered();
        while let Some(body) = queue.pop_front() {
            Handler::new()
                .on(|Yield, k: Continuation<Yield, ()>| {
                    info!("in handler");
                    queue.push_back(k.resume(()));
                    Next::Leave(())
                })
                .run(body);
        }
    });
    fiber.wait().expect("it ends");
    assert_eq!(around("in handler"), ["made here:handler"; 2]);
    assert_eq!(around("body a"), ["made here:body name=\"a\""]);
    assert_eq!(around("body b"), ["made here:body name=\"b\""]);
    for span in ["made here", "handler", "body name=\"a\"", "body name=\"b\""] {
        assert_over(span);
    }
}
