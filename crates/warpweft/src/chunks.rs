//! A vector that grows without moving what it holds.
//!
//! ```text
//!   first: grows by doubling, to 512      more: chunks of 512, each allocated once
//!   [ 0 … 511 ]                           [ 512 … 1023 ] [ 1024 … 1535 ] …
//! ```
//!
//! A vector of a million elements moves all of them when it grows, under the lock of whoever owns it, and
//! takes twice their memory meanwhile. Here the longest step allocates a chunk. A few elements are one
//! allocation, as in a vector.

use std::ops::{Index, IndexMut};

/// The elements of a chunk.
const CHUNK: usize = 512;

#[derive(Debug)]
pub(crate) struct Chunks<T> {
    first: Vec<T>,
    /// Each but the last is full.
    more: Vec<Vec<T>>,
}

impl<T> Chunks<T> {
    pub(crate) const fn new() -> Self {
        Self {
            first: Vec::new(),
            more: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self.more.last() {
            None => self.first.len(),
            Some(last) => self.more.len() * CHUNK + last.len(),
        }
    }

    pub(crate) fn push(&mut self, value: T) {
        if self.first.len() < CHUNK {
            self.first.push(value);
            return;
        }
        match self.more.last_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => last.push(value),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(value);
                self.more.push(chunk);
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        if index < CHUNK {
            return self.first.get(index);
        }
        self.more.get(index / CHUNK - 1)?.get(index % CHUNK)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if index < CHUNK {
            return self.first.get_mut(index);
        }
        self.more.get_mut(index / CHUNK - 1)?.get_mut(index % CHUNK)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.more.iter().flatten())
    }

    /// Returns the number of elements for which there is memory.
    #[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
    pub(crate) fn capacity(&self) -> usize {
        self.first.capacity() + self.more.len() * CHUNK
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        if index < CHUNK {
            return &self.first[index];
        }
        &self.more[index / CHUNK - 1][index % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        if index < CHUNK {
            return &mut self.first[index];
        }
        &mut self.more[index / CHUNK - 1][index % CHUNK]
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{CHUNK, Chunks};

    #[test]
    fn it_holds_what_a_vector_holds() {
        let (mut chunks, mut vector) = (Chunks::new(), Vec::new());
        for number in 0..3 * CHUNK + 2 {
            assert_eq!((chunks.len(), chunks.get(number)), (number, None));
            chunks.push(number);
            vector.push(number);
            // At the edges of chunks all are looked at.
            if matches!(number % CHUNK, 0 | 1 | 511) {
                assert!(chunks.iter().eq(&vector));
                assert!((0..=number).all(|at| chunks[at] == at && chunks.get(at) == Some(&at)));
            }
        }
        chunks[CHUNK] = 7;
        *chunks.get_mut(3 * CHUNK).expect("it is there") = 8;
        assert_eq!(
            (chunks[CHUNK], chunks[3 * CHUNK], chunks[CHUNK - 1]),
            (7, 8, CHUNK - 1)
        );
        assert_eq!(chunks.get_mut(3 * CHUNK + 2), None);
    }

    #[test]
    fn no_element_moves_once_there_are_many() {
        let mut chunks = Chunks::new();
        (0..CHUNK).for_each(|number| chunks.push(number));
        let places: Vec<_> = [0, CHUNK - 1].map(|at| &raw const chunks[at]).into();
        (0..10 * CHUNK).for_each(|number| chunks.push(number));
        let later: Vec<_> = [0, CHUNK - 1].map(|at| &raw const chunks[at]).into();
        assert_eq!(places, later);
        assert_eq!(chunks.capacity(), 11 * CHUNK);
    }

    #[test]
    fn a_few_elements_take_little() {
        let mut chunks = Chunks::new();
        assert_eq!(chunks.capacity(), 0);
        chunks.push(1_u64);
        assert!(chunks.capacity() <= 4);
    }
}
