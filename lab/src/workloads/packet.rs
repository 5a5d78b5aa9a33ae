//! *packet*: a server with one listener, or a few. Each handler scans its packet for newlines.

use std::time::Duration;

use fastrand::Rng;

use crate::kit::chain::{Feed, Listening, sends};
use crate::kit::host;
use crate::kit::packets::{Packets, newlines_of};
use crate::kit::task_recorder::{Counts, Recorded};
use crate::prelude::*;

/// Simulated: to scan 2.5 KiB for some 30 newlines; assumed, at 30 bytes a nanosecond and 2 ns for each.
const SCAN_NS: u64 = 145;

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
    fn packets(self, spawner: u64) -> impl Iterator<Item = &'static [u8]> + Send + 'static {
        Picker::new(self.packets, spawner)
    }

    #[inline]
    fn handle(self, packet: &[u8]) -> Counts {
        let newlines = newlines_of(packet);
        host::takes(SCAN_NS);
        if !self.spin.is_zero() {
            host::spin(self.spin);
        }
        [newlines, 0, 0, 0]
    }
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "packet",
        about: "a listener copies one of 100 packets (2-3 KiB) and spawns a handler that scans it for newlines",
        unit: "packets",
        latency: Some("from spawn to the end of the handler"),
        params: params! {
            count("50k", "packets", 1 << 32);
            WINDOW;
            spawners("1");
            Param::number("spin", "0", 0, 1_000_000_000, "nanoseconds of further work in each handler");
            HANDLERS;
        },
        variants: variants! {
            Variant::new("burst", &[], "as fast as it can, 50k packets (the default)");
            Variant::new("heavier", &[("spin", "500")], "500 ns more in each handler");
            Variant::new("spawners4", &[("spawners", "4"), ("n", "200k")], "four listeners");
            Variant::new("1m", &[("n", "1m")], "a million packets");
            Variant::new("10m", &[("n", "10m")], "ten million packets");
            NULL;
        },
        smoke: &[("n", "2000")],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Jobs;
    const SIMULATES: bool = true;
    const ALSO: &[&str] = &["go", "steal-one"];

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        Ok(Self {
            listening: Listening::new(params),
            scan: Scan {
                packets: Packets::new(),
                spin: Duration::from_nanos(params.number("spin")),
            },
        })
    }

    sends!(|plan| plan.scan);
}

impl Plan {
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

    fn outcome(&self, recorded: &Recorded) -> Result<Outcome, LabError> {
        check("newlines", &recorded.counts[0], &self.expected())?;
        Ok(Outcome::new(self.listening.total(), recorded.elapsed)
            .with_latency(&recorded.histogram)
            .with_measure("window_full", recorded.waits as f64))
    }
}
