//! The kinds of tasks, and the ways to panic.

use std::mem::forget;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, panic_any, resume_unwind};
use std::sync::Arc;
use warpweft::{Builder, JoinError, JoinHandle, PanicReport, Runtime, TaskBuilder, TaskKind};
use warpweft_platform::sync::Mutex;

/// A way to panic, with the message `beans`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PanicBy {
    Macro,
    /// It runs no panic hook.
    ResumeUnwind,
}

pub(crate) const WAYS: [PanicBy; 2] = [PanicBy::Macro, PanicBy::ResumeUnwind];

impl PanicBy {
    pub(crate) fn panic(self) {
        match self {
            Self::Macro => panic!("beans"),
            Self::ResumeUnwind => resume_unwind(Box::new("beans")),
        }
    }
}

/// A kind of task, as it is spawned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Future,
    /// It panics after it has waited.
    LateFuture,
    Job,
    Detached,
    Pinned,
    Fiber,
    Blocking,
}

pub(crate) const KINDS: [Kind; 7] = [
    Kind::Future,
    Kind::LateFuture,
    Kind::Job,
    Kind::Detached,
    Kind::Pinned,
    Kind::Fiber,
    Kind::Blocking,
];

impl Kind {
    pub(crate) fn told(self) -> TaskKind {
        match self {
            Self::Future | Self::LateFuture => TaskKind::Future,
            Self::Job | Self::Detached | Self::Pinned => TaskKind::Job,
            Self::Fiber => TaskKind::Fiber,
            Self::Blocking => TaskKind::Blocking,
        }
    }

    /// Spawns a task that calls `f`. `None` if it has no handle. Blocking closures have no name.
    #[track_caller]
    pub(crate) fn spawn(
        self,
        runtime: &Runtime,
        f: impl FnOnce() + Send + 'static,
    ) -> Option<JoinHandle<()>> {
        let builder = TaskBuilder::new().name("soup").on(runtime);
        Some(match self {
            Self::Future => builder.spawn(async move { f() }),
            Self::LateFuture => builder.spawn(async move {
                warpweft::yield_now().await;
                f();
            }),
            Self::Job => builder.spawn_job(f),
            Self::Detached => {
                builder.spawn_detached(f);
                return None;
            }
            Self::Pinned => builder.spawn_pinned(0, f),
            Self::Fiber => builder.spawn_fiber(f),
            Self::Blocking => runtime.try_spawn_blocking(f).expect("there is room"),
        })
    }
}

/// What a pool was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) kind: TaskKind,
    pub(crate) name: Option<String>,
    pub(crate) site: Option<&'static Location<'static>>,
    pub(crate) pool: String,
    pub(crate) message: Option<String>,
}

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Heard>>>);

impl Log {
    pub(crate) fn hook(&self) -> impl Fn(&PanicReport<'_>) + Send + Sync + use<> {
        let log = self.clone();
        move |report| {
            log.0.lock().push(Heard {
                kind: report.kind(),
                name: report.name().map(str::to_owned),
                site: report.spawned_at(),
                pool: report.pool().to_owned(),
                message: report.message().map(str::to_owned),
            });
        }
    }

    pub(crate) fn take(&self) -> Vec<Heard> {
        std::mem::take(&mut self.0.lock())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Takes the messages.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.take()
            .into_iter()
            .filter_map(|heard| heard.message)
            .collect()
    }
}

pub(crate) fn builder(log: &Log) -> Builder {
    Runtime::builder().workers(1).name("kitchen").on_panic(log.hook())
}

#[track_caller]
#[allow(
    clippy::needless_pass_by_value,
    reason = "a result that a test has looked at is not used again"
)]
pub(crate) fn assert_panicked<T: std::fmt::Debug>(end: Result<T, JoinError>) {
    assert!(matches!(end, Err(JoinError::Panicked(_))), "{end:?}");
}

#[test]
fn payloads_of_a_broadcast_may_panic_when_they_are_dropped() {
    struct PanicsAgain;
    impl Drop for PanicsAgain {
        fn drop(&mut self) {
            panic!("in a drop");
        }
    }
    let runtime = Runtime::builder().workers(3).build().expect("workers");
    let calls = || runtime.broadcast(|_| -> () { panic_any(PanicsAgain) });
    let payload = catch_unwind(AssertUnwindSafe(calls)).expect_err("all panic");
    assert!(payload.is::<PanicsAgain>());
    forget(payload);
}
