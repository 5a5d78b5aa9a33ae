//! Plain MPI: one thread by rank, whose calls return when the message is there.

use super::{Contestant, with_mpi};
use crate::idioms::{Calls, FAILED, ForkJoin};
use crate::workload::{Report, Workload};
use std::cell::RefCell;
use std::ops::DerefMut;
use warpweft_mpi::MpiError;
use warpweft_mpi::raw::{RawMpi, RawRequest};

#[derive(Debug)]
pub(crate) struct Blocking {
    mpi: RefCell<RawMpi>,
    rank: usize,
    size: usize,
}

impl Contestant for Blocking {
    const NAME: &'static str = "blocking";
    const HAS_ONE_THREAD: bool = true;

    fn run<W: Workload>(workload: W, workers: usize) -> Result<Report, MpiError> {
        with_mpi::<Self, W>(workload, workers, |workload, mpi| {
            let blocking = Self {
                rank: mpi.rank(),
                size: mpi.size(),
                mpi: RefCell::new(mpi),
            };
            (workload.calls(&blocking), blocking.mpi.into_inner())
        })
    }
}

impl ForkJoin for Blocking {
    fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        (a(), b())
    }
}

impl Calls for Blocking {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn mpi(&self) -> impl DerefMut<Target = RawMpi> {
        self.mpi.borrow_mut()
    }

    fn send(&self, to: usize, tag: i32, bytes: Vec<u8>) -> Vec<u8> {
        self.mpi().send(to, tag, &bytes).expect(FAILED);
        bytes
    }

    fn recv(&self, from: usize, tag: i32, mut buffer: Vec<u8>) -> Vec<u8> {
        self.mpi().recv(from, tag, &mut buffer).expect(FAILED);
        buffer
    }

    fn wait(&self, mut request: RawRequest) -> Vec<u8> {
        self.mpi().wait(&mut request).expect(FAILED);
        request.into_bytes()
    }

    fn meanwhile(&self, requests: &mut [RawRequest], parts: usize, work: &mut dyn FnMut(usize)) {
        for request in requests {
            self.mpi().wait(request).expect(FAILED);
        }
        (0..parts).for_each(work);
    }

    fn for_each(&self, count: usize, job: &(dyn Fn(&Self, usize) + Sync)) {
        (0..count).for_each(|index| job(self, index));
    }
}
