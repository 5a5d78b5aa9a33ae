//! may's coroutines: every verb waits in direct style, as those of this project's fibers do. There is one
//! scheduler in a process; it lives as long as that.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use may::coroutine::JoinHandle;
use may::go;

use super::direct::direct;
use super::{TaskPool, Tasks};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::workloads::{Program, Request};

/// Words of a coroutine's stack: 64 KiB, as much as a fiber of this project reserves.
const STACK_WORDS: usize = 0x2000;

/// The verbs of a coroutine.
#[derive(Clone, Copy)]
pub(super) struct Verbs;

/// A handle that waits when it is asked; a coroutine's panic is passed on.
pub(super) struct Handle<T>(Option<JoinHandle<T>>);

impl<T: Send + 'static> Future for Handle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let handle = self.0.take().expect("a handle is asked once");
        Poll::Ready(handle.join().expect("a task of the workload panicked"))
    }
}

impl Tasks for Verbs {
    type Handle<T: Send + 'static> = Handle<T>;

    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        Handle(Some(go!(move || direct(future))))
    }

    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Handle(Some(go!(job)))
    }

    fn launch(self, future: impl Future<Output = ()> + Send + 'static) {
        drop(go!(move || direct(future)));
    }

    fn launch_job(self, job: impl FnOnce() + Send + 'static) {
        drop(go!(job));
    }

    async fn yield_now(self) {
        may::coroutine::yield_now();
    }
}

/// The scheduler, seen from outside.
struct Pool;

impl TaskPool for Pool {
    type Tasks = Verbs;

    fn tasks(&self) -> Verbs {
        Verbs
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        Verbs.launch(root);
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Verbs.spawn_job(job)
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        Verbs.launch_job(job);
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        direct(future)
    }
}

/// Runs a request on may's scheduler.
pub(super) fn run(request: &Request, program: &Program) -> Result<Outcome, LabError> {
    may::config()
        .set_workers(request.workers)
        .set_stack_size(STACK_WORDS);
    match program {
        Program::Timers(_) => program.run_timers(&Pool),
        Program::App(_) => program.run_apps(&Pool),
        Program::Micro(_) => program.run_parks(&Pool),
        Program::Mixer(_) => program.run_tasks(&Pool),
        _ => program.run_waits(&Pool),
    }
}
