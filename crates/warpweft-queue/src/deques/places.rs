//! A table that finds a suspended deque under the number that its task carries.
//!
//! ```text
//!   word = generation:32 | index:32       index = own * shards + shard: each worker has its own numbers
//!                             │
//!   DequeEntry { generation, home, at }   home: the set that the deque is in; `at`: its member of that set
//!                                         NOWHERE: it has no tasks, so it is in no set
//! ```
//!
//! # Invariants
//!
//! - An entry is taken while its generation is odd, from `insert` to `remove`. So a word is never 0, and the
//!   word of an earlier use is recognised.
//! - Free entries form a list through `at`. They are used again before new ones are made. So there are never
//!   more entries than there were suspended deques at one time: 12 bytes for each, and nothing else for a
//!   deque without tasks.

/// The deque is in no set.
pub(super) const NOWHERE: u32 = u32::MAX;

/// The end of the list of free entries.
const NONE: u32 = u32::MAX;

/// How many entries are made at a time. They never move.
const CHUNK: usize = 256;

#[derive(Clone, Copy)]
pub(super) struct DequeEntry {
    generation: u32,
    /// The set; [`NOWHERE`] if it is in none.
    pub(super) home: u32,
    /// The member of that set; in a free entry the next free one.
    pub(super) at: u32,
}

/// The entries that one worker gives out.
pub(super) struct Places {
    chunks: Vec<Box<[DequeEntry]>>,
    made: u32,
    free: u32,
    shard: u32,
    shards: u32,
    limit: u32,
}

/// The index in a word.
pub(super) fn index(word: u64) -> u32 {
    word as u32
}

impl Places {
    /// Makes the table of worker `shard` of `shards`.
    pub(super) fn new(shard: usize, shards: usize) -> Self {
        Self {
            chunks: Vec::new(),
            made: 0,
            free: NONE,
            shard: shard as u32,
            shards: shards as u32,
            limit: NONE / shards as u32,
        }
    }

    /// Takes an entry for a deque that is in no set. `None`: all 2^32 numbers are taken.
    pub(super) fn insert(&mut self) -> Option<u64> {
        let own = if self.free == NONE {
            self.make()?
        } else {
            self.free
        };
        let place = &mut self.chunks[own as usize / CHUNK][own as usize % CHUNK];
        self.free = place.at;
        place.generation = place.generation.wrapping_add(1);
        place.home = NOWHERE;
        let index = own * self.shards + self.shard;
        Some(u64::from(place.generation) << 32 | u64::from(index))
    }

    /// Makes a new entry, when the list of free ones is empty.
    fn make(&mut self) -> Option<u32> {
        if self.made == self.limit {
            return None;
        }
        if self.made as usize == self.chunks.len() * CHUNK {
            let free = DequeEntry {
                generation: 0,
                home: NOWHERE,
                at: NONE,
            };
            self.chunks.push(Box::new([free; CHUNK]));
        }
        self.made += 1;
        Some(self.made - 1)
    }

    /// Returns the entry of this word; `None` if its deque is not suspended any more.
    pub(super) fn get(&self, word: u64) -> Option<DequeEntry> {
        let own = (index(word) / self.shards) as usize;
        let place = *self.chunks.get(own / CHUNK)?.get(own % CHUNK)?;
        (word >> 32 == u64::from(place.generation) && place.generation % 2 == 1).then_some(place)
    }

    /// Records that the suspended deque with this index has moved.
    pub(super) fn moved(&mut self, index: u32, home: u32, at: u32) {
        let own = (index / self.shards) as usize;
        let place = &mut self.chunks[own / CHUNK][own % CHUNK];
        debug_assert!(place.generation % 2 == 1, "a free place has no deque");
        (place.home, place.at) = (home, at);
    }

    /// Removes the entry of this word, which [`get`](Self::get) finds.
    pub(super) fn remove(&mut self, word: u64) {
        let own = index(word) / self.shards;
        let place = &mut self.chunks[own as usize / CHUNK][own as usize % CHUNK];
        place.generation = place.generation.wrapping_add(1);
        place.at = self.free;
        self.free = own;
    }

    /// Returns how many suspended deques are in no set. Looks at all entries.
    pub(super) fn nowhere(&self) -> usize {
        let made = self.chunks.iter().flat_map(|chunk| chunk.iter());
        made.filter(|place| place.generation % 2 == 1 && place.home == NOWHERE)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_earlier_uses_are_known_as_such() {
        let mut places = Places::new(1, 3);
        let first = places.insert().expect("a place");
        assert_ne!(first, 0);
        assert_eq!(index(first) % 3, 1, "the word says who gave it out");
        places.moved(index(first), 2, 7);
        let place = places.get(first).expect("it is taken");
        assert_eq!((place.home, place.at), (2, 7));
        places.remove(first);
        assert!(places.get(first).is_none());
        let second = places.insert().expect("a place");
        assert_eq!(index(second), index(first), "the place is used again");
        assert!(places.get(first).is_none());
        assert_eq!(places.get(second).expect("taken").home, NOWHERE);
        assert_eq!(places.nowhere(), 1);
    }

    #[test]
    fn generations_wrap_without_a_word_of_0() {
        let mut places = Places::new(0, 1);
        let word = places.insert().expect("a place");
        places.chunks[0][0].generation = u32::MAX;
        let last = u64::from(u32::MAX) << 32 | u64::from(index(word));
        assert!(places.get(last).is_some());
        places.remove(last);
        let next = places.insert().expect("a place");
        assert_eq!(next, 1 << 32);
        assert!(places.get(last).is_none());
    }

    #[test]
    fn a_place_that_cannot_be_had_is_none() {
        let mut places = Places::new(0, 1);
        places.limit = 2;
        let words = [places.insert(), places.insert()];
        assert!(places.insert().is_none());
        places.remove(words[1].expect("a place"));
        assert!(places.insert().is_some());
        assert!(places.insert().is_none());
    }

    /// The cost of a suspended deque without tasks.
    #[test]
    fn a_place_has_12_bytes() {
        assert_eq!(size_of::<DequeEntry>(), 12);
    }
}
