//! A pool of rayon beside MPI: its jobs make calls that return when the message is there.
//!
//! MPI takes one call at a time, so a job that waits looks again and again, under a lock that it releases in
//! between. Otherwise the first job that waits would keep the others from sending what it waits for.

use super::{Contestant, with_mpi};
use crate::idioms::{Calls, ForkJoin};
use crate::workload::{Report, Workload};
use rayon::iter::{IndexedParallelIterator as _, IntoParallelIterator as _, ParallelIterator as _};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::DerefMut;
use std::sync::Mutex;
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
        with_mpi::<Self, W>(workload, workers, |workload, mpi| {
            let pool = ThreadPoolBuilder::new()
                .num_threads(workers)
                .build()
                .expect("the system gives threads");
            let rayon = Self {
                rank: mpi.rank(),
                size: mpi.size(),
                mpi: Mutex::new(mpi),
                pool,
            };
            let figures = rayon.pool.install(|| workload.rayon(&rayon));
            let mpi = rayon.mpi.into_inner().expect("a panic ends the process");
            (figures, mpi)
        })
    }
}

impl Rayon {
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

    fn mpi(&self) -> impl DerefMut<Target = RawMpi> {
        self.mpi.lock().expect("a panic ends the process")
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
