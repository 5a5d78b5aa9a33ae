//! Where a worker without tasks of its own looks for work, and where it sleeps: what the idle protocol asks it.

use super::berth::Berth;
use super::pool::Pool;
use super::worker::{Work, Worker};
use crate::idle::Seeker;
use crate::io::Turn;
use warpweft_policy::{Count, Policy};

/// A worker that seeks work.
pub(super) struct Seeking<'a, P: Policy> {
    worker: &'a Worker<P>,
    pool: &'a Pool<P>,
    /// Of the thread that carries it.
    berth: &'a Berth,
    /// How many tasks it had left to their owners when it was asked last.
    left: u64,
}

impl<'a, P: Policy> Seeking<'a, P> {
    /// # Safety
    ///
    /// As [`Worker::call`], for as long as the value lives.
    pub(super) unsafe fn new(worker: &'a Worker<P>, berth: &'a Berth) -> Self {
        Self {
            worker,
            pool: worker.pool(),
            berth,
            left: worker.counters().get(Count::Spared),
        }
    }

    fn fiber(&self) -> Option<Work> {
        self.berth.may_be_ready().then_some(Work::Fiber)
    }

    fn errand(&self) -> Option<Work> {
        self.worker.errands.pop().map(Work::Task)
    }

    fn found(&self, work: Option<Work>) -> Option<Work> {
        if work.is_some() {
            self.pool.market.stop_watching(&self.worker.seen);
        }
        work
    }
}

impl<'a, P: Policy> Seeker for Seeking<'a, P> {
    type Found = Work;
    type Bed = Turn<'a>;

    fn look(&mut self) -> Option<Work> {
        let (worker, pool) = (self.worker, self.pool);
        // SAFETY: by the contract of `new`.
        let task = unsafe { worker.call(P::search) }.map(Work::Task);
        let elsewhere = || self.fiber().or_else(|| worker.rob()).or_else(|| self.errand());
        let mut work = task.or_else(elsewhere);
        if work.is_none() && pool.engine.look(&pool.idle) {
            // SAFETY: as above.
            work = unsafe { worker.call(P::next) }.map(Work::Task);
        }
        self.found(work)
    }

    fn scan(&mut self) -> Option<Work> {
        // Not ended here: what it holds may wait as it is dropped, and this worker is announced as asleep.
        let lost = self.pool.take_lost().map(Work::Lost);
        let work = lost
            // SAFETY: by the contract of `new`.
            .or_else(|| unsafe { self.worker.call(P::scan) }.map(Work::Task))
            .or_else(|| self.errand())
            .or_else(|| self.fiber())
            .or_else(|| self.worker.rob());
        self.found(work)
    }

    fn stops(&self) -> bool {
        self.pool.life.is_closing()
    }

    fn parks(&self) {
        self.worker.counters().add(Count::Parks, 1);
    }

    fn nap_ns(&mut self) -> Option<u64> {
        self.pool.market.nap_ns(&self.worker.seen)
    }

    fn bed(&self, naps: bool) -> Option<Turn<'a>> {
        let bed = self.pool.engine.bed();
        if bed.is_none() && !naps {
            self.pool.engine.relieve();
        }
        bed
    }

    fn is_in_haste(&self) -> bool {
        self.pool.engine.is_polled()
    }

    fn has_left(&mut self) -> bool {
        let left = self.worker.counters().get(Count::Spared);
        std::mem::replace(&mut self.left, left) != left
    }
}
