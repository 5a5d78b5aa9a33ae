//! *loops*: loops over a slice of numbers, one after the other, each over all workers.
//!
//! | program | a loop |
//! |---|---|
//! | `sum` | adds up what it makes of each number |
//! | `map` | collects what it makes of each number into a new vector |
//! | `each` | writes what it makes of a number beside it, in place |
//!
//! What is made of a number takes `rounds` steps that depend on each other, the same machine code for all
//! contestants: it is not generic, and it is not inlined. With `heavy` the last numbers take 50 times as
//! long, so that halves of the slice are not halves of the work.
//!
//! The clock runs from when the first loop is called to when the last one returns. The input is made before,
//! and checks are made after.

use std::hint::black_box;
use std::num::NonZero;
use std::time::{Duration, Instant};

use crate::prelude::*;

/// A heavy number takes this many times as long.
const HEAVIER: u64 = 50;
/// The bit that marks a heavy number.
const HEAVY: u64 = 1 << 63;
/// The rounds that take about two microseconds.
const ENOUGH: u64 = 2000;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    which: Which,
    loops: u64,
    piece: Piece,
    rounds: u64,
    numbers: &'static [u64],
    /// What a loop has to make of them.
    made: &'static [u64],
}

/// A program.
#[derive(Clone, Copy)]
enum Which {
    Sum,
    Map,
    Each,
}

/// A number, and the place for what is made of it.
struct Pair {
    number: u64,
    made: u64,
}

/// What is made of a number. It has 32 bits, so that sums do not overflow.
#[inline(never)]
fn made(number: u64, rounds: u64) -> u64 {
    let rounds = match number & HEAVY {
        0 => rounds,
        _ => rounds * HEAVIER,
    };
    let mixed = (0..rounds).fold(number, |state, round| {
        (state ^ round)
            .wrapping_mul(0xBF58_476D_1CE4_E5B9)
            .rotate_left(31)
    });
    mixed >> 32
}

/// Always the same numbers, the last of which are heavy.
fn numbers(n: usize, heavy: usize) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(0x0100);
    let light = n - n * heavy / 100;
    (0..n)
        .map(|at| random.u64(..HEAVY) | if at < light { 0 } else { HEAVY })
        .collect()
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "loops",
        about: "loops over a slice of numbers: sums, new vectors, changes in place; each loop over all workers",
        unit: "numbers",
        params: params! {
            Param::word("program", "sum", &["sum", "map", "each"], "what a loop does");
            Param::number("n", "100k", 1, 100_000_000, "numbers");
            Param::number("rounds", "20", 1, 1_000_000, "steps of arithmetic for each number, of about 1 ns");
            Param::number("heavy", "0", 0, 100, "percent of the numbers, the last ones, that take 50 times as long");
            Param::number("loops", "200", 1, 10_000_000, "loops, one after the other");
            Param::number("piece", "0", 0, 100_000_000,
                "numbers that are about one piece; 0: each runtime's own choice. warpweft, which needs a \
                 number, then takes what lasts about 2 us");
        },
        variants: variants! {
            Variant::new("sum", &[("program", "sum")], "the sum of what is made of each number (the default)");
            Variant::new("map", &[("program", "map")], "a new vector");
            Variant::new("each", &[("program", "each")], "changes in place");
            Variant::new("skewed", &[("heavy", "10"), ("loops", "40")],
                "the sum; the last tenth of the numbers takes 50 times as long");
            Variant::new("small", &[("n", "1000"), ("loops", "20k")],
                "the sum; loops of some 20 us, for what it costs to begin one");
        },
        smoke: &[("n", "1000"), ("loops", "5")],
        explored: &["warpweft", "rayon", "orx-parallel", "sequential"],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Loops;

    fn caveat(request: &Request) -> Option<Caveat> {
        let is_told = request.runtime == "warpweft" && request.params.number("piece") == 0;
        is_told.then_some(Caveat::same(
            "the workload sets the length of its pieces: about 2 us",
        ))
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let rounds = params.number("rounds");
        let numbers = numbers(params.number("n") as usize, params.number("heavy") as usize);
        let right: Vec<u64> = numbers.iter().map(|number| made(*number, rounds)).collect();
        let own = NonZero::new((ENOUGH / rounds) as usize).unwrap_or(NonZero::<usize>::MIN);
        Ok(Self {
            which: match params.word("program") {
                "map" => Which::Map,
                "each" => Which::Each,
                _ => Which::Sum,
            },
            loops: params.number("loops"),
            piece: NonZero::new(params.number("piece") as usize).map_or(Piece::Own(own), Piece::About),
            rounds,
            numbers: numbers.leak(),
            made: right.leak(),
        })
    }

    fn warm_up(&self) -> Option<Self> {
        Some(Self {
            loops: (self.loops / 10).max(1),
            ..*self
        })
    }

    fn loops<P: LoopPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let elapsed = match self.which {
            Which::Sum => self.sums(pool),
            Which::Map => self.maps(pool),
            Which::Each => self.changes(pool),
        }?;
        let each = elapsed.as_secs_f64() * 1e6 / self.loops as f64;
        let n = self.numbers.len() as u64 * self.loops;
        Ok(Outcome::new(n, elapsed).with_measure("us_per_loop", each))
    }
}

