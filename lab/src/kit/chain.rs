//! Spawners and chains: a spawner sends items through a chain of tasks each, as fast as its window allows.
//! Every task takes one step and spawns its successor; a packet that one task handles is a chain of one.
//!
//! ```text
//!  spawner ── sends ──▶ step ── launches ──▶ step ── launches ──▶ … ──▶ step, arrives ──▶ recorder
//!     └── sends ──▶ step ── launches ──▶ …
//! ```
//!
//! Workloads differ in what passes through ([`Item`]) and where it comes from ([`Source`]). The spawner is
//! written once per idiom, the steps are the same closures in both.

use std::hint::black_box;

use harness::Params;

use super::host;
use super::task_recorder::{COUNTS, Counts, Recorded, TaskRecorder, record};
use crate::idioms::{JobApi, JobPool, SpawnApi, TaskPool};

/// Simulated: to allocate a copy and a task, and to choose a packet; assumed, as mimalloc takes on the usual
/// machines.
const ALLOCATE_NS: u64 = 60;
/// Simulated: to free both; assumed, since another core has allocated them.
const FREE_NS: u64 = 40;

/// The call of a step, whatever the idiom.
pub(crate) trait Launch: Copy + Send + Sync + 'static {
    /// Starts a closure as a task that is not waited for.
    fn launch(self, job: impl FnOnce() + Send + 'static);
}

/// Tasks that are futures with handles.
#[derive(Clone, Copy)]
pub(crate) struct OfTasks<T>(pub(crate) T);

impl<T: SpawnApi> Launch for OfTasks<T> {
    #[inline]
    fn launch(self, job: impl FnOnce() + Send + 'static) {
        self.0.launch_job(job);
    }
}

/// Tasks that are closures.
#[derive(Clone, Copy)]
pub(crate) struct OfJobs<J>(pub(crate) J);

impl<J: JobApi> Launch for OfJobs<J> {
    #[inline]
    fn launch(self, job: impl FnOnce() + Send + 'static) {
        self.0.launch(job);
    }
}

/// An item that passes through a chain of tasks.
pub(crate) trait Item: Send + 'static {
    /// One task's work. Whether it was the last.
    fn step(&mut self) -> bool;

    /// The end, in the last task: what was carried is gone, and its end is noted in the recorder, now or by a
    /// task that ends later.
    fn arrive(self, recorder: &'static TaskRecorder);
}

/// A source of items.
pub(crate) trait Source: Copy + Send + Sync + 'static {
    /// The items that pass through.
    type Item: Item;

    /// The items of a spawner by number, which are asked for in order: always the same ones.
    fn items(self, spawner: u64) -> impl FnMut(&TaskRecorder, u64) -> Self::Item + Send + 'static;
}

/// A source of packets that one task handles.
pub(crate) trait Feed: Copy + Send + Sync + 'static {
    /// The packets of a spawner, without end and always the same.
    fn packets(self, spawner: u64) -> impl Iterator<Item = &'static [u8]> + Send + 'static;

    /// The handler: what it finds in the packet.
    fn handle(self, packet: &[u8]) -> Counts;
}

/// A copy of a packet.
pub(crate) fn allocated(packet: &[u8]) -> Vec<u8> {
    let copy = packet.to_vec();
    host::takes(ALLOCATE_NS);
    host::reads(packet);
    host::writes(&copy);
    copy
}

/// The end of a copy.
pub(crate) fn freed(copy: Vec<u8>) {
    host::takes(FREE_NS);
    drop(copy);
}

/// A copy of a packet on its way to its handler.
pub(crate) struct Packet<F> {
    feed: F,
    copy: Vec<u8>,
    started: u64,
}

impl<F: Feed> Source for F {
    type Item = Packet<F>;

    fn items(self, spawner: u64) -> impl FnMut(&TaskRecorder, u64) -> Packet<F> + Send + 'static {
        let mut packets = self.packets(spawner);
        move |recorder, _| {
            let packet = packets.next().expect("packets have no end");
            Packet {
                feed: self,
                copy: allocated(packet),
                started: recorder.now(),
            }
        }
    }
}

impl<F: Feed> Item for Packet<F> {
    #[inline]
    fn step(&mut self) -> bool {
        true
    }

    #[inline]
    fn arrive(self, recorder: &'static TaskRecorder) {
        host::reads(&self.copy);
        let counts = self.feed.handle(&self.copy);
        freed(self.copy);
        recorder.finish(self.started, counts);
    }
}

/// A link of the chain.
fn link<I: Item>(launch: impl Launch, recorder: &'static TaskRecorder, mut item: I) {
    if item.step() {
        item.arrive(recorder);
    } else {
        launch.launch(move || link(launch, recorder, item));
    }
}

