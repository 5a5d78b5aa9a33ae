//! Single calls, in numbers: what a fork, a spawn, a scope and a call from outside cost.

use super::Program;
use rayon::prelude::*;
use std::hint::black_box;
use std::sync::mpsc;

pub(super) const PROGRAMS: [Program; 9] = [
    ("join-increment", || {
        let mut numbers = vec![0u32; 1 << 18];
        Box::new(move || {
            increment(&mut numbers);
            0
        })
    }),
    ("fib", || Box::new(|| fib(black_box(27)))),
    ("scope-spawn", || {
        Box::new(|| {
            rayon::scope(|scope| {
                for number in 0..100_000 {
                    scope.spawn(move |_| _ = black_box(number));
                }
            });
            0
        })
    }),
    ("scope-tree", || {
        Box::new(|| {
            rayon::scope(|scope| tree(scope, 16));
            0
        })
    }),
    ("spawn", || Box::new(spawn)),
    ("install-join", || {
        Box::new(|| {
            let joins = (0..2000u64).map(|_| rayon::join(|| black_box(1), || black_box(2)).0);
            joins.sum()
        })
    }),
    ("sum-10k", || sums(10_000, 200)),
    ("sum-1m", || sums(1_000_000, 20)),
    ("sum-10k-inside", || {
        let numbers: Vec<u64> = (0..10_000).collect();
        Box::new(move || {
            rayon::scope(|_| {
                let sums = (0..200).map(|_| numbers.par_iter().map(|number| number & 0xff).sum::<u64>());
                sums.sum()
            })
        })
    }),
];

fn increment(numbers: &mut [u32]) {
    if let [number] = numbers {
        *number = number.wrapping_add(1);
        return;
    }
    let (left, right) = numbers.split_at_mut(numbers.len() / 2);
    rayon::join(|| increment(left), || increment(right));
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = rayon::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn tree<'scope>(scope: &rayon::Scope<'scope>, depth: usize) {
    if depth > 0 {
        scope.spawn(move |scope| tree(scope, depth - 1));
        scope.spawn(move |scope| tree(scope, depth - 1));
    }
}

fn spawn() -> u64 {
    let (ended, ends) = mpsc::channel::<()>();
    rayon::scope(|_| {
        for _ in 0..100_000 {
            let ended = ended.clone();
            rayon::spawn(move || drop(ended));
        }
    });
    drop(ended);
    // All are done when the channel has no sender.
    ends.iter().count() as u64
}

/// Sums from a thread that is not the pool's: each is a call from outside.
fn sums(length: u64, times: usize) -> Box<dyn FnMut() -> u64> {
    let numbers: Vec<u64> = (0..length).collect();
    Box::new(move || {
        let sums = (0..times).map(|_| numbers.par_iter().map(|number| number & 0xff).sum::<u64>());
        sums.sum()
    })
}
