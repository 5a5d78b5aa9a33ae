//! orx-parallel: parallel iterators whose threads take chunks from one counter, and find the size of a chunk
//! by themselves.
//!
//! Equal: its iterators are called as its documentation calls them, with its default pool and its default
//! runner, which adapts the chunks. `num_threads` bounds the threads of each loop, as it does for users.
//!
//! Not equal
//! - The pool has one thread per CPU of the machine, and there is one pool for the process. So a request for
//!   more workers than CPUs is refused.
//! - Nothing runs inside of it: the thread that calls a loop hands it to the pool and sleeps until all
//!   threads have ended. Loops of the others are called on one of their workers.
//! - With one worker a loop runs on the calling thread, as its documentation says.
//! - It has no join, so fork-join is not measured. Its scope is meant for a few large closures, says its
//!   documentation, so `spawn/scope` is not measured either.

use std::thread;

use ::orx_parallel::{ChunkSize, IntoParIter, Par, Parallelizable};
use harness::{Caveat, LabError, Outcome, Peer, PeerInfo, Request};

use super::Contestant;
use crate::idioms::Idiom;
use crate::idioms::loops::{LoopPool, Loops, Piece};
use crate::program::{Parts, Program, measured};

/// orx-parallel.
pub(crate) struct OrxParallel;

impl Peer for OrxParallel {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "orx-parallel",
            about: "orx-parallel, for loops: threads take chunks of a size that adapts",
            packages: &["orx-parallel"],
        }
    }
}

impl Contestant for OrxParallel {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        (idiom != Idiom::Loops).then_some("it has parallel iterators only: see loops")
    }

    fn refusal(&self, request: &Request, idiom: Idiom, _: Parts) -> Result<Option<String>, LabError> {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        // Of the library: the most threads of its pool.
        let most = std::env::var("ORX_NUM_THREADS")
            .ok()
            .and_then(|text| text.parse().ok());
        let threads = cpus.min(most.unwrap_or(cpus));
        let too_many = idiom == Idiom::Loops && request.workers > threads;
        Ok(too_many
            .then(|| format!("its pool has a thread for each CPU, and ORX_NUM_THREADS at most: {threads}")))
    }

    fn caveat(&self, _: Idiom) -> Option<Caveat> {
        Some(Caveat::same("the caller is outside, and waits for the threads"))
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        let pool = Pool {
            threads: request.workers,
        };
        measured(program, || None, |program| program.loops(&pool))
    }
}

/// The pool of the process, of which a loop takes this number of threads.
struct Pool {
    threads: usize,
}

/// The loops, with what each of them is told.
#[derive(Clone, Copy)]
struct Api {
    threads: usize,
    chunk: ChunkSize,
}

impl Loops for Api {
    fn sum<T: Sync>(self, over: &[T], make: impl Fn(&T) -> u64 + Send + Sync) -> u64 {
        let make = &make;
        over.par()
            .num_threads(self.threads)
            .chunk_size(self.chunk)
            .map(make)
            .sum()
    }

    fn map<T: Sync>(self, over: &[T], make: impl Fn(&T) -> u64 + Send + Sync) -> Vec<u64> {
        let make = &make;
        over.par()
            .num_threads(self.threads)
            .chunk_size(self.chunk)
            .map(make)
            .collect()
    }

    fn each<T: Send>(self, over: &mut [T], change: impl Fn(&mut T) + Send + Sync) {
        let change = &change;
        over.into_par()
            .num_threads(self.threads)
            .chunk_size(self.chunk)
            .for_each(change);
    }
}

impl LoopPool for Pool {
    type Loops = Api;

    fn run<T: Send>(&self, piece: Piece, root: impl FnOnce(Api) -> T + Send) -> T {
        root(Api {
            threads: self.threads,
            chunk: match piece {
                Piece::Own(_) => ChunkSize::Auto,
                Piece::About(length) => ChunkSize::Exact(length),
            },
        })
    }
}
