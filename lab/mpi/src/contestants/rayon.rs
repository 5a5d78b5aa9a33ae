//! A pool of rayon beside MPI: its jobs make calls that return when the message is there.
//!
//! MPI takes one call at a time, so a job that waits looks again and again, under a lock that it releases in
//! between. Otherwise the first job that waits would keep the others from sending what it waits for.

use super::{Contestant, refusal};
use crate::idioms::{Calls, ForkJoin};
use crate::workload::{Outcome, Report, Workload};
use rayon::iter::{IndexedParallelIterator as _, IntoParallelIterator as _, ParallelIterator as _};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use warpweft_mpi::MpiError;
use warpweft_mpi::raw::{RawMpi, RawRequest};

#[derive(Debug)]
pub(crate) struct Rayon {
    mpi: Mutex<RawMpi>,
    pool: ThreadPool,
    rank: usize,
    size: usize,
}

impl Contestant for Rayon {
    const NAME: &'static str = "rayon";

    fn run<W: Workload>(workload: W, workers: usize) -> Result<Report, MpiError> {
        let mpi = RawMpi::init()?;
        let (rank, ranks) = (mpi.rank(), mpi.size());
        if let Some(refusal) = refusal::<Self>(&workload, (rank, ranks), workers) {
            mpi.finalize()?;
            return Ok(refusal);
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(workers)
            .build()
            .expect("the system gives threads");
        let rayon = Self {
            mpi: Mutex::new(mpi),
            pool,
            rank,
            size: ranks,
        };
        let figures = rayon.pool.install(|| workload.rayon(&rayon));
        let mpi = rayon.mpi.into_inner().expect("a panic ends the process");
        mpi.finalize()?;
        Ok(Report {
            rank,
            ranks,
            outcome: Outcome::Figures(figures),
        })
    }
}

const FAILED: &str = "MPI does not fail";

impl Rayon {
    fn mpi(&self) -> MutexGuard<'_, RawMpi> {
        self.mpi.lock().expect("a panic ends the process")
    }

    fn finish(&self, request: &mut RawRequest) {
        while !self.test(request) {
            thread::yield_now();
        }
    }
}

impl ForkJoin for Rayon {
    fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        rayon::join(a, b)
    }
}

impl Calls for Rayon {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&self, to: usize, tag: i32, bytes: Vec<u8>) -> Vec<u8> {
        self.wait(self.post_send(to, tag, bytes))
    }

    fn recv(&self, from: usize, tag: i32, buffer: Vec<u8>) -> Vec<u8> {
        self.wait(self.post_recv(from, tag, buffer))
    }

    fn post_send(&self, to: usize, tag: i32, bytes: Vec<u8>) -> RawRequest {
        self.mpi().isend(to, tag, bytes).expect(FAILED)
    }

    fn post_recv(&self, from: usize, tag: i32, buffer: Vec<u8>) -> RawRequest {
        self.mpi().irecv(from, tag, buffer).expect(FAILED)
    }

    fn post_all_to_all(&self, bytes: Vec<u8>) -> RawRequest {
        self.mpi().ialltoall(bytes).expect(FAILED)
    }

    fn post_all_gather(&self, bytes: Vec<u8>) -> RawRequest {
        self.mpi().iallgather(bytes).expect(FAILED)
    }

    fn post_barrier(&self) -> RawRequest {
        self.mpi().ibarrier().expect(FAILED)
    }

    fn test(&self, request: &mut RawRequest) -> bool {
        self.mpi().test(request).expect(FAILED)
    }

    fn wait(&self, mut request: RawRequest) -> Vec<u8> {
        self.finish(&mut request);
        request.into_bytes()
    }

    fn meanwhile(&self, requests: &mut [RawRequest], parts: usize, work: &mut dyn FnMut(usize)) {
        requests.iter_mut().for_each(|request| self.finish(request));
        (0..parts).for_each(work);
    }

    fn for_each(&self, count: usize, job: &(dyn Fn(&Self, usize) + Sync)) {
        (0..count)
            .into_par_iter()
            .with_max_len(1)
            .for_each(|index| job(self, index));
    }
}
