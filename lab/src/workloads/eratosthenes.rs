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

use crate::kit::actors::{ActorProgram, GO_CHANNELS, JAVA_QUEUES, per_step};
use crate::prelude::*;

/// The program, sized.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    last: u64,
    room: usize,
}

/// The number of primes that were found, and their sum.
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

impl ActorProgram for Plan {
    const ABOUT: About = About {
        name: "eratosthenes",
        about: "the primes by a chain of sieves, a task for each prime",
        unit: "numbers",
        params: params! {
            // 9592 sieves; each may be a thread of the system.
            count("10k", "the last number that is looked at", 100_000);
            Param::number("room", "10", 1, 1 << 20, "numbers that there is room for between two sieves");
            STYLE;
        },
        variants: variants! {
            Variant::new("room1", &[("room", "1")], "room for one number between two sieves");
            FIBERS;
        },
        smoke: &[("n", "200")],
        ..About::NEW
    };

    const CAVEATS: &[(&str, Caveat)] = &[
        ("go", Caveat::same(GO_CHANNELS)),
        ("java", Caveat::same(JAVA_QUEUES)),
    ];

    type Counted = Primes;

    fn load(request: &Request) -> Self {
        let params = &request.params;
        Self {
            last: params.number("n"),
            room: params.number("room") as usize,
        }
    }

    fn warm_up(&self) -> Self {
        Self {
            last: (self.last / 10).max(1),
            ..*self
        }
    }

    async fn play<W: Actors>(self, tasks: W) -> (Duration, Primes) {
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

async fn sieve<W: Actors>(prime: u64, mut from: W::Receiver<u64>, to: W::Sender<u64>) {
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
