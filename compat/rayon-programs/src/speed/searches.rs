//! Searches: the shortest tour, the first element, numbers of Pythagoras, permutations.

use super::{Program, random};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const PROGRAMS: [Program; 5] = [
    ("tsp", || {
        let mut random = random();
        let places: Vec<[i64; 2]> = (0..CITIES)
            .map(|_| [random.i64(0..1000), random.i64(0..1000)])
            .collect();
        let distance = |a: &[i64; 2], b: &[i64; 2]| a[0].abs_diff(b[0]) + a[1].abs_diff(b[1]);
        let distances: Vec<Vec<u64>> = places
            .iter()
            .map(|from| places.iter().map(|to| distance(from, to)).collect())
            .collect();
        Box::new(move || shortest(&distances))
    }),
    ("find-first", || {
        let numbers: Vec<u64> = (0..2_000_000).collect();
        Box::new(move || {
            let found = numbers.par_iter().find_first(|number| **number == 1_500_000);
            *found.expect("it is there")
        })
    }),
    ("find-any", || {
        let numbers: Vec<u64> = (0..2_000_000).collect();
        Box::new(move || {
            let found = numbers.par_iter().find_any(|number| **number == 1_500_000);
            *found.expect("it is there")
        })
    }),
    ("pythagoras", || Box::new(|| pythagoras(700))),
    ("fannkuch", || Box::new(|| fannkuch(9))),
];

const CITIES: usize = 11;

/// The length of the shortest tour, by branch and bound.
fn shortest(distances: &[Vec<u64>]) -> u64 {
    let best = AtomicU64::new(u64::MAX);
    rayon::scope(|scope| tours(scope, distances, &best, vec![0], 0));
    best.into_inner()
}

/// Tries all continuations of a part of a tour: in closures, as long as many cities are left.
fn tours<'scope>(
    scope: &rayon::Scope<'scope>,
    distances: &'scope [Vec<u64>],
    best: &'scope AtomicU64,
    tour: Vec<usize>,
    length: u64,
) {
    if length >= best.load(Ordering::Relaxed) {
        return;
    }
    let here = tour[tour.len() - 1];
    if tour.len() == CITIES {
        best.fetch_min(length + distances[here][0], Ordering::Relaxed);
        return;
    }
    for next in (0..CITIES).filter(|city| !tour.contains(city)) {
        let length = length + distances[here][next];
        let mut tour = tour.clone();
        tour.push(next);
        if tour.len() < CITIES - 6 {
            scope.spawn(move |scope| tours(scope, distances, best, tour, length));
        } else {
            tours(scope, distances, best, tour, length);
        }
    }
}

/// The product of all multiples of triples of Pythagoras below `limit`, in a loop in a loop.
fn pythagoras(limit: u64) -> u64 {
    let triples = (1..limit).into_par_iter().map(|m| {
        let inner = (1..m).into_par_iter();
        let inner = inner.filter(|n| (m - n) % 2 == 1 && divisor(m, *n) == 1);
        let inner = inner.map(|n| (m * m - n * n) ^ (2 * m * n) ^ (m * m + n * n));
        inner.sum::<u64>()
    });
    triples.sum()
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// The largest number of flips of all permutations of `n` numbers.
fn fannkuch(n: usize) -> u64 {
    let count: usize = (1..=n).product();
    let flips = (0..count).into_par_iter().map(|index| {
        let mut numbers: [u8; 16] = std::array::from_fn(|at| u8::try_from(at).unwrap_or(0));
        let mut rest = index;
        for place in (1..n).rev() {
            let factor: usize = (1..=place).product();
            numbers[..=place].rotate_left(rest / factor);
            rest %= factor;
        }
        let mut flips = 0;
        while numbers[0] != 0 {
            let first = usize::from(numbers[0]);
            numbers[..=first].reverse();
            flips += 1;
        }
        flips
    });
    flips.max().unwrap_or(0)
}
