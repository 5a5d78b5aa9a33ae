//! The names of what tasks are, do and wait for, as JSON has them.

use super::{TaskState, WaitsFor};
use warpweft_task::TaskKind;

/// Returns the name of the kind of a task, or of a thread.
pub(super) fn kind_name(kind: Option<TaskKind>) -> &'static str {
    match kind {
        None => "thread",
        Some(TaskKind::Future) => "future",
        Some(TaskKind::Job) => "job",
        Some(TaskKind::Fiber) => "fiber",
        Some(TaskKind::Blocking) => "blocking",
        Some(_) => "fork",
    }
}

impl TaskState {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running(_) => "running",
            Self::Waiting => "waiting",
            Self::Blocking => "blocking",
            Self::SpawnedBlocking => "spawned_blocking",
        }
    }
}

impl WaitsFor {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Fork => "fork",
            Self::Lock { .. } => "lock",
            Self::Permits { .. } => "permits",
            Self::Barrier { .. } => "barrier",
            Self::Event { .. } => "event",
            Self::Receive { .. } => "receive",
            Self::Send { .. } => "send",
            Self::Timer(_) => "timer",
            Self::Deadline(_) => "deadline",
            Self::Socket { .. } => "socket",
            Self::BlockingPlace => "blocking_place",
            Self::Cancellation => "cancellation",
        }
    }
}
