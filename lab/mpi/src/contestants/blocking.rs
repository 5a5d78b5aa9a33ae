//! Plain MPI: one thread by rank, whose calls return when the message is there.

use super::{Contestant, refusal};
use crate::idioms::{Calls, ForkJoin};
use crate::workload::{Outcome, Report, Workload};
use std::cell::RefCell;
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
        let mpi = RawMpi::init()?;
        let (rank, ranks) = (mpi.rank(), mpi.size());
        if let Some(refusal) = refusal::<Self>(&workload, (rank, ranks), workers) {
            mpi.finalize()?;
            return Ok(refusal);
        }
        let blocking = Self {
            mpi: RefCell::new(mpi),
            rank,
            size: ranks,
        };
        let figures = workload.calls(&blocking);
        blocking.mpi.into_inner().finalize()?;
        Ok(Report {
            rank,
            ranks,
            outcome: Outcome::Figures(figures),
        })
    }
}

const FAILED: &str = "MPI does not fail";

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

    fn send(&self, to: usize, tag: i32, bytes: Vec<u8>) -> Vec<u8> {
        self.mpi.borrow_mut().send(to, tag, &bytes).expect(FAILED);
        bytes
    }

    fn recv(&self, from: usize, tag: i32, mut buffer: Vec<u8>) -> Vec<u8> {
        self.mpi.borrow_mut().recv(from, tag, &mut buffer).expect(FAILED);
        buffer
    }

    fn post_send(&self, to: usize, tag: i32, bytes: Vec<u8>) -> RawRequest {
        self.mpi.borrow_mut().isend(to, tag, bytes).expect(FAILED)
    }

    fn post_recv(&self, from: usize, tag: i32, buffer: Vec<u8>) -> RawRequest {
        self.mpi.borrow_mut().irecv(from, tag, buffer).expect(FAILED)
    }

    fn post_all_to_all(&self, bytes: Vec<u8>) -> RawRequest {
        self.mpi.borrow_mut().ialltoall(bytes).expect(FAILED)
    }

    fn post_all_gather(&self, bytes: Vec<u8>) -> RawRequest {
        self.mpi.borrow_mut().iallgather(bytes).expect(FAILED)
    }

    fn post_barrier(&self) -> RawRequest {
        self.mpi.borrow_mut().ibarrier().expect(FAILED)
    }

    // Only the rank that answers needs this, and what it does is the same for all contestants.
    fn test(&self, request: &mut RawRequest) -> bool {
        self.mpi.borrow_mut().test(request).expect(FAILED)
    }

    fn wait(&self, mut request: RawRequest) -> Vec<u8> {
        self.mpi.borrow_mut().wait(&mut request).expect(FAILED);
        request.into_bytes()
    }

    fn meanwhile(&self, requests: &mut [RawRequest], parts: usize, work: &mut dyn FnMut(usize)) {
        for request in requests {
            self.mpi.borrow_mut().wait(request).expect(FAILED);
        }
        (0..parts).for_each(work);
    }

    fn for_each(&self, count: usize, job: &(dyn Fn(&Self, usize) + Sync)) {
        (0..count).for_each(|index| job(self, index));
    }
}
