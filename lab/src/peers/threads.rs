//! A thread of the system per task, with small stacks: what everybody had before there were task runtimes.
//!
//! "One worker" means that the whole process runs on one core; more workers than that cannot be asked for,
//! the kernel takes all cores it likes.

use std::thread;

use super::apps::threads::Pool as Actors;
use super::{JobPool, Jobs, JoiningJobs, not_built};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::workloads::{Program, Request};

/// Stack of a task's thread.
pub(super) const STACK: usize = 64 << 10;

/// The verbs of a thread.
#[derive(Clone, Copy)]
struct Verbs;

impl Jobs for Verbs {
    fn launch(self, job: impl FnOnce() + Send + 'static) {
        // A panic here ends the run's process with this message; see `harness::isolate`.
        thread::Builder::new()
            .stack_size(STACK)
            .spawn(job)
            .expect("the system refuses to start more threads: lower `window` or `n`");
    }

    fn yield_now(self) {
        thread::yield_now();
    }
}

impl JoiningJobs for Verbs {
    fn both<A: Send, B: Send>(
        self,
        first: impl FnOnce() -> A + Send,
        second: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        thread::scope(|scope| {
            let first = thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, first);
            let second = second();
            let first = first.expect("the system refuses to start more threads: lower `n`");
            (first.join().expect("a task of the workload panicked"), second)
        })
    }
}

/// There is no pool; this is where it would be.
struct Pool;

impl JobPool for Pool {
    type Jobs = Verbs;

    fn jobs(&self) -> Verbs {
        Verbs
    }

    fn start(&self, job: impl FnOnce() + Send + 'static) {
        Verbs.launch(job);
    }
}

/// Runs a request with a thread per task.
pub(super) fn run(request: &Request, program: &Program) -> Result<Outcome, LabError> {
    if request.workers == 1 {
        // All threads inherit the core of this one. The process runs nothing else, see `harness::isolate`.
        let core = core_affinity::get_core_ids().and_then(|cores| cores.first().copied());
        if !core.is_some_and(core_affinity::set_for_current) {
            return Err(not_built(
                request,
                "this system does not let a process choose its core",
            ));
        }
    }
    match program {
        Program::App(_) => program.run_apps(&Actors),
        Program::Micro(_) => program.run_parks(&Actors),
        _ => program.run_joining_jobs(&Pool),
    }
}
