//! A panic that ended a task: its payload, and which task it was.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write as _};
use std::panic::Location;

/// The kind of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskKind {
    /// A future.
    Future,
    /// A closure.
    Job,
    /// A closure with its own stack.
    Fiber,
    /// A closure that may block, on a thread without a worker.
    Blocking,
    /// A half of a join, or a closure of a scope. Its panic is a task's own only if another panic took its
    /// place in the frame that waits for it.
    Fork,
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Future => "future",
            Self::Job => "job",
            Self::Fiber => "fiber",
            Self::Blocking => "blocking closure",
            Self::Fork => "fork",
        })
    }
}

/// What tokio's types say where there is no context of tokio.
const NO_REACTOR: &str = "there is no reactor running";

/// A panic of a task, as its joiner gets it: the payload, and the task's kind, name and spawn site.
///
/// As text it is one line. If the message is tokio's that there is no reactor, the text says which setting
/// gives the task one. One word.
pub struct TaskPanic(Box<Parts>);

struct Parts {
    payload: Box<dyn Any + Send>,
    kind: TaskKind,
    name: Option<Cow<'static, str>>,
    location: Option<&'static Location<'static>>,
    /// True if it was reported: then nothing is lost with it.
    told: bool,
}

// Small numbers in the same word say that a task ended otherwise.
pub(crate) const ALIGNMENT: usize = align_of::<Parts>();

impl TaskPanic {
    /// Describes a panic with `payload` of a task of that kind, with that name and spawn site.
    #[must_use]
    pub fn new(
        kind: TaskKind,
        name: Option<Cow<'static, str>>,
        location: Option<&'static Location<'static>>,
        payload: Box<dyn Any + Send>,
    ) -> Self {
        Self(Box::new(Parts {
            payload,
            kind,
            name,
            location,
            told: false,
        }))
    }

    /// Returns the payload, for example to continue the panic by
    /// [`resume_unwind`](std::panic::resume_unwind).
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.0.payload
    }

    /// Returns the payload.
    #[must_use]
    pub fn payload(&self) -> &(dyn Any + Send) {
        &*self.0.payload
    }

    /// Returns the message of the panic, if the payload is a text.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        let payload = self.payload();
        match payload.downcast_ref::<&'static str>() {
            Some(text) => Some(text),
            None => payload.downcast_ref::<String>().map(String::as_str),
        }
    }

    /// Returns the kind of the task.
    #[must_use]
    pub fn kind(&self) -> TaskKind {
        self.0.kind
    }

    /// Returns the name of the task, if its spawner gave it one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Returns where the task was spawned. `None` if it is a [fork](TaskKind::Fork).
    #[must_use]
    pub fn spawned_at(&self) -> Option<&'static Location<'static>> {
        self.0.location
    }

    /// Writes the panic to the standard error, unless it was reported before.
    #[cold]
    pub fn write_unless_told(&self) {
        if !self.0.told {
            // Without a standard error there is no place for the report.
            drop(writeln!(io::stderr(), "{self}"));
        }
    }

    /// Returns true if the panic was reported.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.0.told
    }

    /// Notes whether the panic was reported.
    pub fn set_told(&mut self, told: bool) {
        self.0.told = told;
    }

    /// Returns the panic as one word, which is not null.
    pub(crate) fn into_raw(self) -> usize {
        Box::into_raw(self.0).expose_provenance()
    }

    /// # Safety
    ///
    /// [`into_raw`](Self::into_raw) has returned the word, which is given here once.
    pub(crate) unsafe fn from_raw(word: usize) -> Self {
        let parts = std::ptr::with_exposed_provenance_mut::<Parts>(word);
        // SAFETY: by contract it is the address of a box that is taken back once.
        Self(unsafe { Box::from_raw(parts) })
    }
}

impl fmt::Display for TaskPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {}", self.kind())?;
        if let Some(name) = self.name() {
            write!(f, " `{}`", name.escape_debug())?;
        }
        if let Some(site) = self.spawned_at() {
            write!(f, ", spawned at {site},")?;
        }
        let message = self.message().unwrap_or("(a payload that is not text)");
        write!(f, " panicked: {message}")?;
        if message.contains(NO_REACTOR) {
            f.write_str("; `Builder::tokio_context` of the crate warpweft-tokio gives the workers one")?;
        }
        Ok(())
    }
}

impl fmt::Debug for TaskPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPanic")
            .field("kind", &self.kind())
            .field("name", &self.name())
            .field("spawned_at", &self.spawned_at().map(ToString::to_string))
            .field("message", &self.message())
            .finish_non_exhaustive()
    }
}
