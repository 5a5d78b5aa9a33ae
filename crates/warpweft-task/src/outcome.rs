//! How a task ended: as one word, and as the error that its joiner gets.

use std::any::Any;
use std::fmt;
use std::io;
use warpweft_platform::process::note_panic;

/// Why a task has no result.
#[non_exhaustive]
pub enum JoinError {
    /// It panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
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
            Self::Panicked(payload) => Some(payload),
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

fn message(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "(a payload that is not text)"
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(payload) => write!(f, "Panicked({:?})", message(&**payload)),
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
            Self::Panicked(payload) => write!(f, "the task panicked: {}", message(&**payload)),
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
// Anything else is the address of a boxed panic payload, and those are aligned to more than 5.
const _: () = assert!(align_of::<Payload>() > NO_STACK);

type Payload = Box<dyn Any + Send>;

/// The outcome of a task that panicked with `payload`, or was unwound.
pub(crate) fn panicked(payload: Payload) -> usize {
    if payload.is::<Unwound>() {
        return SHUTDOWN;
    }
    if payload.is::<Cancelled>() {
        return CANCELLED;
    }
    note_panic();
    Box::into_raw(Box::new(payload)).expose_provenance()
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
        address => {
            let payload = std::ptr::with_exposed_provenance_mut::<Payload>(address);
            // SAFETY: every other value was made by `panicked` from a box; by contract it is taken back once.
            Some(JoinError::Panicked(*unsafe { Box::from_raw(payload) }))
        }
    }
}
