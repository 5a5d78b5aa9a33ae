//! Chains: a spawner sends things on journeys of several tasks each. Every task takes one step and spawns its
//! successor.
//!
//! ```text
//!  spawner ── departs ──▶ step ── launches ──▶ step ── launches ──▶ … ──▶ step, arrives ──▶ lane
//!     └── departs ──▶ step ── launches ──▶ …
//! ```
//!
//! Workloads differ in what travels ([`Journey`]) and how it sets out ([`Departures`]). The spawner is
//! written once per idiom, the steps are the same closures in both.

use std::hint::black_box;

use super::lane::{Landed, Lane, TALLIES, land};
use super::listener::Listening;
use super::spec::Kind;
use super::{Request, packet_bimodal};
use crate::error::LabError;
use crate::peers::{JobPool, Jobs, Runtime, TaskPool, Tasks, pools};

/// The verb of a step, whatever the idiom.
pub(super) trait Launch: Copy + Send + Sync + 'static {
    /// Starts a closure as a task that nobody waits for.
    fn launch(self, job: impl FnOnce() + Send + 'static);
}

/// Where tasks are futures with handles.
#[derive(Clone, Copy)]
pub(super) struct OfTasks<T>(pub(super) T);

impl<T: Tasks> Launch for OfTasks<T> {
    #[inline]
    fn launch(self, job: impl FnOnce() + Send + 'static) {
        self.0.launch_job(job);
    }
}

/// Where tasks are closures.
#[derive(Clone, Copy)]
pub(super) struct OfJobs<J>(pub(super) J);

impl<J: Jobs> Launch for OfJobs<J> {
    #[inline]
    fn launch(self, job: impl FnOnce() + Send + 'static) {
        self.0.launch(job);
    }
}

/// What goes through a chain of tasks.
pub(super) trait Journey: Send + 'static {
    /// One task's work. Whether it was the last.
    fn step(&mut self) -> bool;

    /// The end, in the last task: what was carried is gone, and its end is noted in the lane, now or by who
    /// ends later.
    fn arrive(self, lane: &'static Lane);
}

/// How journeys begin.
pub(super) trait Departures: Copy + Send + Sync + 'static {
    /// What sets out.
    type Journey: Journey;

    /// The journey that a spawner sends out as its `number`-th: always the same.
    fn depart(self, lane: &Lane, spawner: u64, number: u64) -> Self::Journey;
}

/// A link of the chain.
fn link<J: Journey>(launch: impl Launch, lane: &'static Lane, mut journey: J) {
    if journey.step() {
        journey.arrive(lane);
    } else {
        launch.launch(move || link(launch, lane, journey));
    }
}

/// Sends all journeys out with tasks that are futures, and waits for their ends.
pub(super) fn tasks<P: TaskPool>(listening: Listening, pool: &P, departures: impl Departures) -> Landed {
    let lanes = listening.lanes();
    for (spawner, lane) in (0..).zip(&lanes) {
        pool.start(task(pool.tasks(), lane, departures, spawner, listening));
    }
    land(&lanes, listening.share())
}

/// Sends all journeys out with tasks that are closures, and waits for their ends.
pub(super) fn jobs<P: JobPool>(listening: Listening, pool: &P, departures: impl Departures) -> Landed {
    let lanes = listening.lanes();
    for (spawner, lane) in (0..).zip(&lanes) {
        let (jobs, lane) = (pool.jobs(), *lane);
        pool.start(move || job(jobs, lane, departures, spawner, listening));
    }
    land(&lanes, listening.share())
}

/// A spawner as a future.
async fn task<T: Tasks, D: Departures>(
    tasks: T,
    lane: &'static Lane,
    departures: D,
    spawner: u64,
    listening: Listening,
) {
    let mut gate = lane.gate();
    lane.begin();
    for number in 0..listening.share() {
        while gate.is_full(number) {
            tasks.yield_now().await;
        }
        let journey = departures.depart(lane, spawner, number);
        if listening.handlers {
            tasks
                .launch_when_free(move || link(OfTasks(tasks), lane, journey))
                .await;
        } else {
            stay(lane, journey);
        }
    }
}

/// A spawner as a closure.
fn job<J: Jobs, D: Departures>(
    jobs: J,
    lane: &'static Lane,
    departures: D,
    spawner: u64,
    listening: Listening,
) {
    let mut gate = lane.gate();
    lane.begin();
    for number in 0..listening.share() {
        while gate.is_full(number) {
            jobs.yield_now();
        }
        let journey = departures.depart(lane, spawner, number);
        if listening.handlers {
            jobs.launch(move || link(OfJobs(jobs), lane, journey));
        } else {
            stay(lane, journey);
        }
    }
}

/// The null run: nothing sets out.
fn stay<J: Journey>(lane: &'static Lane, journey: J) {
    drop(black_box(journey));
    lane.finish_untimed([0; TALLIES], 1);
}

/// Why this runtime cannot take part where there are chains, or was made for nothing else, if so.
pub(super) fn refusal(request: &Request, runtime: Runtime) -> Result<Option<String>, LabError> {
    let waits = request.kind == Kind::PacketBimodal && packet_bimodal::waits(&request.params);
    let reason = match (request.kind, runtime) {
        (_, Runtime::Warpweft) => match request.policy.as_deref() {
            Some(policy) if pools::are_several(policy) => return pools::refusal(request, policy),
            _ => return Ok(None),
        },
        (_, Runtime::Rayon | Runtime::RayonFifo | Runtime::StealOne) if waits => {
            "its jobs cannot wait without holding a worker: see packet-bimodal/blocking"
        }
        (_, Runtime::Smol) if waits => "it has no timers of its own",
        (Kind::Packet | Kind::PacketCache | Kind::PacketBimodal | Kind::Options, Runtime::StealOne) => {
            return Ok(None);
        }
        (_, Runtime::StealOne) => {
            "measured where packets are handled: see packet, packet-cache, packet-bimodal and options"
        }
        (Kind::Options, Runtime::Go) if request.capture.is_some() => "its program reads no files",
        _ => return Ok(None),
    };
    Ok(Some(reason.to_owned()))
}

/// Chooses so many of a thousand out of `n`, shuffled, always the same ones: the nearest whole number, and
/// one at least unless none of a thousand is asked for.
pub(super) fn heavy_ones(n: u64, of_thousand: u64) -> Vec<bool> {
    let count = ((n * of_thousand + 500) / 1000).max(of_thousand.min(1));
    let mut chosen = vec![false; n as usize];
    chosen[..count as usize].fill(true);
    fastrand::Rng::with_seed(0xb1).shuffle(&mut chosen);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heavy_ones_are_an_exact_count_and_spread() {
        let count = |chosen: &[bool]| chosen.iter().filter(|heavy| **heavy).count();
        let many = heavy_ones(100_000, 1);
        assert_eq!(count(&many), 100);
        assert!((25..75).contains(&count(&many[..50_000])), "in no order");
        assert_eq!(many, heavy_ones(100_000, 1), "always the same ones");
        for (n, of_thousand, expected) in [(30_000, 5, 150), (10, 1, 1), (10, 0, 0), (10, 1000, 10)] {
            assert_eq!(
                count(&heavy_ones(n, of_thousand)),
                expected,
                "{of_thousand} of {n}"
            );
        }
    }
}
