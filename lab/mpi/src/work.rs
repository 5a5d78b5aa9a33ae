//! What the workloads compute, and how they read what the ranks send.

use std::hint::black_box;

/// The serial recursion.
pub(crate) fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

/// Computes for some 100 µs.
pub(crate) fn chunk() {
    black_box(fib(black_box(22)));
}

/// The numbers of 8 bytes that ranks have gathered.
pub(crate) fn numbers(bytes: &[u8]) -> Vec<u64> {
    let (numbers, _) = bytes.as_chunks();
    numbers.iter().map(|number| u64::from_le_bytes(*number)).collect()
}

/// A reproducible sequence of random numbers.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[cfg(test)]
mod tests {
    use super::{fib, numbers};

    #[test]
    fn what_ranks_gathered_is_read_in_order() {
        let bytes: Vec<u8> = [7_u64, 1 << 40].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(numbers(&bytes), [7, 1 << 40]);
        assert_eq!(fib(20), 6765);
    }
}
