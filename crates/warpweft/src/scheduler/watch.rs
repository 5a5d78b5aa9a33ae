//! The monitor's tick: which workers are stuck, and the compensating workers that it sends. See
//! `threads/MONITOR.md`.

use super::pool::Pool;
use crate::driver::standby::TICK_NS;
use crate::observe::recorder::event::Kind;
use crate::threads::monitor::{QUIET_TICKS, Stall};
use crate::threads::pool_ref::PoolRef;
use std::sync::Arc;
use std::time::Duration;
use warpweft_platform::clock;
use warpweft_platform::process::end_child_if;
use warpweft_platform::thread_state;
use warpweft_policy::Policy;

/// What the monitor remembers of a worker.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    steps: u64,
    since_ns: u64,
    told: bool,
}

impl<P: Policy> Pool<P> {
    pub(crate) fn watch_workers(&self, pool: &Arc<dyn PoolRef>) {
        let monitor = &self.core.monitor;
        let stuck_ns = monitor.stuck_ns();
        let fresh = Sample {
            since_ns: clock::now_ns(),
            ..Sample::default()
        };
        let mut seen = vec![fresh; self.workers.len()];
        let mut quiet = 0;
        let is_asleep = |quiet| quiet >= QUIET_TICKS && self.everybody_sleeps();
        let standby = &self.core.driver.standby;
        let tick_ns = || match standby.is_wanted() {
            true => (stuck_ns / 2).min(TICK_NS),
            false => stuck_ns / 2,
        };
        while monitor.sleep(tick_ns(), || is_asleep(quiet)) {
            quiet = if self.everybody_sleeps() { quiet + 1 } else { 0 };
            let stuck = self.count_stuck(&mut seen, stuck_ns);
            standby.tick();
            if stuck > 0 {
                standby.want();
            }
            let needed = stuck + usize::from(self.core.driver.wants_standby());
            // Counted once: one that finds nothing retires at once, and would be sent again during the same
            // tick.
            let missing = monitor.set_needed(stuck, needed);
            // Tasks that came meanwhile wake nothing in the poller.
            if stuck > 0 || monitor.lets_go() {
                self.core.driver.relieve();
            }
            for _ in 0..missing {
                if !self.send_compensating(pool) {
                    standby.give_up();
                    break;
                }
            }
        }
    }

    fn everybody_sleeps(&self) -> bool {
        self.core.monitor.active() == 0 && (0..self.core.asked).all(|worker| !self.core.idle.is_awake(worker))
    }

    /// Returns how many workers, compensating workers included, have been in one task for too long.
    fn count_stuck(&self, seen: &mut [Sample], stuck_ns: u64) -> usize {
        let now = clock::now_ns();
        let mut stuck = 0;
        for (id, seen) in seen.iter_mut().enumerate() {
            let steps = self.workers[id].steps();
            // A compensating worker is stuck only if it has made a step since it was sent.
            let works = id >= self.core.asked || self.core.idle.is_awake(id);
            let rests = id >= self.core.asked
                && (!self.workers[id].is_carried() || self.core.driver.standby.sleeps(id));
            if !works || steps != seen.steps || rests {
                *seen = Sample {
                    steps,
                    since_ns: now,
                    told: false,
                };
                continue;
            }
            let ns = now.saturating_sub(seen.since_ns);
            if ns >= stuck_ns {
                stuck += 1;
                if !std::mem::replace(&mut seen.told, true) {
                    // The worker may have drawn tasks from a common queue while others that looked there went
                    // to sleep.
                    self.core.idle.wake_one();
                    self.tell(id, ns);
                }
            }
        }
        stuck
    }

    fn tell(&self, worker: usize, ns: u64) {
        self.core.recorder.note_outside(Kind::Stall, worker as u64);
        self.core.monitor.report(|| {
            let (name, spawned_at) = self.workers[worker].running().unzip();
            Stall {
                pool: self.core.info.name.clone(),
                worker,
                stuck_for: Duration::from_nanos(ns),
                name: name.flatten(),
                spawned_at,
                thread_state: self.core.threads.thread_with(worker).and_then(thread_state::of),
            }
        });
        end_child_if(self.core.is_forked());
    }

    /// Gives a vacant compensating worker to a spare thread. Returns true if it did.
    fn send_compensating(&self, pool: &Arc<dyn PoolRef>) -> bool {
        if !self.core.lifecycle.enter() {
            return false;
        }
        let Some(id) = self.core.monitor.take_one() else {
            self.leave(1);
            return false;
        };
        let Ok(spare) = self.core.threads.reserve(pool) else {
            self.core.monitor.put_back(id);
            self.leave(1);
            return false;
        };
        self.workers[id].set_carried(true);
        self.core.recorder.note_outside(Kind::Compensate, id as u64);
        spare.handoff.assign(Some(id));
        true
    }

    /// Retires this compensating worker, which the calling thread has released, and which is empty.
    pub(crate) fn retire_compensating(&self, id: usize) {
        self.core.driver.standby.discharge(id);
        self.workers[id].set_carried(false);
        self.core.recorder.note_outside(Kind::Retire, id as u64);
        self.core.monitor.put_back(id);
        self.leave(1);
    }
}
