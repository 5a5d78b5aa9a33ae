//! Sorts: by hand, with joins, and rayon's own.

use super::{Program, random};
use rayon::prelude::*;

pub(super) const PROGRAMS: [Program; 4] = [
    ("quicksort", || sort(300_000, quicksort)),
    ("mergesort", || {
        sort(1_000_000, |numbers| {
            let mut buffer = vec![0; numbers.len()];
            mergesort(numbers, &mut buffer);
        })
    }),
    ("par-sort", || sort(1_000_000, |numbers| numbers.par_sort())),
    ("par-sort-unstable", || {
        sort(1_000_000, |numbers| numbers.par_sort_unstable())
    }),
];

/// Below this many a half is sorted by its thread alone.
const SMALL: usize = 1024;

fn sort(length: usize, by: fn(&mut [u64])) -> Box<dyn FnMut() -> u64> {
    let mut random = random();
    let numbers: Vec<u64> = (0..length).map(|_| random.u64(..)).collect();
    Box::new(move || {
        let mut numbers = numbers.clone();
        by(&mut numbers);
        assert!(numbers.is_sorted());
        numbers[length / 2]
    })
}

/// As the demo does it: the last element is the pivot, and each part is forked down to five elements.
fn quicksort(numbers: &mut [u64]) {
    if numbers.len() <= 5 {
        numbers.sort_unstable();
        return;
    }
    let last = numbers.len() - 1;
    let mut middle = 0;
    for at in 0..last {
        if numbers[at] <= numbers[last] {
            numbers.swap(at, middle);
            middle += 1;
        }
    }
    numbers.swap(middle, last);
    let (low, high) = numbers.split_at_mut(middle);
    rayon::join(|| quicksort(low), || quicksort(&mut high[1..]));
}

fn mergesort(numbers: &mut [u64], buffer: &mut [u64]) {
    if numbers.len() <= SMALL {
        numbers.sort();
        return;
    }
    let middle = numbers.len() / 2;
    let (left, right) = numbers.split_at_mut(middle);
    let (left_buffer, right_buffer) = buffer.split_at_mut(middle);
    rayon::join(|| mergesort(left, left_buffer), || mergesort(right, right_buffer));
    merge(left, right, buffer);
    numbers.copy_from_slice(buffer);
}

/// Merges two sorted parts: the larger one is cut in its middle, the other one where that element belongs.
fn merge(left: &[u64], right: &[u64], into: &mut [u64]) {
    let (left, right) = if left.len() < right.len() {
        (right, left)
    } else {
        (left, right)
    };
    if left.len() + right.len() <= SMALL {
        let (mut l, mut r) = (left.iter().peekable(), right.iter().peekable());
        for place in into {
            let from_left = match (l.peek(), r.peek()) {
                (Some(l), Some(r)) => l <= r,
                (l, _) => l.is_some(),
            };
            let next = if from_left { l.next() } else { r.next() };
            *place = *next.expect("the parts have as many elements as the whole");
        }
        return;
    }
    let middle = left.len() / 2;
    let there = right.partition_point(|number| *number < left[middle]);
    let (low, high) = into.split_at_mut(middle + there);
    rayon::join(
        || merge(&left[..middle], &right[..there], low),
        || merge(&left[middle..], &right[there..], high),
    );
}
