//! The listener: a task that copies packets and spawns a handler for each, as fast as its window allows.
//!
//! `packet` and `pcap` share it; they differ in where packets come from and what a handler does ([`Feed`]).
//! It is written once per idiom.

use std::hint::black_box;

use super::lane::{Landed, Lane, TALLIES, Tally, land};
use super::params::Params;
use crate::peers::{JobPool, Jobs, TaskPool, Tasks};

/// Where packets come from and what is done with them.
pub(super) trait Feed: Copy + Send + Sync + 'static {
    /// Chooses the packets of one spawner.
    type Picker: Iterator<Item = &'static [u8]> + Send + 'static;

    /// The packets of spawner number `spawner`, without end and always the same.
    fn picker(self, spawner: u64) -> Self::Picker;

    /// The handler: what it finds in the packet.
    fn handle(self, packet: &[u8]) -> Tally;
}

/// How the listeners listen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listening {
    /// Packets over all spawners.
    pub(super) n: u64,
    /// Packets under way over all spawners; 0 is no bound.
    pub(super) window: u64,
    /// Listeners.
    pub(super) spawners: u64,
    /// Whether handlers are spawned; if not, the copy is dropped at once.
    pub(super) handlers: bool,
}

impl Listening {
    /// Reads the parameters that all workloads with packets have.
    pub(super) fn new(params: &Params) -> Self {
        Self {
            n: params.number("n"),
            window: params.number("window"),
            spawners: params.number("spawners"),
            handlers: params.word("handlers") == "spawn",
        }
    }

    /// Packets of each spawner; `n` is rounded down to a multiple of the spawners.
    pub(super) fn share(&self) -> u64 {
        (self.n / self.spawners).max(1)
    }

    /// Packets over all spawners, as they will really be.
    pub(super) fn total(&self) -> u64 {
        self.share() * self.spawners
    }

    /// The same for the part that is not measured: a tenth, and no more than 20 000 packets.
    pub(super) fn warm_up(self) -> Self {
        Self {
            n: (self.n / 10).clamp(self.spawners, 20_000.max(self.spawners)),
            ..self
        }
    }

    /// A lane for each spawner, each with its part of the window.
    pub(super) fn lanes(&self) -> Vec<&'static Lane> {
        let part = if self.window == 0 {
            0
        } else {
            (self.window / self.spawners).max(1)
        };
        let base = super::base();
        (0..self.spawners).map(|_| Lane::leaked(base, part)).collect()
    }

    /// Listens with tasks that are futures.
    pub(super) fn tasks<P: TaskPool, F: Feed>(self, pool: &P, feed: F) -> Landed {
        let lanes = self.lanes();
        for (number, lane) in (0..).zip(&lanes) {
            pool.start(task(pool.tasks(), lane, feed, number, self));
        }
        land(&lanes, self.share())
    }

    /// Listens with tasks that are closures.
    pub(super) fn jobs<P: JobPool, F: Feed>(self, pool: &P, feed: F) -> Landed {
        let lanes = self.lanes();
        for (number, lane) in (0..).zip(&lanes) {
            let (jobs, lane) = (pool.jobs(), *lane);
            pool.start(move || job(jobs, lane, feed, number, self));
        }
        land(&lanes, self.share())
    }
}

/// The listener as a future.
async fn task<T: Tasks, F: Feed>(tasks: T, lane: &'static Lane, feed: F, number: u64, listening: Listening) {
    let share = listening.share();
    let mut gate = lane.gate();
    lane.begin();
    for (spawned, packet) in (0..share).zip(feed.picker(number)) {
        while gate.is_full(spawned) {
            tasks.yield_now().await;
        }
        let copy = packet.to_vec();
        if !listening.handlers {
            drop(black_box(copy));
            lane.finish_untimed([0; TALLIES], 1);
            continue;
        }
        let started = lane.now();
        tasks.launch_job(move || handler(lane, feed, copy, started));
    }
}

/// The listener as a closure.
fn job<J: Jobs, F: Feed>(jobs: J, lane: &'static Lane, feed: F, number: u64, listening: Listening) {
    let share = listening.share();
    let mut gate = lane.gate();
    lane.begin();
    for (spawned, packet) in (0..share).zip(feed.picker(number)) {
        while gate.is_full(spawned) {
            jobs.yield_now();
        }
        let copy = packet.to_vec();
        if !listening.handlers {
            drop(black_box(copy));
            lane.finish_untimed([0; TALLIES], 1);
            continue;
        }
        let started = lane.now();
        jobs.launch(move || handler(lane, feed, copy, started));
    }
}

/// The handler: the packet is gone when it is done.
#[inline]
fn handler<F: Feed>(lane: &'static Lane, feed: F, packet: Vec<u8>, started: u64) {
    let tally = feed.handle(&packet);
    drop(packet);
    lane.finish(started, tally);
}
