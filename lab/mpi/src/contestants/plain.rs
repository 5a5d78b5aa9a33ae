//! Plain MPI: one thread by rank, which looks at its requests by `MPI_Test` in a loop.

use super::{Contestant, with_mpi};
use crate::idioms::{Calls, FAILED, ForkJoin, TestLoop};
use crate::workload::{Report, Workload};
use std::cell::RefCell;
use std::ops::DerefMut;
use std::thread;
use warpweft_mpi::MpiError;
use warpweft_mpi::raw::{RawMpi, RawRequest, WINDOW};

#[derive(Debug)]
pub(crate) struct Plain {
    mpi: RefCell<RawMpi>,
    rank: usize,
    size: usize,
}

impl Contestant for Plain {
    const NAME: &'static str = "plain";
    const HAS_ONE_THREAD: bool = true;

    fn run<W: Workload>(workload: W, workers: usize) -> Result<Report, MpiError> {
        with_mpi::<Self, W>(workload, workers, |workload, mpi| {
            let plain = Self {
                rank: mpi.rank(),
                size: mpi.size(),
                mpi: RefCell::new(mpi),
            };
            (workload.plain(&plain), plain.mpi.into_inner())
        })
    }
}

impl TestLoop for Plain {
    /// In windows, one after the other in rotation.
    fn wait_for_all(&self, requests: Vec<RawRequest>, mut ended: impl FnMut(usize, Vec<u8>)) {
        let mut places: Vec<usize> = (0..requests.len()).collect();
        let (mut requests, mut over, mut next) = (requests, Vec::new(), 0);
        while !requests.is_empty() {
            let end = requests.len().min(next + WINDOW);
            let window = &mut requests[next..end];
            self.mpi().test_some(window, &mut over).expect(FAILED);
            // From the last one on: each takes the place of the one that leaves.
            for index in over.drain(..).rev() {
                let bytes = requests.swap_remove(next + index).into_bytes();
                ended(places.swap_remove(next + index), bytes);
            }
            next = if end < requests.len() { end } else { 0 };
        }
    }

    fn take(&self, request: &mut Option<RawRequest>) -> Option<Vec<u8>> {
        let is_over = self.test(request.as_mut()?);
        is_over
            .then(|| request.take().map(RawRequest::into_bytes))
            .flatten()
    }

    fn idle(&self) {
        thread::yield_now();
    }
}

impl ForkJoin for Plain {
    fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        (a(), b())
    }
}

impl Calls for Plain {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn mpi(&self) -> impl DerefMut<Target = RawMpi> {
        self.mpi.borrow_mut()
    }

    fn wait(&self, mut request: RawRequest) -> Vec<u8> {
        while !self.test(&mut request) {}
        request.into_bytes()
    }

    fn meanwhile(&self, requests: &mut [RawRequest], parts: usize, work: &mut dyn FnMut(usize)) {
        for part in 0..parts {
            work(part);
            for request in &mut *requests {
                self.test(request);
            }
        }
    }

    fn for_each(&self, count: usize, job: &(dyn Fn(&Self, usize) + Sync)) {
        (0..count).for_each(|index| job(self, index));
    }
}
