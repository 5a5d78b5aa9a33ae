//! A table by addresses, for dumps of very many tasks: the usual hash takes longer than all else.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by addresses of this process.
pub(crate) type Addresses<T> = HashMap<usize, T, BuildHasherDefault<Spread>>;

/// Returns an empty table with room for `room` entries.
pub(crate) fn addresses<T>(room: usize) -> Addresses<T> {
    Addresses::with_capacity_and_hasher(room, BuildHasherDefault::default())
}

/// Spreads addresses, whose lower bits are alike, by a product. Nobody chooses them, so nobody can make them
/// collide.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(byte.into());
        }
    }

    fn write_usize(&mut self, address: usize) {
        // The golden ratio: the upper half of the product depends on all bits, and goes below, too.
        let product = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::{BuildHasher as _, BuildHasherDefault};

    #[test]
    fn addresses_of_equal_objects_are_spread() {
        let build = BuildHasherDefault::<Spread>::default();
        for size in [16, 64, 128, 4096] {
            let (mut low, mut high) = (HashSet::new(), HashSet::new());
            for at in 0..1024_usize {
                let hash = build.hash_one(0x7f00_0000_0000 + at * size);
                // What the table uses: the lower bits, and the upper seven.
                low.insert(hash & 0xffff);
                high.insert(hash >> 57);
            }
            assert!(
                low.len() > 900 && high.len() > 100,
                "{size}: {} {}",
                low.len(),
                high.len()
            );
        }
    }

    #[test]
    fn a_table_finds_what_was_put_there() {
        let mut table = addresses(4);
        table.extend((0..1000_usize).map(|at| (at * 64, at)));
        assert!((0..1000).all(|at| table.get(&(at * 64)) == Some(&at)));
        assert_eq!(table.get(&1), None);
    }
}
