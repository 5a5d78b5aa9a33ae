//! async-executor, the executor on which smol is built, driven by as many threads as there are workers.

use std::future::Future;
use std::thread;

use async_channel::Sender;
use async_executor::{Executor, Task};
use futures_lite::future;

use super::{TaskPool, Tasks, not_built};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::workloads::{Program, Request};

/// The verbs of a smol task. The executor lives as long as the process, as smol's own does.
#[derive(Clone, Copy)]
pub(super) struct Verbs(&'static Executor<'static>);

impl Tasks for Verbs {
    type Handle<T: Send + 'static> = Task<T>;

    #[inline]
    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Task<T> {
        self.0.spawn(future)
    }

    #[inline]
    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        self.0.spawn(async move { job() })
    }

    #[inline]
    fn launch(self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future).detach();
    }

    #[inline]
    fn launch_job(self, job: impl FnOnce() + Send + 'static) {
        self.0.spawn(async move { job() }).detach();
    }

    #[inline]
    fn yield_now(self) -> impl Future<Output = ()> + Send + 'static {
        future::yield_now()
    }
}

/// The executor with its threads; dropping it ends them.
struct Pool {
    verbs: Verbs,
    stop: Sender<()>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Pool {
    fn new(workers: usize) -> Result<Self, std::io::Error> {
        let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
        let (stop, stopped) = async_channel::bounded::<()>(1);
        let mut pool = Self {
            verbs: Verbs(executor),
            stop,
            threads: Vec::new(),
        };
        for number in 0..workers {
            let stopped = stopped.clone();
            let thread = thread::Builder::new()
                .name(format!("smol-{number}"))
                // Receiving fails when the pool closes the channel: that ends the thread.
                .spawn(move || future::block_on(executor.run(stopped.recv())).unwrap_or_default())?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop.close();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so; there is nothing to add.
            drop(thread.join());
        }
    }
}

impl TaskPool for Pool {
    type Tasks = Verbs;

    fn tasks(&self) -> Verbs {
        self.verbs
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        self.verbs.launch(root);
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        self.verbs.spawn_job(job)
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        self.verbs.launch_job(job);
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        future::block_on(future)
    }
}

/// Runs a request on a fresh executor.
pub(super) fn run(request: &Request, program: &Program) -> Result<Outcome, LabError> {
    let pool = Pool::new(request.workers).map_err(|error| not_built(request, &error))?;
    match program {
        Program::Pingpong(_) | Program::Lock(_) => program.run_waits(&pool),
        Program::App(_) => program.run_apps(&pool),
        Program::Micro(_) => program.run_parks(&pool),
        _ => program.run_tasks(&pool),
    }
}
