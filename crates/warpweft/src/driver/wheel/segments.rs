//! A vector that grows without moving more than its last segment.
//!
//! A vector of a million timers that doubles copies 40 MB under the lock of its shard, and needs the old
//! memory beside the new one.

use std::ops::{Index, IndexMut};

/// See the [module](self). A segment has `N` elements, a power of two.
#[derive(Debug)]
pub(super) struct Segments<T, const N: usize> {
    /// All but the last one are full.
    all: Vec<Vec<T>>,
}

impl<T, const N: usize> Segments<T, N> {
    pub(super) fn new() -> Self {
        Self { all: Vec::new() }
    }

    /// Adds an element, and returns its number.
    pub(super) fn push(&mut self, element: T) -> u32 {
        if self.all.last().is_none_or(|last| last.len() == N) {
            // It grows as it is filled: many wheels have few timers.
            self.all.push(Vec::new());
        }
        let before = self.all.len() - 1;
        let last = &mut self.all[before];
        last.push(element);
        let number = before * N + last.len() - 1;
        // 2³² timers would take 160 GiB.
        u32::try_from(number).unwrap_or_else(|_| unreachable!("memory ends before"))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter().flatten()
    }

    /// Returns the address of an element that exists.
    #[inline]
    pub(super) fn address(&self, number: u32) -> *const T {
        &raw const self[number]
    }
}

impl<T, const N: usize> Index<u32> for Segments<T, N> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.all[number as usize / N][number as usize % N]
    }
}

impl<T, const N: usize> IndexMut<u32> for Segments<T, N> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.all[number as usize / N][number as usize % N]
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::Segments;

    #[test]
    fn elements_of_full_segments_stay_where_they_are() {
        let mut segments = Segments::<u64, 4>::new();
        let mut addresses = Vec::new();
        for number in 0..48 {
            assert_eq!(segments.push(u64::from(number)), number);
            segments[number] += 100;
            if number % 4 == 3 {
                addresses.extend((number - 3..=number).map(|number| segments.address(number)));
            }
        }
        for number in 0..48 {
            assert_eq!(segments[number], u64::from(number) + 100);
            assert_eq!(segments.address(number), addresses[number as usize]);
        }
        assert_eq!(segments.iter().count(), 48);
    }
}
