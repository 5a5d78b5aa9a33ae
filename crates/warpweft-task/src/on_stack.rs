//! Runs a closure on another stack than that of the worker's loop, such as a fiber's.
//!
//! ```text
//!   worker's loop ─▶ Runnable::run ─▶ StackRunner::start(job) ─ switches stacks ─▶ job.run() ─▶ the closure
//!                                        ◀───────── when the closure has ended, or waits
//! ```
//!
//! For the loop and its policy the step is over when `start` returns. The runnable is inside the
//! [`OnStackJob`], on the other stack, and ends the task there.

use crate::header::{Header, Step};
use crate::info::TaskInfo;
use crate::runnable::{Abandon, Runnable};
use crate::running::Running;
use std::ptr::NonNull;

/// Runs closures on stacks that it provides.
pub trait StackRunner: Send + 'static {
    /// Runs `job`, or has it run. It is called once, by the thread that runs the task.
    fn start(self, job: OnStackJob);

    /// Reports that the closure of `task` begins on the calling stack; with `None`, that it has ended there
    /// and must not be asked about any more.
    fn runs(task: Option<Running>);
}

/// A task that is about to run on another stack: its runnable, and its step.
#[derive(Debug)]
#[must_use = "a joiner may wait for the task"]
pub struct OnStackJob {
    task: Runnable,
    step: unsafe fn(NonNull<Header>) -> Step,
}

impl OnStackJob {
    /// # Safety
    ///
    /// The caller passes the task's runnable on. The task is RUNNING. The step is of its kind, and was not
    /// called.
    pub(crate) unsafe fn new(header: NonNull<Header>, step: unsafe fn(NonNull<Header>) -> Step) -> Self {
        Self {
            // SAFETY: by contract.
            task: unsafe { Runnable::from_header(header) },
            step,
        }
    }

    /// Returns the task's name, spawn site and policy word.
    #[must_use]
    pub fn info(&self) -> TaskInfo<'_> {
        self.task.info()
    }

    /// Returns the words that identify the task in a report: its address, and its origin.
    #[must_use]
    pub fn words(&self) -> (usize, *const ()) {
        (self.task.id_word(), self.task.origin_word())
    }

    /// Runs the task to its end, on the present stack. Its joiner gets a panic.
    pub fn run(self) {
        let Self { task, step } = self;
        // SAFETY: by the contract of `new`; the runnable is passed on.
        unsafe { step(task.into_header()) };
    }

    /// Ends the task without running it, because there is no stack for it.
    pub fn refuse(self) {
        self.task.abandon(Abandon::NoStack);
    }
}
