//! The state of the machine just before a run: how long a cache line takes to another core and back.
//!
//! On virtual machines this figure has phases: tens of nanoseconds most of the time, several times that for
//! seconds or minutes, when the host has moved the virtual cores apart. Everything that crosses cores is then
//! two or three times slower, for every runtime. So a run with more than one worker is preceded by a probe,
//! and a run that began in a slow phase is set aside, and counted.
//!
//! A phase is *slow* when a probe exceeds [`SLOW`] times the median of the faster half of all probes of the
//! session: the faster half, so that a session that is slow half of the time still knows what fast is.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use super::stats;

/// The length of one probe.
const LENGTH: Duration = Duration::from_millis(2);
/// A probe this many times the usual one is slow.
pub(crate) const SLOW: f64 = 1.45;
/// The number of probes before the first run, which show the usual time.
const FIRST: usize = 15;

/// All probes of one session.
#[derive(Debug, Default)]
pub(crate) struct Prober {
    taken: Vec<f64>,
    unable: bool,
}

impl Prober {
    /// A prober that knows what is usual; it takes a few hundredths of a second. On a machine with one core
    /// it measures nothing and finds nothing slow.
    pub(crate) fn new() -> Self {
        let mut prober = Self::default();
        for _ in 0..FIRST {
            if prober.probe().is_none() {
                prober.unable = true;
                break;
            }
        }
        prober
    }

    /// One probe: nanoseconds per round trip, or `None` where it cannot be measured.
    pub(crate) fn probe(&mut self) -> Option<f64> {
        if self.unable {
            return None;
        }
        let nanos = round_trip(LENGTH)?;
        self.taken.push(nanos);
        Some(nanos)
    }

    /// The usual round trip: the median of the faster half of all probes.
    pub(crate) fn usual(&self) -> Option<f64> {
        usual_of(&self.taken)
    }

    /// Returns true if a probe shows a slow phase.
    pub(crate) fn is_slow(&self, nanos: f64) -> bool {
        self.usual().is_some_and(|usual| nanos > SLOW * usual)
    }
}

/// The median of the faster half.
fn usual_of(probes: &[f64]) -> Option<f64> {
    let mut sorted = probes.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.truncate(sorted.len().div_ceil(2));
    stats::median(&sorted)
}

/// Plays ping-pong on one cache line between two cores for about `length`.
///
/// The two players are fresh threads, each fixed to its own core, so that the caller's affinity stays as
/// it is. `None` if this process has only one core or the cores cannot be chosen.
fn round_trip(length: Duration) -> Option<f64> {
    let cores = core_affinity::get_core_ids()?;
    round_trip_between(*cores.first()?, *cores.last()?, length)
}

/// The usual round trip of a line between two CPUs, in nanoseconds, by loads and stores; `None` where it
/// cannot be measured.
pub fn line_round_trip(first: usize, second: usize) -> Option<f64> {
    let cpu = |id| CoreId { id };
    let probes: Vec<f64> = (0..FIRST)
        .filter_map(|_| round_trip_between(cpu(first), cpu(second), LENGTH))
        .collect();
    usual_of(&probes)
}

fn round_trip_between(first: CoreId, last: CoreId, length: Duration) -> Option<f64> {
    if first == last {
        return None;
    }
    let table = Arc::new(BallGame {
        ball: AtomicU64::new(0),
        over: AtomicBool::new(false),
    });
    let far = {
        let table = Arc::clone(&table);
        thread::spawn(move || {
            if core_affinity::set_for_current(last) {
                table.return_balls();
            } else {
                table.over.store(true, Ordering::Release);
            }
        })
    };
    let near = thread::spawn(move || {
        core_affinity::set_for_current(first)
            .then(|| table.serve(length))
            .flatten()
    });
    let result = near.join().ok().flatten();
    far.join().ok()?;
    result
}

/// The ball: even values lie with the server, odd ones with the other player. Its line holds nothing else
/// that moves.
#[repr(align(128))]
struct BallGame {
    ball: AtomicU64,
    over: AtomicBool,
}

impl BallGame {
    /// Answers every odd value with the next even one until the game is over.
    fn return_balls(&self) {
        loop {
            let ball = self.ball.load(Ordering::Acquire);
            if ball % 2 == 1 {
                self.ball.store(ball + 1, Ordering::Release);
            } else if self.over.load(Ordering::Acquire) {
                return;
            } else {
                hint::spin_loop();
            }
        }
    }

    /// Serves until the time is up; nanoseconds per round trip.
    ///
    /// With others on the cores the two players may never run at the same time, and a round trip takes as
    /// long as the kernel's time slices: then the game is given up at [`PATIENCE`] times its length, with
    /// what was seen so far.
    fn serve(&self, length: Duration) -> Option<f64> {
        let mut rounds = 0_u64;
        let begin = Instant::now();
        // The first balls find the other player asleep: they are not counted.
        let mut start = begin;
        let mut counted_from = 0;
        let end = loop {
            let ball = 2 * rounds + 1;
            self.ball.store(ball, Ordering::Release);
            let mut spins = 0_u32;
            let mut given_up = false;
            while self.ball.load(Ordering::Acquire) == ball && !given_up {
                hint::spin_loop();
                spins += 1;
                if spins.is_multiple_of(1024) {
                    if self.over.load(Ordering::Acquire) {
                        return None;
                    }
                    given_up = begin.elapsed() > PATIENCE * length;
                }
            }
            rounds += 1;
            if rounds == WARM_UP {
                start = Instant::now();
                counted_from = rounds;
            }
            if given_up || (rounds.is_multiple_of(64) && rounds > WARM_UP && start.elapsed() >= length) {
                break Instant::now();
            }
        };
        self.over.store(true, Ordering::Release);
        Some((end - start).as_nanos() as f64 / (rounds - counted_from).max(1) as f64)
    }
}

/// A game is given up after this multiple of its length.
const PATIENCE: u32 = 5;
/// Round trips that are not counted.
const WARM_UP: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_round_trip_is_that_of_the_faster_half() {
        assert_eq!(usual_of(&[300.0, 60.0, 62.0, 400.0, 64.0, 500.0]), Some(62.0));
        assert_eq!(usual_of(&[]), None);
        assert_eq!(usual_of(&[70.0]), Some(70.0));
    }

    #[test]
    fn a_slow_phase_is_told_from_a_fast_one() {
        let prober = Prober {
            taken: vec![60.0, 61.0, 62.0, 63.0, 300.0],
            unable: false,
        };
        assert!(prober.is_slow(95.0));
        assert!(!prober.is_slow(80.0));
    }

    #[test]
    fn a_probe_measures_something_plausible_or_nothing() {
        if let Some(nanos) = round_trip(Duration::from_millis(1)) {
            // No upper bound: with others on the cores a round trip takes as long as they like.
            assert!(nanos > 1.0 && nanos.is_finite(), "{nanos} ns");
        }
    }
}
