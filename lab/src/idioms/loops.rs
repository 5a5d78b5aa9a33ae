//! The idiom of loops: the elements of a slice are worked on side by side, in any order.
//!
//! | call | warpweft | rayon | orx-parallel | sequential |
//! |---|---|---|---|---|
//! | the sum of what a closure makes of each | halves and `join`, as its guide has it | `par_iter().map().sum()` | `par().map().sum()` | `iter().map().sum()` |
//! | the same as a new vector, in order | `par_chunks_mut` over zeros | `par_iter().map().collect()` | `par().map().collect()` | `iter().map().collect()` |
//! | each in place | `par_chunks_mut` | `par_iter_mut().for_each()` | `into_par().for_each()` | `iter_mut().for_each()` |
//! | a piece has about this length | the length of each piece | `with_min_len` and `with_max_len` | `ChunkSize::Exact` | |
//!
//! Invariants
//! - A closure is called once for each element of a loop.
//! - The clock of a workload runs inside of [`LoopPool::run`], where a contestant has an inside.

use std::num::NonZero;

use harness::Counters;

/// The elements that run one after the other on one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The contestant chooses. One that needs a number takes this one, which is about two microseconds.
    Own(NonZero<usize>),
    /// About this number, for every contestant: one that halves takes up to twice as many, or half as many at
    /// least.
    About(NonZero<usize>),
}

/// From inside a pool: the loops.
pub trait Loops: Copy {
    /// The sum of what the closure makes of each element.
    fn sum<T: Sync>(self, over: &[T], make: impl Fn(&T) -> u64 + Send + Sync) -> u64;

    /// What the closure makes of each element, in the order of the elements.
    fn map<T: Sync>(self, over: &[T], make: impl Fn(&T) -> u64 + Send + Sync) -> Vec<u64>;

    /// Changes each element.
    fn each<T: Send>(self, over: &mut [T], change: impl Fn(&mut T) + Send + Sync);
}

/// From outside: a pool that has loops.
pub trait LoopPool {
    /// The loops of the pool.
    type Loops: Loops;

    /// Runs the root where the pool's loops are called, and waits for it.
    fn run<T: Send>(&self, piece: Piece, root: impl FnOnce(Self::Loops) -> T + Send) -> T;

    /// The scheduler's counters, where it has some.
    fn counters(&self) -> Option<Counters> {
        None
    }
}
