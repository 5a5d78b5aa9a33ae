//! Loops, as the guide says to write what is an iterator in rayon.

use ::warpweft::{Runtime, par_chunks_mut};
use harness::Counters;

use super::{OPEN, counters};
use crate::idioms::loops::{LoopPool, Loops, Piece};

/// A runtime, seen by programs of loops.
pub(super) struct LoopsOf<'a>(pub(super) &'a Runtime);

/// The loops, in pieces of this length.
#[derive(Clone, Copy)]
pub(super) struct Api(usize);

/// Halves the slice down to pieces.
fn sum<T: Sync>(over: &[T], piece: usize, make: &(impl Fn(&T) -> u64 + Sync)) -> u64 {
    if over.len() <= piece {
        return over.iter().map(make).sum();
    }
    let (left, right) = over.split_at(over.len() / 2);
    let (left, right) = ::warpweft::join(|| sum(left, piece, make), || sum(right, piece, make));
    left + right
}

impl Loops for Api {
    fn sum<T: Sync>(self, over: &[T], make: impl Fn(&T) -> u64 + Send + Sync) -> u64 {
        sum(over, self.0, &make)
    }

    fn map<T: Sync>(self, over: &[T], make: impl Fn(&T) -> u64 + Send + Sync) -> Vec<u64> {
        let mut all = vec![0; over.len()];
        par_chunks_mut(&mut all, self.0, |piece, chunk| {
            for (into, one) in chunk.iter_mut().zip(&over[piece * self.0..]) {
                *into = make(one);
            }
        });
        all
    }

    fn each<T: Send>(self, over: &mut [T], change: impl Fn(&mut T) + Send + Sync) {
        par_chunks_mut(over, self.0, |_, chunk| chunk.iter_mut().for_each(&change));
    }
}

impl LoopPool for LoopsOf<'_> {
    type Loops = Api;

    fn run<T: Send>(&self, piece: Piece, root: impl FnOnce(Api) -> T + Send) -> T {
        let (Piece::Own(length) | Piece::About(length)) = piece;
        self.0.install(|_| root(Api(length.get()))).expect(OPEN)
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(self.0))
    }
}
