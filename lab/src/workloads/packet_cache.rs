//! *packet-cache*: each packet goes through a chain of tasks that all touch it. Locality pays.
//!
//! Each task either reads 20 random bytes of the packet or sums up all of it, as a random number that travels
//! with the packet says, and then spawns its successor. The result of a chain depends on nothing but the
//! packet and its number, so the sum over all chains is known beforehand.

use crate::kit::chain::{Item, Listening, Source, allocated, freed, sends};
use crate::kit::host;
use crate::kit::packets::{POOL, Packets};
use crate::kit::task_recorder::{Recorded, TaskRecorder};
use crate::prelude::*;

/// Bytes that a light task reads.
const READS: usize = 20;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    listening: Listening,
    reading: Reading,
}

/// Chains that read packets.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// Tasks per packet.
    pub(super) chain: u64,
    /// The packets.
    pub(super) packets: Packets,
}

/// A packet on its way.
pub(super) struct PacketItem {
    /// The copy that is its own.
    packet: Vec<u8>,
    /// The sums over its tasks so far.
    pub(super) state: u64,
    left: u64,
    /// When it set out.
    pub(super) started: u64,
}

/// The next random number of a chain (splitmix64).
#[inline]
pub(super) fn scramble(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One task's work: the state after it.
#[inline]
fn work(packet: &[u8], state: u64) -> u64 {
    let mut random = scramble(state);
    let read = if random & 1 == 0 {
        (0..READS)
            .map(|_| {
                random = scramble(random);
                // The high half times the length: a place in the packet without a division.
                let place = (((random >> 32) * packet.len() as u64) >> 32) as usize;
                host::reads(&packet[place..=place]);
                u64::from(packet[place])
            })
            .sum()
    } else {
        host::reads(packet);
        packet.iter().map(|byte| u64::from(*byte)).sum::<u64>()
    };
    scramble(state ^ read)
}

/// The packet that a spawner sends as its `number`-th, and the state it starts with.
#[inline]
fn first_state(spawner: u64, number: u64) -> (usize, u64) {
    let state = scramble(spawner << 40 | number);
    ((state % POOL as u64) as usize, state)
}

impl Item for PacketItem {
    #[inline]
    fn step(&mut self) -> bool {
        self.state = work(&self.packet, self.state);
        self.left -= 1;
        self.left == 0
    }

    #[inline]
    fn arrive(self, recorder: &'static TaskRecorder) {
        let Self {
            packet,
            state,
            started,
            ..
        } = self;
        freed(packet);
        recorder.finish(started, [state, 0, 0, 0]);
    }
}

impl Source for Reading {
    type Item = PacketItem;

    fn items(self, spawner: u64) -> impl FnMut(&TaskRecorder, u64) -> PacketItem + Send + 'static {
        move |recorder, number| self.item(recorder, spawner, number)
    }
}

impl Reading {
    #[inline]
    pub(super) fn item(self, recorder: &TaskRecorder, spawner: u64, number: u64) -> PacketItem {
        let (index, state) = first_state(spawner, number);
        let packet = allocated(&self.packets.packets[index]);
        PacketItem {
            packet,
            state,
            left: self.chain,
            started: recorder.now(),
        }
    }

    /// The sum of the last states of all chains, computed one after the other.
    pub(super) fn expected(self, listening: Listening) -> u64 {
        if !listening.handlers {
            return 0;
        }
        let mut sum = 0_u64;
        for spawner in 0..listening.spawners {
            for number in 0..listening.share() {
                let (index, mut state) = first_state(spawner, number);
                for _ in 0..self.chain {
                    state = work(&self.packets.packets[index], state);
                }
                sum = sum.wrapping_add(state);
            }
        }
        sum
    }
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "packet-cache",
        about: "each packet goes through a chain of tasks that read 20 bytes of it or sum it up: locality pays",
        unit: "packets",
        latency: Some("from spawn to the end of the chain"),
        params: params! {
            count("50k", "packets", 1 << 32);
            WINDOW;
            spawners("5");
            Param::number("chain", "10", 1, 10_000, "tasks per packet");
            HANDLERS;
        },
        variants: variants! {
            Variant::new("spawners10", &[("spawners", "10")], "ten spawners");
            NULL;
        },
        smoke: &[("n", "500")],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Jobs;
    const SIMULATES: bool = true;
    const ALSO: &[&str] = &["go", "steal-one"];

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        Ok(Self {
            listening: Listening::new(params),
            reading: Reading {
                chain: params.number("chain"),
                packets: Packets::new(),
            },
        })
    }

    sends!(|plan| plan.reading);
}

impl Plan {
    fn outcome(&self, recorded: &Recorded) -> Result<Outcome, LabError> {
        check(
            "sum over all chains",
            &recorded.counts[0],
            &self.reading.expected(self.listening),
        )?;
        let outcome =
            Outcome::new(self.listening.total(), recorded.elapsed).with_latency(&recorded.histogram);
        let tasks_per_second = outcome.throughput * self.reading.chain as f64;
        Ok(outcome
            .with_measure("tasks_per_second", tasks_per_second)
            .with_measure("window_full", recorded.waits as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_depends_on_packet_and_state_alone() {
        let packets = Packets::new().packets;
        assert_eq!(work(&packets[0], 1), work(&packets[0].clone(), 1));
        assert_ne!(work(&packets[0], 1), work(&packets[0], 2));
        let both: std::collections::BTreeSet<u64> = (0..64).map(|state| scramble(state) & 1).collect();
        assert_eq!(both.len(), 2, "both kinds of task occur");
    }
}
