//! Running a closure elsewhere than on the stack of the worker's loop: on a fiber's.
//!
//! ```text
//!   worker's loop ─▶ Runnable::run ─▶ Host::host(mount) ─ switches stacks ─▶ mount.run() ─▶ the closure
//!                                        ◀───────── when the closure has ended, or waits
//! ```
//!
//! For the loop and its policy the step is over when `runner` returns. The token is inside the
//! [`OnStackJob`], on the other stack; it ends the task there.

use crate::header::{Header, Step};
use crate::info::TaskInfo;
use crate::runnable::{Abandon, Runnable};
use crate::running::Running;
use std::ptr::NonNull;

/// Who runs a mounted task.
pub trait StackRunner: Send + 'static {
    /// Runs it, or has it run. Called once, by the thread that runs the token.
    fn start(self, job: OnStackJob);

    /// The closure of that task begins on the calling stack; or with `None` it has ended there, and is not to
    /// be asked about any more.
    fn runs(task: Option<Running>);
}

/// A task that is about to run: its token, and its step.
#[derive(Debug)]
#[must_use = "somebody waits for the task"]
pub struct OnStackJob {
    task: Runnable,
    step: unsafe fn(NonNull<Header>) -> Step,
}

impl OnStackJob {
    /// # Safety
    ///
    /// The caller passes the task's token on; the task is RUNNING; the step is of its kind, and was not
    /// called.
    pub(crate) unsafe fn new(header: NonNull<Header>, step: unsafe fn(NonNull<Header>) -> Step) -> Self {
        Self {
            // SAFETY: by contract.
            task: unsafe { Runnable::from_header(header) },
            step,
        }
    }

    /// What may be known of the task.
    #[must_use]
    pub fn info(&self) -> TaskInfo<'_> {
        self.task.info()
    }

    /// Runs it to its end, on the present stack. A panic is its joiner's.
    pub fn run(self) {
        let Self { task, step } = self;
        // SAFETY: by the contract of `new`; the token is passed on.
        unsafe { step(task.into_header()) };
    }

    /// Ends it without running it: there is no stack for it.
    pub fn refuse(self) {
        self.task.abandon(Abandon::NoStack);
    }
}
