//! Loops over numbers: bodies that attract each other, a sieve, matrices, the game of life.

use super::{Program, random};
use rayon::prelude::*;

pub(super) const PROGRAMS: [Program; 5] = [
    ("nbody", || {
        let mut random = random();
        let mut number = || random.f64() - 0.5;
        let bodies: Vec<Body> = (0..1000)
            .map(|_| Body {
                place: [number(), number(), number()],
                speed: [number(), number(), number()],
            })
            .collect();
        Box::new(move || {
            let mut bodies = bodies.clone();
            for _ in 0..5 {
                bodies = step(&bodies);
            }
            bodies.iter().fold(0, |all, body| all ^ body.place[0].to_bits())
        })
    }),
    ("sieve", || Box::new(|| sieve(10_000_000))),
    ("matmul", || {
        let (a, b) = (matrix(), matrix());
        Box::new(move || {
            let mut product = vec![0.0; SIDE * SIDE];
            multiply(&mut product, &a, &b);
            product.iter().sum::<f64>().to_bits()
        })
    }),
    ("matmul-rows", || {
        let (a, b) = (matrix(), matrix());
        Box::new(move || {
            let mut product = vec![0.0; SIDE * SIDE];
            product.par_chunks_mut(SIDE).enumerate().for_each(|(row, into)| {
                for (column, cell) in into.iter_mut().enumerate() {
                    *cell = (0..SIDE).map(|k| a[row * SIDE + k] * b[k * SIDE + column]).sum();
                }
            });
            product.iter().sum::<f64>().to_bits()
        })
    }),
    ("life", || {
        let mut random = random();
        let board: Vec<bool> = (0..LIFE * LIFE).map(|_| random.bool()).collect();
        Box::new(move || {
            let mut board = board.clone();
            for _ in 0..50 {
                board = generation(&board);
            }
            board.iter().filter(|alive| **alive).count() as u64
        })
    }),
];

#[derive(Debug, Clone, Copy)]
struct Body {
    place: [f64; 3],
    speed: [f64; 3],
}

/// One step: each body is attracted by all others.
fn step(bodies: &[Body]) -> Vec<Body> {
    let moved = bodies.par_iter().map(|body| {
        let mut force = [0.0; 3];
        for other in bodies {
            let way: [f64; 3] = std::array::from_fn(|axis| other.place[axis] - body.place[axis]);
            let square = way.iter().map(|part| part * part).sum::<f64>() + 0.01;
            let pull = 1.0 / (square * square.sqrt());
            for axis in 0..3 {
                force[axis] += pull * way[axis];
            }
        }
        let speed: [f64; 3] = std::array::from_fn(|axis| body.speed[axis] + force[axis] * 1e-6);
        let place = std::array::from_fn(|axis| body.place[axis] + speed[axis] * 1e-3);
        Body { place, speed }
    });
    moved.collect()
}

/// Counts the primes below `limit`, in pieces that fit into a cache.
fn sieve(limit: usize) -> u64 {
    const PIECE: usize = 1 << 16;
    let root = limit.isqrt() + 1;
    let mut is_prime = vec![true; root];
    let mut primes = Vec::new();
    for number in 2..root {
        if is_prime[number] {
            primes.push(number);
            for multiple in (number * number..root).step_by(number) {
                is_prime[multiple] = false;
            }
        }
    }
    let pieces = (0..limit.div_ceil(PIECE)).into_par_iter();
    let counts = pieces.map(|piece| {
        let start = piece * PIECE;
        let end = limit.min(start + PIECE);
        let mut is_prime = vec![true; end - start];
        for &prime in &primes {
            let first = (prime * prime).max(start.next_multiple_of(prime));
            for multiple in (first..end).step_by(prime) {
                is_prime[multiple - start] = false;
            }
        }
        let from = 2usize.saturating_sub(start);
        is_prime[from..].iter().filter(|prime| **prime).count() as u64
    });
    counts.sum()
}

const SIDE: usize = 256;

/// A matrix in the order of [`multiply`]: four quarters, each of them in the same order.
fn matrix() -> Vec<f64> {
    let mut random = random();
    (0..SIDE * SIDE).map(|_| random.f64()).collect()
}

/// Adds the product of two square matrices to the first one: eight products of quarters, four at a time.
fn multiply(into: &mut [f64], a: &[f64], b: &[f64]) {
    const SMALL: usize = 16;
    if a.len() <= SMALL * SMALL {
        let side = a.len().isqrt();
        for row in 0..side {
            for column in 0..side {
                into[row * side + column] += (0..side)
                    .map(|k| a[row * side + k] * b[k * side + column])
                    .sum::<f64>();
            }
        }
        return;
    }
    let quarter = a.len() / 4;
    let (a, b): ([&[f64]; 4], [&[f64]; 4]) = (
        std::array::from_fn(|at| &a[at * quarter..(at + 1) * quarter]),
        std::array::from_fn(|at| &b[at * quarter..(at + 1) * quarter]),
    );
    let (top, bottom) = into.split_at_mut(2 * quarter);
    let (one, two) = top.split_at_mut(quarter);
    let (three, four) = bottom.split_at_mut(quarter);
    for half in 0..2 {
        let (left, right) = ([a[half], a[2 + half]], [b[2 * half], b[2 * half + 1]]);
        rayon::join(
            || {
                rayon::join(
                    || multiply(one, left[0], right[0]),
                    || multiply(two, left[0], right[1]),
                )
            },
            || {
                rayon::join(
                    || multiply(three, left[1], right[0]),
                    || multiply(four, left[1], right[1]),
                )
            },
        );
    }
}

const LIFE: usize = 200;

/// The next board of the game of life, whose edges meet.
fn generation(board: &[bool]) -> Vec<bool> {
    let cells = (0..board.len()).into_par_iter().map(|cell| {
        let (row, column) = (cell / LIFE, cell % LIFE);
        let mut neighbours = 0;
        for down in [LIFE - 1, 0, 1] {
            for right in [LIFE - 1, 0, 1] {
                let other = (row + down) % LIFE * LIFE + (column + right) % LIFE;
                neighbours += u8::from(other != cell && board[other]);
            }
        }
        neighbours == 3 || (neighbours == 2 && board[cell])
    });
    cells.collect()
}