/// The way in which spawners send items out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listening {
    /// Packets over all spawners.
    pub(crate) n: u64,
    /// Packets under way over all spawners; 0 is no bound.
    pub(crate) window: u64,
    /// Spawners.
    pub(crate) spawners: u64,
    /// True if handlers are spawned; if not, the copy is dropped at once.
    pub(crate) handlers: bool,
}

impl Listening {
    /// Reads the parameters that all workloads with packets have.
    pub(crate) fn new(params: &Params) -> Self {
        Self {
            n: params.number("n"),
            window: params.number("window"),
            spawners: params.number("spawners"),
            handlers: params.word("handlers") == "spawn",
        }
    }

    /// Packets of each spawner; `n` is rounded down to a multiple of the spawners.
    pub(crate) fn share(&self) -> u64 {
        (self.n / self.spawners).max(1)
    }

    /// Packets over all spawners, as they will really be.
    pub(crate) fn total(&self) -> u64 {
        self.share() * self.spawners
    }

    /// The same for the part that is not measured: a tenth, and no more than 20 000 packets.
    pub(crate) fn warm_up(self) -> Self {
        Self {
            n: (self.n / 10).clamp(self.spawners, 20_000.max(self.spawners)),
            ..self
        }
    }

    /// A recorder for each spawner, each with its part of the window.
    pub(crate) fn recorders(&self) -> Vec<&'static TaskRecorder> {
        let part = if self.window == 0 {
            0
        } else {
            (self.window / self.spawners).max(1)
        };
        let base = host::now();
        (0..self.spawners)
            .map(|_| TaskRecorder::leaked(base, part))
            .collect()
    }

    /// Sends all items out with tasks that are futures, and waits for their ends.
    pub(crate) fn tasks<P: TaskPool>(self, pool: &P, source: impl Source) -> Recorded {
        let recorders = self.recorders();
        for (spawner, recorder) in (0..).zip(&recorders) {
            pool.start(task(pool.tasks(), recorder, source.items(spawner), self));
        }
        record(&recorders, self.share())
    }

    /// Sends all items out with tasks that are closures, and waits for their ends.
    pub(crate) fn jobs<P: JobPool>(self, pool: &P, source: impl Source) -> Recorded {
        let recorders = self.recorders();
        for (spawner, recorder) in (0..).zip(&recorders) {
            let (jobs, recorder, items) = (pool.jobs(), *recorder, source.items(spawner));
            pool.start(move || job(jobs, recorder, items, self));
        }
        record(&recorders, self.share())
    }
}

/// The methods of a program that sends the items of one source out: `|plan|` names the program.
macro_rules! sends {
    (|$plan:ident| $source:expr) => {
        fn warm_up(&self) -> Option<Self> {
            Some(Self {
                listening: self.listening.warm_up(),
                ..*self
            })
        }

        fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
            let $plan = self;
            self.outcome(&self.listening.tasks(pool, $source))
        }

        fn jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
            let $plan = self;
            self.outcome(&self.listening.jobs(pool, $source))
        }
    };
}

pub(crate) use sends;

/// A spawner as a future.
async fn task<T: SpawnApi, I: Item>(
    tasks: T,
    recorder: &'static TaskRecorder,
    mut items: impl FnMut(&TaskRecorder, u64) -> I + Send,
    listening: Listening,
) {
    let mut window = recorder.spawn_window();
    recorder.begin();
    for number in 0..listening.share() {
        while window.is_full(number) {
            tasks.yield_now().await;
        }
        let item = items(recorder, number);
        if listening.handlers {
            tasks
                .launch_when_free(move || link(OfTasks(tasks), recorder, item))
                .await;
        } else {
            stay(recorder, item);
        }
    }
}

/// A spawner as a closure.
fn job<J: JobApi, I: Item>(
    jobs: J,
    recorder: &'static TaskRecorder,
    mut items: impl FnMut(&TaskRecorder, u64) -> I,
    listening: Listening,
) {
    let mut window = recorder.spawn_window();
    recorder.begin();
    for number in 0..listening.share() {
        while window.is_full(number) {
            jobs.yield_now();
        }
        let item = items(recorder, number);
        if listening.handlers {
            jobs.launch(move || link(OfJobs(jobs), recorder, item));
        } else {
            stay(recorder, item);
        }
    }
}

/// The null run: nothing is sent out.
fn stay<I: Item>(recorder: &'static TaskRecorder, item: I) {
    drop(black_box(item));
    recorder.finish_untimed([0; COUNTS], 1);
}

/// Chooses the given number per thousand out of `n`, shuffled, always the same ones: the nearest whole
/// number, and one at least unless none of a thousand is asked for.
pub(crate) fn heavy_ones(n: u64, of_thousand: u64) -> Vec<bool> {
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
