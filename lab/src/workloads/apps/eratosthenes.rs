//! *eratosthenes*: the primes up to a number, by a chain of sieves.
//!
//! ```text
//!   2, 3, 4, … ──▶ [ sieve 2 ] ──▶ 3, 5, 7, … ──▶ [ sieve 3 ] ──▶ 5, 7, 11, … ──▶ … ──▶ the next prime
//! ```
//!
//! Each sieve is a task that lets through what its prime does not divide. The first number that comes out at
//! the end is a prime, and a sieve for it is added there. Up to 10 000 there are 1229 of them, and 2.8
//! million numbers go from one to the next.

use std::time::{Duration, Instant};

use super::{App, Name, per_step};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::apps::Apps;
use crate::workloads::params::{Domain, Param, Params, Variant};
use crate::workloads::spec::{Kind, Workload, count};
use crate::workloads::{FIBERS, STYLE, check};

/// The workload as users see it.
pub(in crate::workloads) const WORKLOAD: Workload = Workload {
    name: "eratosthenes",
    kind: Kind::App(Name::Eratosthenes),
    about: "the primes by a chain of sieves, a task for each prime",
    unit: "numbers",
    latency: None,
    params: &[
        // 9592 sieves; each may be a thread of the system.
        count("10k", "the last number that is looked at", 100_000),
        Param {
            name: "room",
            about: "numbers that there is room for between two sieves",
            domain: Domain::Number {
                least: 1,
                most: 1 << 20,
            },
            default: "10",
        },
        STYLE,
    ],
    variants: &[
        Variant {
            name: "room1",
            about: "room for one number between two sieves",
            set: &[("room", "1")],
        },
        FIBERS,
    ],
    smoke: &[("n", "200")],
};

/// The program, sized.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    last: u64,
    room: usize,
}

/// How many primes were found, and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Primes {
    count: u64,
    sum: u64,
}

impl Primes {
    fn add(&mut self, prime: u64) {
        self.count += 1;
        self.sum += prime;
    }

    /// Those up to `last`, found on a table.
    fn up_to(last: u64) -> Self {
        let mut divided = vec![false; last as usize + 1];
        let mut primes = Self::default();
        for number in 2..=last {
            if !divided[number as usize] {
                primes.add(number);
                for multiple in (number * number..=last).step_by(number as usize) {
                    divided[multiple as usize] = true;
                }
            }
        }
        primes
    }
}

impl Plan {
    /// Reads the parameters.
    pub(super) fn new(params: &Params) -> Self {
        Self {
            last: params.number("n"),
            room: params.number("room") as usize,
        }
    }
}

impl App for Plan {
    type Tally = Primes;

    fn warm_up(&self) -> Self {
        Self {
            last: (self.last / 10).max(1),
            ..*self
        }
    }

    async fn play<W: Apps>(self, tasks: W) -> (Duration, Primes) {
        let start = Instant::now();
        let (into, mut end) = W::mailbox(self.room);
        let source = tasks.spawn(async move {
            for number in 2..=self.last {
                W::send(&into, number).await;
            }
        });
        let mut primes = Primes::default();
        let mut sieves = Vec::new();
        // The end of the chain closes when the last number is through.
        while let Some(prime) = W::recv(&mut end).await {
            primes.add(prime);
            let (to, next) = W::mailbox(self.room);
            sieves.push(tasks.spawn(sieve::<W>(prime, end, to)));
            end = next;
        }
        source.await;
        for sieve in sieves {
            sieve.await;
        }
        (start.elapsed(), primes)
    }

    fn outcome(&self, elapsed: Duration, primes: Primes) -> Result<Outcome, LabError> {
        check("primes", &primes, &Primes::up_to(self.last))?;
        Ok(per_step(self.last, elapsed, "ns_per_number"))
    }
}

async fn sieve<W: Apps>(prime: u64, mut from: W::Receiver<u64>, to: W::Sender<u64>) {
    while let Some(number) = W::recv(&mut from).await {
        if number % prime != 0 {
            W::send(&to, number).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_knows_the_primes() {
        assert_eq!(Primes::up_to(1), Primes::default());
        assert_eq!(Primes::up_to(2), Primes { count: 1, sum: 2 });
        assert_eq!(Primes::up_to(30), Primes { count: 10, sum: 129 });
        assert_eq!(Primes::up_to(10_000).count, 1229);
    }
}
