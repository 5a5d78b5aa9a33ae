//! How a task ended: as one word, and as the error that its joiner gets.

use crate::task_panic::{ALIGNMENT, TaskPanic};
use std::any::Any;
use std::fmt;
use std::io;
use warpweft_platform::process::note_panic;

/// Why a task has no result.
#[non_exhaustive]
pub enum JoinError {
    /// It panicked. [`into_panic`](Self::into_panic) returns the payload.
    Panicked(TaskPanic),
    /// It was cancelled, through its handle or because nothing was left that could wake it. A closure may
    /// still have run to its end; then its value was dropped.
    Cancelled,
    /// Its pool shut down before it ended.
    Shutdown,
    /// This is a child made by `fork()`, and the task belongs to a pool of the parent, whose workers are not
    /// here. A task that was spawned before the fork continues in the parent alone.
    Forked,
    /// Its pool's policy dropped it instead of keeping it: a bug of the policy.
    Dropped,
    /// It is a fiber, and there was no memory for its stack, or the limit of stacks was reached. It never
    /// ran.
    NoStack,
    /// It needs its own thread, and the system or a limit of the runtime gives none.
    NoThread(io::Error),
}

/// The payload that unwinds a stack when its pool shuts down. The joiner gets [`JoinError::Shutdown`].
#[derive(Debug)]
pub struct Unwound;

/// The payload that unwinds the stack of a cancelled task that can be stopped. The joiner gets
/// [`JoinError::Cancelled`].
#[derive(Debug)]
pub struct Cancelled;

impl JoinError {
    /// Returns the payload of the task's panic, if that is why it has no result.
    #[must_use]
    pub fn into_panic(self) -> Option<Box<dyn Any + Send>> {
        match self {
            Self::Panicked(panic) => Some(panic.into_payload()),
            _ => None,
        }
    }

    /// Returns true if the task panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }

    /// Returns true if the task was cancelled, alone or with its pool.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Shutdown)
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panic) => write!(f, "Panicked({panic:?})"),
            Self::Cancelled => f.write_str("Cancelled"),
            Self::Shutdown => f.write_str("Shutdown"),
            Self::Forked => f.write_str("Forked"),
            Self::Dropped => f.write_str("Dropped"),
            Self::NoStack => f.write_str("NoStack"),
            Self::NoThread(error) => write!(f, "NoThread({error:?})"),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panic) => panic.fmt(f),
            Self::Cancelled => f.write_str("the task was cancelled"),
            Self::Shutdown => f.write_str("the pool shut down before the task ended"),
            Self::Forked => f.write_str(
                "the pool's workers stayed in the parent of this forked process: build a runtime here",
            ),
            Self::Dropped => f.write_str("the pool's policy dropped the task instead of keeping it"),
            Self::NoStack => f.write_str(
                "no stack for the fiber: as many are in use as there may be, or the system gives no more memory or mappings",
            ),
            Self::NoThread(error) => write!(f, "no thread for a closure that blocks: {error}"),
        }
    }
}

impl std::error::Error for JoinError {}

/// The result is in its place.
pub(crate) const RETURNED: usize = 0;
pub(crate) const CANCELLED: usize = 1;
pub(crate) const SHUTDOWN: usize = 2;
pub(crate) const DROPPED: usize = 3;
pub(crate) const FORKED: usize = 4;
pub(crate) const NO_STACK: usize = 5;
// Anything else is a panic, in a word that is a multiple of its alignment.
const _: () = assert!(ALIGNMENT > NO_STACK);

/// The outcome of a task that was unwound, if `payload` says so.
pub(crate) fn unwound(payload: &(dyn Any + Send)) -> Option<usize> {
    if payload.is::<Unwound>() {
        Some(SHUTDOWN)
    } else if payload.is::<Cancelled>() {
        Some(CANCELLED)
    } else {
        None
    }
}

/// The outcome of a task that panicked.
pub(crate) fn panicked(panic: TaskPanic) -> usize {
    note_panic();
    panic.into_raw()
}

/// The error that `outcome` means; `None` if the result is in its place.
///
/// # Safety
///
/// An `outcome` made by [`panicked`] is given here at most once.
pub(crate) unsafe fn into_error(outcome: usize) -> Option<JoinError> {
    match outcome {
        RETURNED => None,
        CANCELLED => Some(JoinError::Cancelled),
        SHUTDOWN => Some(JoinError::Shutdown),
        DROPPED => Some(JoinError::Dropped),
        FORKED => Some(JoinError::Forked),
        NO_STACK => Some(JoinError::NoStack),
        // SAFETY: every other value was made by `panicked`; by contract it is given here once.
        word => Some(JoinError::Panicked(unsafe { TaskPanic::from_raw(word) })),
    }
}
