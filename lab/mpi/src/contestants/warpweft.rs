//! `warpweft-mpi`: tasks of a Warpweft runtime, and the thread that polls makes the calls of MPI.

use super::{Contestant, refusal};
use crate::idioms::{FAILED, ForkJoin, Futures, WarpweftTasks};
use crate::workload::{Outcome, Report, Workload};
use std::time::Duration;
use warpweft::Runtime;
use warpweft_mpi::{Comm, Mpi, MpiError};

#[derive(Debug, Clone)]
pub(crate) struct Warpweft {
    comm: Comm,
    workers: usize,
}

impl Contestant for Warpweft {
    const NAME: &'static str = "warpweft";

    fn run<W: Workload>(workload: W, workers: usize) -> Result<Report, MpiError> {
        let runtime = Runtime::builder()
            .workers(workers)
            .build()
            .expect("the system gives threads");
        let mpi = Mpi::init(&runtime)?;
        let (rank, ranks) = (mpi.rank(), mpi.size());
        if let Some(refusal) = refusal::<Self>(&workload, (rank, ranks), workers) {
            mpi.finalize()?;
            return Ok(refusal);
        }
        let comm = mpi.world().clone();
        let program = runtime.spawn(workload.warpweft(Self { comm, workers }));
        let figures = program.wait().expect("a panic ends the process");
        mpi.finalize()?;
        Ok(Report {
            rank,
            ranks,
            outcome: Outcome::Figures(figures),
        })
    }
}

const PANICKED: &str = "a panic ends the process";

impl ForkJoin for Warpweft {
    fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        warpweft::join(a, b)
    }
}

impl Futures for Warpweft {
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    fn size(&self) -> usize {
        self.comm.size()
    }

    fn send(&self, to: usize, tag: i32, bytes: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send + 'static {
        let request = self.comm.send(to, tag, bytes);
        async { request.await.expect(FAILED) }
    }

    fn recv(&self, from: usize, tag: i32, buffer: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send + 'static {
        let request = self.comm.recv_into(from, tag, buffer);
        async { request.await.expect(FAILED).bytes }
    }

    fn all_to_all(&self, bytes: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send + 'static {
        let request = self.comm.all_to_all(bytes);
        async { request.await.expect(FAILED) }
    }

    fn all_gather(&self, bytes: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send + 'static {
        let request = self.comm.all_gather(bytes);
        async { request.await.expect(FAILED) }
    }

    fn barrier(&self) -> impl Future<Output = ()> + Send + 'static {
        let request = self.comm.barrier();
        async { request.await.expect(FAILED) }
    }

    fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        let task = warpweft::spawn(task);
        async { task.await.expect(PANICKED) }
    }

    fn compute<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        // A job may fork on its own stack, as `join` does.
        let job = warpweft::spawn_job(job);
        async { job.await.expect(PANICKED) }
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        warpweft::time::sleep(time)
    }

    fn yield_now(&self) -> impl Future<Output = ()> + Send + 'static {
        warpweft::yield_now()
    }
}

impl WarpweftTasks for Warpweft {
    fn comm(&self) -> &Comm {
        &self.comm
    }

    fn workers(&self) -> usize {
        self.workers
    }
}
