//! Trees: products of large numbers, walks, and running sums.

use super::Program;
use rayon::prelude::*;
use std::hint::black_box;
use std::ops::Range;

pub(super) const PROGRAMS: [Program; 6] = [
    ("factorial-join", || {
        Box::new(|| digest(&product(1..=black_box(FACTORIAL))))
    }),
    ("factorial-reduce", || {
        Box::new(|| {
            let numbers = (1..black_box(FACTORIAL) + 1)
                .into_par_iter()
                .map(|number| vec![number]);
            digest(&numbers.reduce(|| vec![1], |a, b| times(&a, &b)))
        })
    }),
    ("factorial-fold", || {
        Box::new(|| {
            let numbers = (1..black_box(FACTORIAL) + 1).into_par_iter();
            let products =
                numbers.fold_chunks_with(64, vec![1], |product, number| times(&product, &[number]));
            digest(&products.reduce(|| vec![1], |a, b| times(&a, &b)))
        })
    }),
    ("walk-prefix-sum", || {
        Box::new(|| {
            rayon::iter::walk_tree_prefix(0..WALK, below)
                .map(|part| part.start)
                .sum()
        })
    }),
    ("walk-postfix-collect", || {
        Box::new(|| {
            let parts: Vec<u64> = rayon::iter::walk_tree_postfix(0..WALK, below)
                .map(|part| part.start)
                .collect();
            parts
                .iter()
                .enumerate()
                .fold(0, |all, (at, start)| all ^ (at as u64 * start))
        })
    }),
    ("scan", || {
        let numbers: Vec<u64> = (0..1_000_000).collect();
        Box::new(move || {
            let mut numbers = numbers.clone();
            scan(&mut numbers);
            numbers[numbers.len() - 1] ^ numbers[numbers.len() / 3]
        })
    }),
];

const FACTORIAL: u32 = 5000;

/// A product of numbers in a row, by halves.
fn product(numbers: std::ops::RangeInclusive<u32>) -> Vec<u32> {
    let (first, last) = (*numbers.start(), *numbers.end());
    if first == last {
        return vec![first];
    }
    let middle = first.midpoint(last);
    let (a, b) = rayon::join(|| product(first..=middle), || product(middle + 1..=last));
    times(&a, &b)
}

/// The product of two numbers of any length, lowest digits first.
fn times(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut product = vec![0u32; a.len() + b.len()];
    for (at, digit) in a.iter().enumerate() {
        let mut carry = 0;
        for (place, other) in product[at..].iter_mut().zip(b.iter().chain([&0])) {
            let sum = u64::from(*digit) * u64::from(*other) + u64::from(*place) + carry;
            *place = sum as u32;
            carry = sum >> 32;
        }
    }
    while product.len() > 1 && product.last() == Some(&0) {
        product.pop();
    }
    product
}

fn digest(number: &[u32]) -> u64 {
    number
        .iter()
        .fold(0, |all: u64, digit| all.rotate_left(5) ^ u64::from(*digit))
}

const WALK: u64 = 100_000;

/// The two halves of what is left of a range without its first number.
fn below(part: &Range<u64>) -> impl DoubleEndedIterator<Item = Range<u64>> + use<> {
    let (start, end) = (part.start + 1, part.end);
    let middle = start.midpoint(end);
    [start..middle, middle..end]
        .into_iter()
        .filter(|part| !part.is_empty())
}

/// Replaces each number by the sum of all up to it: sums of blocks, where each block starts, and the sums
/// within.
fn scan(numbers: &mut [u64]) {
    const BLOCK: usize = 10_000;
    let sums: Vec<u64> = numbers
        .par_chunks(BLOCK)
        .map(|block| block.iter().sum())
        .collect();
    let starts: Vec<u64> = sums
        .into_iter()
        .scan(0, |before, sum| {
            *before += sum;
            Some(*before - sum)
        })
        .collect();
    numbers
        .par_chunks_mut(BLOCK)
        .zip(starts)
        .for_each(|(block, start)| {
            let mut sum = start;
            for number in block {
                sum += *number;
                *number = sum;
            }
        });
}
