//! Spans of the crate `tracing`: in which span code runs, and what becomes of it when a stack is left.
//!
//! ```text
//!   spawn:        the span of the spawner, or a span `task` in it ──▶ SpawnSpan ──▶ entered around the body
//!   fiber waits:  entered spans ── exited, innermost first ──▶ LeftSpans ── entered again ──▶ it continues
//! ```
//!
//! A subscriber keeps the spans that are entered by thread. It knows nothing of fibers, several of which
//! share a thread. So a stack that is left takes its spans along.
//!
//! # Invariants
//!
//! - On a thread only the spans of the stack that runs are entered. A stack exits all before it is left, and
//!   the one below a fiber before it runs fibers.
//! - Spans are exited before a wait is announced, and entered after it is over. So what a subscriber does
//!   then is not inside of the wait.
//! - A panic of a subscriber at such a point ends here. It must not unwind a frame that other threads work
//!   on.
//! - Without a subscriber nothing is looked up: one load per point says so.
//!
//! `no_spans.rs` has the same interface, without the feature.

use tracing::level_filters::LevelFilter;
use tracing::{Instrument as _, Span};
use warpweft_platform::panics::contain;
use warpweft_task::spawn::TaskAlloc;

/// The most spans that one stack takes along. Only a subscriber that does not forget exited spans has more.
const MOST: usize = 1024;

/// Returns true if no subscriber wants anything.
#[inline]
fn is_off() -> bool {
    LevelFilter::current() == LevelFilter::OFF
}

/// The span in which a task, a job or a fork runs.
#[derive(Debug)]
pub(crate) struct SpawnSpan(Span);

impl SpawnSpan {
    /// Returns the span that is current here.
    #[inline]
    pub(crate) fn current() -> Self {
        if is_off() {
            return Self(Span::none());
        }
        Self(Span::current())
    }

    /// Returns a new span `task` inside of the one that is current here, or that one if no subscriber wants
    /// the new one.
    pub(crate) fn of_task(kind: &'static str, info: &impl TaskAlloc) -> Self {
        if is_off() {
            return Self(Span::none());
        }
        let (name, site) = info.site();
        let task = tracing::trace_span!(
            target: "warpweft::task",
            "task",
            kind,
            name,
            spawn.file = site.file(),
            spawn.line = site.line(),
        );
        Self(if task.is_disabled() { Span::current() } else { task })
    }

    /// Calls `body` inside of the span.
    #[inline]
    pub(crate) fn run<R>(&self, body: impl FnOnce() -> R) -> R {
        self.0.in_scope(body)
    }

    /// Returns the future whose polls, and whose drop, are inside of the span.
    pub(crate) fn around<F: Future>(self, future: F) -> impl Future<Output = F::Output> + use<F> {
        future.instrument(self.0)
    }
}

/// The spans that were entered on a stack that is left, outermost last. Dropping it enters them again.
#[derive(Debug)]
#[must_use = "dropping it enters the spans again"]
pub(crate) struct LeftSpans(Vec<Span>);

impl LeftSpans {
    /// Exits all spans that are entered on this thread.
    #[inline]
    pub(crate) fn leave() -> Self {
        let mut left = Self(Vec::new());
        if !is_off() {
            left.leave_all();
        }
        left
    }

    #[inline(never)]
    fn leave_all(&mut self) {
        // See the invariants.
        contain(|| {
            while self.0.len() < MOST {
                let span = Span::current();
                if span.is_disabled() {
                    return;
                }
                // Noted first: if the subscriber panics, it has seen the exit.
                self.0.push(span.clone());
                span.with_subscriber(|(id, dispatch)| dispatch.exit(id));
            }
        });
    }

    /// Enters the spans again, on the same stack.
    #[inline]
    pub(crate) fn come_back(self) {
        drop(self);
    }

    #[inline(never)]
    fn enter_all(&mut self) {
        for span in self.0.drain(..).rev() {
            // See the invariants.
            contain(|| {
                span.with_subscriber(|(id, dispatch)| dispatch.enter(id));
                drop(span);
            });
        }
    }
}

impl Drop for LeftSpans {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_empty() {
            self.enter_all();
        }
    }
}
