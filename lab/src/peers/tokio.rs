//! tokio's multi-thread scheduler.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::{TaskPool, Tasks, not_built};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::workloads::{Program, Request};

/// The verbs of a tokio task.
#[derive(Clone, Copy)]
pub(super) struct Verbs;

/// A join handle whose output is the task's value; the task's panic is passed on.
pub(super) struct Handle<T>(JoinHandle<T>);

impl<T> Future for Handle<T> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Poll::Ready(ready!(Pin::new(&mut self.0).poll(context)).expect("a task of the workload panicked"))
    }
}

impl Tasks for Verbs {
    type Handle<T: Send + 'static> = Handle<T>;

    #[inline]
    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        Handle(tokio::spawn(future))
    }

    #[inline]
    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Handle(tokio::spawn(async move { job() }))
    }

    #[inline]
    fn launch(self, future: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(future));
    }

    #[inline]
    fn launch_job(self, job: impl FnOnce() + Send + 'static) {
        drop(tokio::spawn(async move { job() }));
    }

    #[inline]
    fn yield_now(self) -> impl Future<Output = ()> + Send + 'static {
        tokio::task::yield_now()
    }
}

/// A runtime, seen from outside.
struct Pool(Runtime);

impl TaskPool for Pool {
    type Tasks = Verbs;

    fn tasks(&self) -> Verbs {
        Verbs
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(root));
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Handle(self.0.spawn(async move { job() }))
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        drop(self.0.spawn(async move { job() }));
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }
}

/// Runs a request on a fresh tokio runtime.
pub(super) fn run(request: &Request, program: &Program) -> Result<Outcome, LabError> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(request.workers);
    if matches!(program, Program::Timers(_)) {
        builder.enable_time();
    }
    let runtime = builder.build().map_err(|error| not_built(request, &error))?;
    match program {
        Program::Pingpong(_) | Program::Lock(_) => program.run_waits(&Pool(runtime)),
        Program::Timers(_) => program.run_timers(&Pool(runtime)),
        _ => program.run_tasks(&Pool(runtime)),
    }
}
