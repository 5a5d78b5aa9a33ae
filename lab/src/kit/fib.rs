//! Latency hiding: trees whose leaves wait for what is remote, and compute.
//!
//! | workload | a leaf |
//! |---|---|
//! | `map_reduce.rs`: mapreducefib, overhead | waits, by a timer or for a server (`wire.rs`), then computes a Fibonacci number in parallel |
//! | `sweep.rs` | waits, or holds its worker as if it computed |
//!
//! Programs and sizes are those by which Rayon-LH was measured, so that its published figures can be compared
//! with.

use std::hint::black_box;

use super::host;
use crate::idioms::forks::{Branch, Fork};

/// Simulated: nanoseconds of a plain call, times ten; as fib(30) in 1.35 million calls takes some 2 ms here.
const TENTHS_PER_CALL: u64 = 15;

/// fib(n) in parallel down to `base`, below which it is plain calls.
#[derive(Clone, Copy)]
pub(crate) struct Fib {
    pub(crate) n: u64,
    pub(crate) base: u64,
}

impl Branch for Fib {
    type Out = u64;

    fn run<F: Fork>(self, mut cx: F) -> u64 {
        if self.n <= self.base {
            if cfg!(warpweft_sim) {
                host::takes(plain_ns(self.n));
                return fib(self.n);
            }
            return serial(self.n);
        }
        let smaller = |by| Self {
            n: self.n - by,
            ..self
        };
        let (left, right) = cx.join(smaller(1), smaller(2));
        left + right
    }
}

/// fib(n) in plain calls: the same machine code for all contestants.
#[inline(never)]
pub(crate) fn serial(n: u64) -> u64 {
    if n < 2 {
        return black_box(n);
    }
    serial(n - 1) + serial(n - 2)
}

/// Simulated: how long fib(n) takes in plain calls.
fn plain_ns(n: u64) -> u64 {
    (2 * fib(n + 1) - 1) * TENTHS_PER_CALL / 10
}

/// fib(n) in a loop.
pub(crate) fn fib(n: u64) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// Which `some` of `all` leaves it is, in no order, the same ones for all contestants.
pub(crate) fn chosen(some: u64, all: u64) -> &'static [bool] {
    let mut chosen: Vec<bool> = (0..all).map(|leaf| leaf < some).collect();
    fastrand::Rng::with_seed(0x1a7e).shuffle(&mut chosen);
    chosen.leak()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_fib_agree() {
        for n in 0..20 {
            assert_eq!(serial(n), fib(n));
        }
        assert_eq!(fib(30), 832_040);
    }

    #[test]
    fn so_many_are_chosen() {
        for (some, all) in [(0, 10), (8, 5000), (10, 10)] {
            let chosen = chosen(some, all);
            assert_eq!(chosen.len() as u64, all);
            assert_eq!(chosen.iter().filter(|it| **it).count() as u64, some);
        }
    }
}
