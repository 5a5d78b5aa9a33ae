//! *fib*: fib(n) = fib(n-1) + fib(n-2), both halves of a join at every call. Nothing but the price of a join.

use super::{Timed, nanos_each};
use crate::kit::host;
use crate::prelude::*;

/// Simulated: a call besides its join; assumed, some ten instructions.
const CALL_NS: u64 = 2;

/// A call.
struct Call(u64);

impl Branch for Call {
    type Out = u64;

    fn run<F: Fork>(self, mut cx: F) -> u64 {
        host::takes(CALL_NS);
        if self.0 < 2 {
            return self.0;
        }
        let (left, right) = cx.join(Call(self.0 - 1), Call(self.0 - 2));
        left + right
    }
}

/// fib(n) in a loop.
fn fib(n: u64) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// The joins of fib(n): one for every call but the last ones, of which there are fib(n+1).
fn joins(n: u64) -> u64 {
    fib(n + 1) - 1
}

/// Computes fib(n), n from 2.
pub(super) fn run<P: ForkPool>(pool: &P, n: u64) -> Result<Outcome, LabError> {
    let (result, elapsed) = pool.run(Timed(Call(n)));
    check("fib", &result, &fib(n))?;
    let joins = joins(n);
    Ok(Outcome::new(joins, elapsed).with_measure("ns_per_join", nanos_each(elapsed, joins)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_are_counted_as_they_are_made() {
        fn count(n: u64) -> u64 {
            if n < 2 { 0 } else { 1 + count(n - 1) + count(n - 2) }
        }
        for n in 2..15 {
            assert_eq!(joins(n), count(n));
        }
    }
}