impl Plan {
    /// Runs all loops on the pool, and returns how long they took and what the last one returned.
    fn timed<P: LoopPool, T: Send>(
        &self,
        pool: &P,
        mut once: impl FnMut(P::Loops) -> T + Send,
    ) -> (Duration, Option<T>) {
        let loops = self.loops;
        pool.run(self.piece, |api| {
            let start = Instant::now();
            let mut last = None;
            for _ in 0..loops {
                last = Some(once(api));
            }
            (start.elapsed(), last)
        })
    }

    /// Every sum is checked.
    fn sums<P: LoopPool>(&self, pool: &P) -> Result<Duration, LabError> {
        let Self { numbers, rounds, .. } = *self;
        let right: u64 = self.made.iter().sum();
        let mut wrong = 0_u64;
        let (elapsed, _) = self.timed(pool, |api| {
            let sum = api.sum(black_box(numbers), |number| made(*number, rounds));
            wrong += u64::from(sum != right);
        });
        check("wrong sums", &wrong, &0)?;
        Ok(elapsed)
    }

    /// The last vector is checked.
    fn maps<P: LoopPool>(&self, pool: &P) -> Result<Duration, LabError> {
        let Self { numbers, rounds, .. } = *self;
        let (elapsed, last) = self.timed(pool, |api| {
            api.map(black_box(numbers), |number| made(*number, rounds))
        });
        check(
            "the last vector is right",
            &last.is_some_and(|last| last == self.made),
            &true,
        )?;
        Ok(elapsed)
    }

    /// What all loops wrote is checked.
    fn changes<P: LoopPool>(&self, pool: &P) -> Result<Duration, LabError> {
        let rounds = self.rounds;
        let pair = |number: &u64| Pair {
            number: *number,
            made: 0,
        };
        let mut pairs: Vec<Pair> = self.numbers.iter().map(pair).collect();
        let slice = pairs.as_mut_slice();
        let (elapsed, _) = self.timed(pool, |api| {
            api.each(black_box(&mut *slice), |pair| {
                pair.made = made(pair.number, rounds);
            });
        });
        let right = pairs.iter().map(|pair| pair.made).eq(self.made.iter().copied());
        check("all pairs are right", &right, &true)?;
        Ok(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::request;

    /// The operations of a run.
    fn operations(runtime: &str, workers: usize, words: &[&str]) -> Result<u64, LabError> {
        let request = Request {
            runtime: runtime.to_owned(),
            workers,
            ..request("loops", words)
        };
        crate::lab([]).run(&request).map(|outcome| outcome.operations)
    }

    #[test]
    fn loops_are_right_at_the_edges_of_their_sizes() {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        for (runtime, workers) in [
            ("sequential", 1),
            ("warpweft", 1),
            ("warpweft", 3),
            ("rayon", 3),
            ("orx-parallel", 1),
            ("orx-parallel", cpus),
        ] {
            for program in ["program=sum", "program=map", "program=each"] {
                for n in [1, 2, 99, 1000] {
                    for piece in ["piece=0", "piece=1", "piece=7", "piece=5000"] {
                        let words = [program, &format!("n={n}"), "loops=3", "heavy=10", piece];
                        assert_eq!(
                            operations(runtime, workers, &words).unwrap(),
                            3 * n,
                            "{runtime} {words:?}"
                        );
                    }
                }
            }
        }
    }

    /// Loops that leave one element out.
    #[derive(Clone, Copy)]
    struct Forgets;

    impl Loops for Forgets {
        fn sum<T: Sync>(self, over: &[T], make: impl Fn(&T) -> u64 + Send + Sync) -> u64 {
            over[1..].iter().map(make).sum()
        }

        fn map<T: Sync>(self, over: &[T], make: impl Fn(&T) -> u64 + Send + Sync) -> Vec<u64> {
            over[1..].iter().map(make).collect()
        }

        fn each<T: Send>(self, over: &mut [T], change: impl Fn(&mut T) + Send + Sync) {
            over[1..].iter_mut().for_each(change);
        }
    }

    impl LoopPool for Forgets {
        type Loops = Self;

        fn run<T: Send>(&self, _: Piece, root: impl FnOnce(Self) -> T + Send) -> T {
            root(*self)
        }
    }

    #[test]
    fn a_loop_that_forgets_an_element_is_found() {
        for program in ["program=sum", "program=map", "program=each"] {
            let plan = Plan::load(&request("loops", &[program, "n=10", "loops=2"])).unwrap();
            assert!(plan.loops(&Forgets).is_err(), "{program}");
        }
    }

    #[test]
    fn the_last_numbers_are_heavy() {
        let heavy = numbers(100, 10)
            .iter()
            .map(|number| number & HEAVY != 0)
            .collect::<Vec<_>>();
        assert!(!heavy[..90].contains(&true) && !heavy[90..].contains(&false));
        assert!(numbers(9, 0).iter().all(|number| number & HEAVY == 0));
    }
}
