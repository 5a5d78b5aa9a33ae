//! The two stealable queues behind one trait, so that one test works for both.

use warpweft_queue::{Fifo, Lifo, Owner, Word};

/// One of the two queues, for elements of any kind.
pub trait Kind {
    const YOUNGEST_FIRST: bool;

    type Queue<T: Word>: Owner<T>;

    fn make<T: Word>(capacity: usize, start: u64) -> Self::Queue<T>;
}

pub struct OldestFirst;
pub struct YoungestFirst;

impl Kind for OldestFirst {
    const YOUNGEST_FIRST: bool = false;

    type Queue<T: Word> = Fifo<T>;

    fn make<T: Word>(capacity: usize, start: u64) -> Fifo<T> {
        Fifo::with_start(capacity, start).expect("a small capacity")
    }
}

impl Kind for YoungestFirst {
    const YOUNGEST_FIRST: bool = true;

    type Queue<T: Word> = Lifo<T>;

    fn make<T: Word>(capacity: usize, start: u64) -> Lifo<T> {
        Lifo::with_start(capacity, start).expect("a small capacity")
    }
}
