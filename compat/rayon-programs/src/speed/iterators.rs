//! Parallel iterators: maps, filters, collections, texts, bridges.

use super::{Program, random};
use rayon::prelude::*;
use std::collections::{HashMap, LinkedList};
use std::hint::black_box;

pub(super) const PROGRAMS: [Program; 9] = [
    ("map-collect", || {
        Box::new(|| {
            let map: HashMap<u64, u64> = (0..100_000u64)
                .into_par_iter()
                .map(|number| (number, number * number))
                .collect();
            map.len() as u64
        })
    }),
    ("vec-collect", || {
        let numbers: Vec<u64> = (0..1_000_000).collect();
        Box::new(move || {
            let kept = numbers.par_iter().filter(|number| **number % 3 == 0);
            let kept: Vec<u64> = kept.map(|number| number * 2).collect();
            kept.len() as u64
        })
    }),
    ("vec-collect-indexed", || {
        Box::new(|| {
            let numbers: Vec<u32> = (0..2_000_000u32).into_par_iter().collect();
            numbers.len() as u64 + u64::from(numbers[1_234_567])
        })
    }),
    ("vec-fold", || {
        Box::new(|| {
            let parts = filtered().fold(Vec::new, pushed);
            let all = parts.reduce(Vec::new, |mut left, mut right| {
                left.append(&mut right);
                left
            });
            all.len() as u64 + u64::from(all[1_234_567])
        })
    }),
    ("vec-list", || {
        Box::new(|| {
            let parts: LinkedList<Vec<u32>> = filtered().fold(Vec::new, pushed).collect();
            let all: Vec<u32> = parts.into_iter().flatten().collect();
            all.len() as u64 + u64::from(all[1_234_567])
        })
    }),
    ("text-split", || {
        let mut random = random();
        let text: String = (0..2_000_000)
            .map(|_| {
                if random.u8(..8) == 0 {
                    ' '
                } else {
                    random.lowercase()
                }
            })
            .collect();
        Box::new(move || text.par_split(' ').filter(|word| word.len() > 3).count() as u64)
    }),
    ("bridge", || {
        Box::new(|| (0..20_000u64).par_bridge().map(|number| number * number).sum())
    }),
    ("for-each", || {
        Box::new(|| {
            for _ in 0..200 {
                (0..1000).into_par_iter().for_each(|number| _ = black_box(number));
            }
            0
        })
    }),
    ("tree-fold", || {
        let mut random = random();
        let numbers: Vec<f64> = (0..1_000_000).map(|_| random.f64()).collect();
        Box::new(move || {
            let largest = numbers.par_iter().copied().reduce(|| 0.0, f64::max);
            let chunks = numbers.par_chunks(1000).map(|chunk| chunk.iter().sum::<f64>());
            largest.to_bits() ^ (chunks.sum::<f64>() as u64)
        })
    }),
];

/// Numbers in a row, by an iterator that does not know how many.
fn filtered() -> impl ParallelIterator<Item = u32> {
    (0..2_000_000u32).into_par_iter().filter(|_| true)
}

fn pushed(mut part: Vec<u32>, number: u32) -> Vec<u32> {
    part.push(number);
    part
}
