//! *packet-cache*: each packet goes through a chain of tasks that all touch it. Locality pays.
//!
//! Each task either reads 20 random bytes of the packet or sums up all of it, as a random number that travels with
//! the packet says, and then spawns its successor. The result of a chain depends on nothing but the packet and its
//! number, so the sum over all chains is known beforehand.

use std::hint::black_box;

use super::check;
use super::lane::{Landed, Lane, TALLIES, land};
use super::listener::Listening;
use super::packets::Packets;
use super::params::Params;
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::{JobPool, Jobs, TaskPool, Tasks};

/// Bytes that a light task reads.
const READS: usize = 20;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    listening: Listening,
    chain: u64,
    packets: Packets,
}

/// A packet on its way.
struct Journey {
    packet: Vec<u8>,
    state: u64,
    left: u64,
    started: u64,
}

/// The next random number of a chain (splitmix64).
#[inline]
fn scramble(state: u64) -> u64 {
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
                let place = ((random >> 32) * packet.len() as u64) >> 32;
                u64::from(packet[place as usize])
            })
            .sum()
    } else {
        packet.iter().map(|byte| u64::from(*byte)).sum::<u64>()
    };
    scramble(state ^ read)
}

/// The packet that a spawner sends as its `number`-th, and the state it starts with.
#[inline]
fn first_state(spawner: u64, number: u64) -> (usize, u64) {
    let state = scramble(spawner << 40 | number);
    ((state % super::packets::POOL as u64) as usize, state)
}

/// A link of the chain as a closure task, in the idiom of futures.
fn link_task<T: Tasks>(tasks: T, lane: &'static Lane, mut journey: Journey) {
    journey.state = work(&journey.packet, journey.state);
    journey.left -= 1;
    if journey.left == 0 {
        arrive(lane, journey);
    } else {
        tasks.launch_job(move || link_task(tasks, lane, journey));
    }
}

/// A link of the chain in the idiom of closures.
fn link_job<J: Jobs>(jobs: J, lane: &'static Lane, mut journey: Journey) {
    journey.state = work(&journey.packet, journey.state);
    journey.left -= 1;
    if journey.left == 0 {
        arrive(lane, journey);
    } else {
        jobs.launch(move || link_job(jobs, lane, journey));
    }
}

/// The end of a chain.
fn arrive(lane: &'static Lane, journey: Journey) {
    let Journey {
        packet,
        state,
        started,
        ..
    } = journey;
    drop(packet);
    lane.finish(started, [state, 0, 0, 0]);
}

impl Plan {
    /// Reads the parameters and makes the packets.
    pub(super) fn new(params: &Params) -> Self {
        Self {
            listening: Listening::new(params),
            chain: params.number("chain"),
            packets: Packets::new(),
        }
    }

    /// The part that is not measured.
    pub(super) fn warm_up(&self) -> Self {
        Self {
            listening: self.listening.warm_up(),
            ..*self
        }
    }

    /// A packet at the start of its journey.
    fn depart(&self, lane: &'static Lane, spawner: u64, number: u64) -> Journey {
        let (index, state) = first_state(spawner, number);
        let packet = self.packets.packets[index].clone();
        Journey {
            packet,
            state,
            left: self.chain,
            started: lane.now(),
        }
    }

    /// The sum of the last states of all chains, computed one after the other.
    fn expected(&self) -> u64 {
        if !self.listening.handlers {
            return 0;
        }
        let mut sum = 0_u64;
        for spawner in 0..self.listening.spawners {
            for number in 0..self.listening.share() {
                let (index, mut state) = first_state(spawner, number);
                for _ in 0..self.chain {
                    state = work(&self.packets.packets[index], state);
                }
                sum = sum.wrapping_add(state);
            }
        }
        sum
    }

    /// Runs with tasks that are futures.
    pub(super) fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let expected = self.expected();
        let lanes = self.listening.lanes();
        for (spawner, lane) in (0..).zip(&lanes) {
            pool.start(spawn_tasks(*self, pool.tasks(), lane, spawner));
        }
        self.outcome(&land(&lanes, self.listening.share()), expected)
    }

    /// Runs with tasks that are closures.
    pub(super) fn jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let expected = self.expected();
        let lanes = self.listening.lanes();
        for (spawner, lane) in (0..).zip(&lanes) {
            let (plan, jobs, lane) = (*self, pool.jobs(), *lane);
            pool.start(move || spawn_jobs(plan, jobs, lane, spawner));
        }
        self.outcome(&land(&lanes, self.listening.share()), expected)
    }

    fn outcome(&self, landed: &Landed, expected: u64) -> Result<Outcome, LabError> {
        check("sum over all chains", &landed.tally[0], &expected)?;
        let total = self.listening.total();
        let outcome = Outcome::new(total, landed.elapsed).with_latency(&landed.histogram);
        let tasks_per_second = outcome.throughput * self.chain as f64;
        Ok(outcome
            .with_measure("tasks_per_second", tasks_per_second)
            .with_measure("window_full", landed.waits as f64))
    }
}

/// A spawner as a future.
async fn spawn_tasks<T: Tasks>(plan: Plan, tasks: T, lane: &'static Lane, spawner: u64) {
    let mut gate = lane.gate();
    lane.begin();
    for number in 0..plan.listening.share() {
        while gate.is_full(number) {
            tasks.yield_now().await;
        }
        let journey = plan.depart(lane, spawner, number);
        if !plan.listening.handlers {
            drop(black_box(journey));
            lane.finish_untimed([0; TALLIES], 1);
            continue;
        }
        tasks.launch_job(move || link_task(tasks, lane, journey));
    }
}

/// A spawner as a closure.
fn spawn_jobs<J: Jobs>(plan: Plan, jobs: J, lane: &'static Lane, spawner: u64) {
    let mut gate = lane.gate();
    lane.begin();
    for number in 0..plan.listening.share() {
        while gate.is_full(number) {
            jobs.yield_now();
        }
        let journey = plan.depart(lane, spawner, number);
        if !plan.listening.handlers {
            drop(black_box(journey));
            lane.finish_untimed([0; TALLIES], 1);
            continue;
        }
        jobs.launch(move || link_job(jobs, lane, journey));
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
