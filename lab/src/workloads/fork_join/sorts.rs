//! *quicksort* and *mergesort*: random u64. Ranges up to the cut-off are sorted by the standard library, for
//! all contestants.

use std::time::Duration;

use fastrand::Rng;

use super::{Timed, nanos_each};
use crate::prelude::*;

/// Ranges up to this long are not split.
const CUT_OFF: usize = 1024;

/// Sorts a range in place: what is not greater than a pivot to the left, what is not less to the right, then
/// both.
pub(crate) struct Quicksort<'a>(pub(crate) &'a mut [u64]);

impl Branch for Quicksort<'_> {
    type Out = ();

    fn run<F: Fork>(self, mut cx: F) {
        if self.0.len() <= CUT_OFF {
            return leaf(self.0);
        }
        let middle = partition(self.0);
        let (left, right) = self.0.split_at_mut(middle);
        cx.join(Quicksort(left), Quicksort(right));
    }
}

/// Hoare's partition around the median of three: what is before the place that is given back is not greater
/// than what is behind it. Both sides have an element at least, if there are three.
#[inline(never)]
fn partition(range: &mut [u64]) -> usize {
    let last = range.len() - 1;
    let mut three = [range[0], range[last / 2], range[last]];
    three.sort_unstable();
    let pivot = three[1];
    let (mut low, mut high) = (0, last);
    loop {
        // Neither leaves the range: the pivot stops them the first time, what was swapped the next times.
        while range[low] < pivot {
            low += 1;
        }
        while range[high] > pivot {
            high -= 1;
        }
        if low >= high {
            return low;
        }
        range.swap(low, high);
        low += 1;
        high -= 1;
    }
}

/// Sorts a range into itself or into a buffer of the same length; the halves go to the other of the two.
struct Mergesort<'a> {
    range: &'a mut [u64],
    buffer: &'a mut [u64],
    into_buffer: bool,
}

impl Branch for Mergesort<'_> {
    type Out = ();

    fn run<F: Fork>(self, mut cx: F) {
        let Self {
            range,
            buffer,
            into_buffer,
        } = self;
        if range.len() <= CUT_OFF {
            leaf(range);
            if into_buffer {
                buffer.copy_from_slice(range);
            }
            return;
        }
        let middle = range.len() / 2;
        let (left, right) = range.split_at_mut(middle);
        let (left_buffer, right_buffer) = buffer.split_at_mut(middle);
        let half = |range, buffer| Mergesort {
            range,
            buffer,
            into_buffer: !into_buffer,
        };
        cx.join(half(left, left_buffer), half(right, right_buffer));
        if into_buffer {
            merge(range, middle, buffer);
        } else {
            merge(buffer, middle, range);
        }
    }
}

/// Merges the two sorted parts of `from` into `into`.
#[inline(never)]
fn merge(from: &[u64], middle: usize, into: &mut [u64]) {
    let (left, right) = from.split_at(middle);
    let (mut l, mut r) = (0, 0);
    for place in into {
        let from_right = l == left.len() || (r < right.len() && right[r] < left[l]);
        *place = if from_right {
            r += 1;
            right[r - 1]
        } else {
            l += 1;
            left[l - 1]
        };
    }
}

/// Sorts a range that is not split.
#[inline(never)]
fn leaf(range: &mut [u64]) {
    range.sort_unstable();
}

/// Always the same numbers.
pub(crate) fn numbers(n: usize) -> Vec<u64> {
    let mut random = Rng::with_seed(0x50f7);
    (0..n).map(|_| random.u64(..)).collect()
}

/// A figure that does not depend on the order: other numbers have, as good as always, another one.
pub(crate) fn checksum(numbers: &[u64]) -> u64 {
    let mixed = |number: &u64| {
        let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    };
    numbers
        .iter()
        .fold(0, |sum: u64, number| sum.wrapping_add(mixed(number)))
}

/// Quicksort over n random numbers.
pub(super) fn quicksort<P: ForkPool>(pool: &P, n: usize) -> Result<Outcome, LabError> {
    let mut range = numbers(n);
    let before = checksum(&range);
    let ((), elapsed) = pool.run(Timed(Quicksort(&mut range)));
    outcome(&range, before, elapsed)
}

/// Mergesort over n random numbers.
pub(super) fn mergesort<P: ForkPool>(pool: &P, n: usize) -> Result<Outcome, LabError> {
    let mut range = numbers(n);
    let before = checksum(&range);
    // Ones, not zeros: the pages are there before the clock runs.
    let mut buffer = vec![1; n];
    let ((), elapsed) = pool.run(Timed(Mergesort {
        range: &mut range,
        buffer: &mut buffer,
        into_buffer: false,
    }));
    outcome(&range, before, elapsed)
}

fn outcome(range: &[u64], before: u64, elapsed: Duration) -> Result<Outcome, LabError> {
    check("range is sorted", &range.is_sorted(), &true)?;
    check("checksum of the elements", &checksum(range), &before)?;
    let n = range.len() as u64;
    Ok(Outcome::new(n, elapsed).with_measure("ns_per_element", nanos_each(elapsed, n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_separates_and_leaves_something_on_both_sides() {
        let mut random = Rng::with_seed(1);
        for _ in 0..20_000 {
            let values = random.u64(1..20);
            let mut range: Vec<u64> = (0..random.usize(3..40)).map(|_| random.u64(..values)).collect();
            let before = checksum(&range);
            let middle = partition(&mut range);
            assert!((1..range.len()).contains(&middle), "{middle} of {range:?}");
            let (left, right) = range.split_at(middle);
            assert!(left.iter().max() <= right.iter().min(), "{left:?} | {right:?}");
            assert_eq!(checksum(&range), before);
        }
    }

    #[test]
    fn a_merge_is_what_sorting_gives() {
        let mut random = Rng::with_seed(2);
        for _ in 0..2000 {
            let mut from: Vec<u64> = (0..random.usize(2..30)).map(|_| random.u64(..20)).collect();
            let middle = random.usize(..=from.len());
            from[..middle].sort_unstable();
            from[middle..].sort_unstable();
            let mut into = vec![0; from.len()];
            merge(&from, middle, &mut into);
            from.sort_unstable();
            assert_eq!(into, from);
        }
    }

    #[test]
    fn what_is_not_sorted_or_not_the_same_is_found() {
        let elapsed = Duration::from_secs(1);
        let before = checksum(&[1, 2, 3]);
        assert!(outcome(&[1, 2, 3], before, elapsed).is_ok());
        for wrong in [[1, 3, 2], [1, 2, 2], [2, 2, 2]] {
            assert!(outcome(&wrong, before, elapsed).is_err(), "{wrong:?}");
        }
    }
}
