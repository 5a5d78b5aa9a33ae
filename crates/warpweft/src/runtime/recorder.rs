//! [`Recorder`]: the flight recorder of a runtime.

use super::builder::Builder;
use super::handle::Runtime;
use super::pool::Pool;
use crate::observe::recorder::snapshot::Snapshot;
use std::time::Duration;

/// The flight recorder of a runtime, or of one pool: what the workers did lately. See [`Runtime::recorder`].
///
/// # What is recorded
///
/// - **Always**: what is rare. Workers fall asleep, wake up, are woken; they steal tasks, their queues
///   overflow; tasks change pools; compensating workers come and go; workers are stuck.
/// - **Steps, on request**: when each step of a task begins and ends, on which worker, and when each task
///   became runnable, and by what. See [`record_steps`](Self::record_steps).
///
/// Each worker has a ring of the latest events. A reader does not stop it.
/// [`Builder::recorder_bytes`](crate::Builder::recorder_bytes) bounds its size.
///
/// A handle keeps the memory of its pools. It can be used after the runtime has shut down: then it shows the
/// last events.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let recorder = runtime.recorder();
/// recorder.record_steps(true);
/// runtime.spawn_job(|| ()).wait()?;
/// recorder.record_steps(false);
/// let mut json = Vec::new();
/// recorder.snapshot().write_json(&mut json)?;
/// assert!(String::from_utf8(json)?.contains("begin"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Recorder {
    pools: Vec<Pool>,
}

impl Recorder {
    /// Begins or ends to record the steps of tasks.
    ///
    /// A worker that sleeps records from its next task on, a busy one after at most 64 tasks. A step costs
    /// about 10 ns then, and so does a push; without it they cost nothing. The clock takes most of that. A
    /// task with a [name](crate::TaskBuilder::name) costs some 100 ns more for each step.
    ///
    /// Closures of [`spawn_blocking`](crate::spawn_blocking) have their own tracks, and cost a lock at
    /// both ends. The turns of a fiber after its first one are recorded when they are over. A half of a join
    /// is recorded when another worker takes it; a half that its owner takes back is a part of the owner's
    /// step.
    ///
    /// A wake of a fiber by another thread is recorded where the waker enters the mailbox of the fiber's
    /// thread, and so has its own time. A wake by the fiber's own thread is recorded at the end of the step
    /// that woke it, if at most 64 fibers of the thread are ready.
    pub fn record_steps(&self, on: bool) {
        for pool in &self.pools {
            let recorder = &pool.any().core().recorder;
            recorder.set_steps(on, |mode| pool.any().set_recorded(mode.is_on()));
        }
    }

    /// Returns true if steps are recorded.
    #[must_use]
    pub fn records_steps(&self) -> bool {
        let is_on = |pool: &Pool| pool.any().core().recorder.mode().has_steps();
        self.pools.iter().any(is_on)
    }

    /// Begins or ends to measure how long tasks run and how long they wait for a worker, for
    /// [`Runtime::metrics`]. Begins and costs as [`record_steps`](Self::record_steps) does; both together
    /// cost one look at the clock.
    pub fn measure_steps(&self, on: bool) {
        for pool in &self.pools {
            let recorder = &pool.any().core().recorder;
            recorder.set_times(on, |mode| pool.any().set_recorded(mode.is_on()));
        }
    }

    /// Returns true if steps are measured.
    #[must_use]
    pub fn measures_steps(&self) -> bool {
        let is_on = |pool: &Pool| pool.any().core().recorder.mode().has_times();
        self.pools.iter().any(is_on)
    }

    /// Copies what is recorded. Costs time and memory in proportion to it, up to some 100 ms for 4 MiB of
    /// each worker, and stops no worker. Of what a worker records meanwhile, some may be missing at the old
    /// end.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let copy = |pool: &Pool| pool.any().core().recorder.snapshot(pool.name(), pool.workers());
        Snapshot {
            pools: self.pools.iter().map(copy).collect(),
        }
    }
}

impl Runtime {
    /// Returns the flight recorder of all pools.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        Recorder {
            pools: self.pools().to_vec(),
        }
    }
}

impl Pool {
    /// Returns the flight recorder of this pool.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        Recorder {
            pools: vec![self.clone()],
        }
    }
}

impl Builder {
    /// Sets the memory of each worker's flight recorder in bytes, for steps; rare events have 1/32 of it in
    /// addition. The default is 4 MiB. Memory is used only as far as there are events: 16 bytes for each.
    /// With 0 nothing is recorded.
    pub fn recorder_bytes(mut self, bytes: usize) -> Self {
        self.config.recorder.bytes = bytes;
        self
    }

    /// Sets how old an event of the flight recorder becomes at least before a later one takes its place, as
    /// far as [`recorder_bytes`](Self::recorder_bytes) allows. The default is 10 seconds. The recorder begins
    /// with 4 KiB for each worker and grows while its events are younger.
    pub fn recorder_min_age(mut self, age: Duration) -> Self {
        self.config.recorder.min_age = age;
        self
    }
}
