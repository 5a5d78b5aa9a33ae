//! Spans of `tracing`: tasks run in the span of their spawner, and fibers that share a thread do not see each
//! other's.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/eventually.rs"]
mod eventually;
#[path = "../support/in_time.rs"]
mod in_time;

mod fibers;
mod tasks;

use eventually::eventually;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};
use warpweft::Runtime;

/// What the recorder has seen. Tests share it, so each has messages and spans of its own.
static SEEN: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// How often each span was entered, less how often it was exited; and whether it is closed.
static SPANS: Mutex<Option<HashMap<String, (i64, bool)>>> = Mutex::new(None);

/// What a thread had entered, innermost last, and then exited out of order.
static DISORDER: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The runtime that a new span of a closure that blocks asks for its threads.
static ASKED: Mutex<Option<Arc<Runtime>>> = Mutex::new(None);

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
        if text.contains("kind=\"blocking\"") {
            let asked = ASKED.lock().expect("no panic").clone();
            asked.map(|runtime| runtime.threads());
        }
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
