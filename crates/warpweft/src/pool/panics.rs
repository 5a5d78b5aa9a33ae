//! What a pool does when one of its tasks panics: which hook it calls, and what ends.
//!
//! By default a panic ends its task and nothing else; a `PanicPolicy` adds to that. All that is here runs on
//! the path of a panic: a task that does not panic pays nothing.
//!
//! # Invariants
//!
//! - The program's function is told of each panic before the joiner of its task is woken.
//! - Nothing here unwinds, and no lock is held while the program's function runs.
//! - A pool is closed from where the panic was, and nothing waits there for the threads to leave.

use super::core::PoolCore;
use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, OnceLock};
use warpweft_platform::panics::contain;
use warpweft_task::{TaskKind, TaskPanic};

/// What foreign code returned: its value, or the payload of its panic.
pub(crate) type Outcome<R> = Result<R, Box<dyn Any + Send>>;

/// What happens when a task panics. Its joiner gets the panic in any case. See
/// [`Builder::panic_policy`](crate::Builder::panic_policy).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PanicPolicy {
    /// Nothing else. This is the default.
    #[default]
    Continue,
    /// If the task belongs to a [`scope_async`](crate::scope_async), the other tasks of that scope are
    /// cancelled: those that have not started never start, and those that wait end where they wait. Any
    /// other task is in no such scope, and this is [`Continue`](Self::Continue).
    ///
    /// The closures and futures of a [`scope`](crate::scope()), and the halves of a
    /// [`join`](crate::join()), are no tasks that could be cancelled: they borrow from a frame, and are
    /// promised to run.
    CancelScope,
    /// The runtime begins to shut down, with all its pools. The other tasks end with
    /// [`JoinError::Shutdown`](crate::JoinError::Shutdown). Nothing waits for that: see
    /// [`Runtime::shutdown`](crate::Runtime::shutdown) for when it is over.
    ShutDown,
    /// The process is aborted, after the report.
    Abort,
}

/// A task that has panicked, for the function of [`Builder::on_panic`](crate::Builder::on_panic).
///
/// As text it is one line, unless the message of the panic has several. Names are escaped.
#[derive(Debug, Clone, Copy)]
pub struct PanicReport<'a> {
    pool: &'a str,
    panic: &'a TaskPanic,
}

impl<'a> PanicReport<'a> {
    /// Returns the name of the pool in which the task ran.
    #[must_use]
    pub fn pool(&self) -> &'a str {
        self.pool
    }

    /// Returns the kind of the task.
    #[must_use]
    pub fn kind(&self) -> TaskKind {
        self.panic.kind()
    }

    /// Returns the [name](crate::TaskBuilder::name) of the task, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&'a str> {
        self.panic.name()
    }

    /// Returns where the task was spawned. `None` for a [fork](TaskKind::Fork).
    #[must_use]
    pub fn spawned_at(&self) -> Option<&'static Location<'static>> {
        self.panic.spawned_at()
    }

    /// Returns the message of the panic, if its payload is a text.
    #[must_use]
    pub fn message(&self) -> Option<&'a str> {
        self.panic.message()
    }

    /// Returns the payload of the panic. The joiner gets it afterwards.
    #[must_use]
    pub fn payload(&self) -> &'a (dyn Any + Send) {
        self.panic.payload()
    }
}

impl fmt::Display for PanicReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool `{}`: {}", self.pool.escape_debug(), self.panic)
    }
}

/// The program's function that is told of panics.
pub(crate) type OnPanic = dyn Fn(&PanicReport<'_>) + Send + Sync;

/// Closes all pools of a runtime. It is set when the last of them has started.
pub(crate) type CloseAll = OnceLock<Box<dyn Fn() + Send + Sync>>;

/// What a pool does about panics.
#[derive(Clone, Default)]
pub(crate) struct Panics {
    pub(crate) hook: Option<Arc<OnPanic>>,
    pub(crate) policy: PanicPolicy,
    pub(crate) close_all: Arc<CloseAll>,
}

impl PoolCore {
    /// Does what the program wants when a task panics. Returns true if it was reported.
    #[cold]
    pub(crate) fn panicked(&self, panic: &TaskPanic) -> bool {
        let Panics {
            hook,
            policy,
            close_all,
        } = &self.panics;
        let report = PanicReport {
            pool: &self.info.name,
            panic,
        };
        let told = match hook {
            Some(hook) => {
                contain(|| hook(&report));
                true
            }
            None => false,
        };
        let say = |what| {
            if !told {
                contain(|| eprintln!("{report}; {what}"));
            }
        };
        match policy {
            PanicPolicy::Continue | PanicPolicy::CancelScope => told,
            PanicPolicy::ShutDown => {
                // A forked child has nothing to shut down: the pools are the parent's.
                if !self.is_in_forked_child() {
                    say("the runtime shuts down");
                    match close_all.get() {
                        Some(close_all) => close_all(),
                        // It is still being built.
                        None => self.close(),
                    }
                }
                true
            }
            PanicPolicy::Abort => {
                say("the process is aborted");
                std::process::abort()
            }
        }
    }

    /// Returns true if a panic cancels the other tasks of its scope.
    pub(crate) fn cancels_scopes(&self) -> bool {
        self.panics.policy == PanicPolicy::CancelScope
    }
}
