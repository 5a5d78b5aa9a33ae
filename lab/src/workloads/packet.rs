//! *packet*: a server with one listener, or a few. Each handler scans its packet for newlines.

use std::hint;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::check;
use super::lane::{Landed, Tally};
use super::listener::{Feed, Listening};
use super::packets::{Packets, newlines_of};
use super::params::Params;
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::{JobPool, TaskPool};

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    listening: Listening,
    scan: Scan,
}

/// Packets are picked at random and scanned.
#[derive(Clone, Copy)]
struct Scan {
    packets: Packets,
    spin: Duration,
}

/// Picks packets at random, the same ones for the same spawner.
struct Picker {
    packets: Packets,
    random: Rng,
}

impl Picker {
    fn new(packets: Packets, spawner: u64) -> Self {
        Self {
            packets,
            random: Rng::with_seed(spawner + 1),
        }
    }

    fn next_index(&mut self) -> usize {
        self.random.usize(..self.packets.packets.len())
    }
}

impl Iterator for Picker {
    type Item = &'static [u8];

    #[inline]
    fn next(&mut self) -> Option<&'static [u8]> {
        let index = self.next_index();
        Some(&self.packets.packets[index])
    }
}

impl Feed for Scan {
    type Picker = Picker;

    fn picker(self, spawner: u64) -> Picker {
        Picker::new(self.packets, spawner)
    }

    #[inline]
    fn handle(self, packet: &[u8]) -> Tally {
        let newlines = newlines_of(packet);
        if !self.spin.is_zero() {
            let start = Instant::now();
            while start.elapsed() < self.spin {
                hint::spin_loop();
            }
        }
        [newlines, 0, 0, 0]
    }
}

impl Plan {
    /// Reads the parameters and makes the packets.
    pub(super) fn new(params: &Params) -> Self {
        Self {
            listening: Listening::new(params),
            scan: Scan {
                packets: Packets::new(),
                spin: Duration::from_nanos(params.number("spin")),
            },
        }
    }

    /// The part that is not measured.
    pub(super) fn warm_up(&self) -> Self {
        Self {
            listening: self.listening.warm_up(),
            ..*self
        }
    }

    /// The newlines of all packets that will be picked.
    fn expected(&self) -> u64 {
        if !self.listening.handlers {
            return 0;
        }
        let of_spawner = |spawner| {
            let mut picker = Picker::new(self.scan.packets, spawner);
            (0..self.listening.share())
                .map(|_| self.scan.packets.newlines[picker.next_index()])
                .sum::<u64>()
        };
        (0..self.listening.spawners).map(of_spawner).sum()
    }

    /// Runs with tasks that are futures.
    pub(super) fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        self.outcome(&self.listening.tasks(pool, self.scan))
    }

    /// Runs with tasks that are closures.
    pub(super) fn jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        self.outcome(&self.listening.jobs(pool, self.scan))
    }

    fn outcome(&self, landed: &Landed) -> Result<Outcome, LabError> {
        check("newlines", &landed.tally[0], &self.expected())?;
        Ok(Outcome::new(self.listening.total(), landed.elapsed)
            .with_latency(&landed.histogram)
            .with_measure("window_full", landed.waits as f64))
    }
}
