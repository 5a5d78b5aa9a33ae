//! *overlap*: the share of an exchange that computation hides, as the OSU benchmarks measure it.
//!
//! The exchange takes its time alone. Then as many parts of 100 µs are computed as take that long, without
//! the exchange and beside it. What the two take longer together was not hidden.

use crate::idioms::{Calls, Futures};
use crate::work::chunk;
use crate::workload::{Figure, Setting, Workload};
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
pub(crate) struct Overlap {
    rounds: u32,
}

const BYTES: usize = 1 << 20;

impl Workload for Overlap {
    const SETTINGS: &'static [Setting] = &[Setting {
        name: "overlap",
        about: "all ranks send each other 1 MiB and compute beside it; the amount is the number of exchanges",
        amount: 30,
        smoke: 2,
        jobs: &[(2, 1)],
    }];

    fn new(_: &'static Setting, amount: usize) -> Self {
        Self {
            rounds: amount as u32,
        }
    }

    fn lacks(&self, contestant: &str, _: usize, workers: usize) -> Option<&'static str> {
        match contestant {
            "blocking" => Some("has no overlap: the call returns when the exchange is over"),
            "rayon" if workers == 1 => {
                Some("has no overlap: its only worker waits until the exchange is over")
            }
            _ => None,
        }
    }

    async fn futures<F: Futures>(self, on: F) -> Vec<Figure> {
        let alone = async |rounds: u32| {
            let mut bytes = first(on.rank(), on.size());
            on.barrier().await;
            let begin = Instant::now();
            for _ in 0..rounds {
                bytes = on.all_to_all(bytes).await;
            }
            let took = begin.elapsed() / rounds;
            check(&bytes, on.rank(), rounds);
            took
        };
        let compute = async |parts: usize| {
            for _ in 0..parts {
                chunk();
                on.yield_now().await;
            }
        };
        alone(self.warm_up()).await;
        let exchange = alone(self.rounds).await;
        let begin = Instant::now();
        compute(TRIAL).await;
        let parts = parts(exchange, begin.elapsed());
        let begin = Instant::now();
        for _ in 0..self.rounds {
            compute(parts).await;
        }
        let computed = begin.elapsed() / self.rounds;
        let mut bytes = first(on.rank(), on.size());
        on.barrier().await;
        let begin = Instant::now();
        for _ in 0..self.rounds {
            let request = on.all_to_all(bytes);
            compute(parts).await;
            bytes = request.await;
        }
        let both = begin.elapsed() / self.rounds;
        check(&bytes, on.rank(), self.rounds);
        on.barrier().await;
        figures(exchange, computed, both)
    }

    fn calls<C: Calls>(self, on: &C) -> Vec<Figure> {
        let alone = |rounds: u32| {
            let mut bytes = first(on.rank(), on.size());
            on.barrier();
            let begin = Instant::now();
            for _ in 0..rounds {
                bytes = on.wait(on.post_all_to_all(bytes));
            }
            let took = begin.elapsed() / rounds;
            check(&bytes, on.rank(), rounds);
            took
        };
        alone(self.warm_up());
        let exchange = alone(self.rounds);
        let begin = Instant::now();
        (0..TRIAL).for_each(|_| chunk());
        let parts = parts(exchange, begin.elapsed());
        let begin = Instant::now();
        for _ in 0..self.rounds {
            (0..parts).for_each(|_| chunk());
        }
        let computed = begin.elapsed() / self.rounds;
        let mut bytes = first(on.rank(), on.size());
        on.barrier();
        let begin = Instant::now();
        for _ in 0..self.rounds {
            let mut requests = [on.post_all_to_all(bytes)];
            on.meanwhile(&mut requests, parts, &mut |_| chunk());
            let [request] = requests;
            bytes = on.wait(request);
        }
        let both = begin.elapsed() / self.rounds;
        check(&bytes, on.rank(), self.rounds);
        on.barrier();
        figures(exchange, computed, both)
    }
}

/// The parts whose time tells how many are needed.
const TRIAL: usize = 50;

/// Returns how many parts take as long as the exchange.
fn parts(exchange: Duration, trial: Duration) -> usize {
    (exchange.as_secs_f64() / (trial.as_secs_f64() / TRIAL as f64)).ceil() as usize
}

/// What a rank sends first: its number. What it receives is sent next, so no time goes into new buffers.
fn first(rank: usize, ranks: usize) -> Vec<u8> {
    vec![rank as u8; BYTES * ranks]
}

/// After an odd number of exchanges a rank has the numbers of all. The next one brings its own back.
fn check(bytes: &[u8], rank: usize, exchanges: u32) {
    for (other, part) in bytes.chunks_exact(BYTES).enumerate() {
        let number = if exchanges % 2 == 1 { other } else { rank };
        let is_right = part.iter().all(|byte| *byte == number as u8);
        assert!(is_right, "rank {other} has sent {number}");
    }
}

fn figures(exchange: Duration, computed: Duration, both: Duration) -> Vec<Figure> {
    let hidden = 1.0 - both.saturating_sub(computed).as_secs_f64() / exchange.as_secs_f64();
    let extra = format!("exchange {exchange:.2?}, computation {computed:.2?}, both {both:.2?}");
    vec![
        Figure::more("hidden", 100.0 * hidden.clamp(0.0, 1.0), "%").extra(extra),
        Figure::less("exchange and computation", both.as_secs_f64() * 1e3, "ms"),
    ]
}

impl Overlap {
    fn warm_up(&self) -> u32 {
        self.rounds.div_ceil(10)
    }
}

#[cfg(test)]
mod tests {
    use super::{figures, parts};
    use std::time::Duration;

    #[test]
    fn what_takes_no_longer_together_is_hidden() {
        let ms = Duration::from_millis;
        assert_eq!(figures(ms(10), ms(11), ms(11))[0].value, 100.0);
        assert_eq!(figures(ms(10), ms(11), ms(16))[0].value, 50.0);
        assert_eq!(figures(ms(10), ms(11), ms(30))[0].value, 0.0);
        assert_eq!(parts(ms(10), ms(5)), 100);
    }
}
