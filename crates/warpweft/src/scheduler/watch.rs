//! The monitor's tick: which workers are stuck, and the compensating workers that it sends. See
//! `threads/MONITOR.md`.

use crate::driver::standby::TICK_NS;
use crate::observe::raw::told;
use crate::observe::recorder::event::Kind;
use crate::observe::stack::NoStack;
use crate::observe::stacks;
use crate::pool::dyn_pool::DynPool;
use crate::threads::monitor::{QUIET_TICKS, StackSignal, Tick};
use crate::threads::pool_ref::PoolRef;
use crate::threads::reports::{self, ReadyReport, ReportAdmission, Reports, Whose};
use crate::threads::stall::{Behind, Stall};
use crate::threads::stall_record::{self, Recordings};
use std::sync::Arc;
use std::time::Duration;
use warpweft_platform::clock;
use warpweft_platform::process::end_child_if;
use warpweft_platform::thread_state;
use warpweft_task::frame::{FrameKind, Who};
use warpweft_task::{TaskKind, Told};

/// How many times `stuck_after` a worker may compute in one task until it counts as stuck. It keeps a CPU
/// busy, and a thread in its place would take that from it. But a task that never ends must not hold up what
/// waits behind it.
const COMPUTES: u64 = 10;

/// The most forks within each other of which a report names the task.
const MOST_FORKS: usize = 64;

/// How long the monitor sleeps while a report waits for its stack, in nanoseconds.
const REPORT_TICK_NS: u64 = 1_000_000;

/// What the monitor remembers of a worker.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    steps: u64,
    /// What they were when the worker was last without a task: not yet sent, or in the poller.
    rested: Option<u64>,
    /// How many of these were turns of fibers.
    turns: u64,
    /// True if one of the last steps was such a turn, so that the worker's word does not tell of it.
    was_turn: bool,
    since_ns: u64,
    /// The same by the machine's clock.
    began_ns: u64,
    /// True if it was seen twice.
    noted: bool,
    /// When the code began that is not expected to take long.
    unexpected_since_ns: u64,
    told: bool,
    counted: bool,
    reported: bool,
    /// A report was due, and was not admitted yet.
    postponed: bool,
}

/// The time in which the monitor watches. It stops while the process is stopped, and while the monitor
/// has no CPU: the workers may have had none either.
#[derive(Debug)]
struct WatchClock {
    ns: u64,
    looked_ns: u64,
}

impl WatchClock {
    fn new() -> Self {
        Self {
            ns: 0,
            looked_ns: clock::now_ns(),
        }
    }

    /// Notes that the monitor looks after a sleep that was to take `tick_ns`.
    fn advance(&mut self, tick_ns: u64) {
        let now_ns = clock::now_ns();
        self.ns += credited(now_ns.saturating_sub(self.looked_ns), tick_ns);
        self.looked_ns = now_ns;
    }
}

/// Returns how much of the time between two looks counts.
fn credited(elapsed_ns: u64, tick_ns: u64) -> u64 {
    if cfg!(any(warpweft_loom, warpweft_shuttle)) {
        // No time passes there: each look counts.
        return elapsed_ns;
    }
    elapsed_ns.min(tick_ns.saturating_add(tick_ns / 2))
}

/// The workers that are in one task for longer than `stuck_after`, compensating workers included.
#[derive(Debug, Clone, Copy, Default)]
struct Long {
    /// All of them.
    all: usize,
    /// Those that are stuck: the kernel has put them to sleep, or they compute without end.
    stuck: usize,
    /// Those of them that the kernel has put to sleep.
    blocked: usize,
    /// How many of the workers that were asked for are stuck.
    asked: usize,
    /// How many of all of them compensate.
    compensating: usize,
    /// The standby poller, if it is one of them.
    poller: Option<usize>,
}

impl Long {
    /// Returns how many of a pool's `workers` need another thread in their place. A worker that sleeps in the
    /// kernel does. What waits behind one that computes is stolen, as long as there is a worker that does.
    fn to_replace(self, workers: usize) -> usize {
        if self.asked >= workers {
            self.stuck
        } else {
            self.blocked
        }
    }
}

/// A stall that is to be reported.
#[derive(Debug, Clone, Copy)]
struct Due {
    worker: usize,
    ns: u64,
    steps: u64,
    was_turn: bool,
}

impl dyn DynPool + '_ {
    pub(crate) fn watch_workers(&self, pool: &Arc<dyn PoolRef>) {
        let monitor = &self.core().monitor;
        let stuck_ns = monitor.stuck_ns();
        let mut seen = vec![Sample::default(); self.core().info.slots];
        let (mut watched, mut reports) = (WatchClock::new(), Reports::default());
        let mut recordings = Recordings::default();
        let (mut quiet, mut followed_ns) = (0, clock::now_ns());
        let is_asleep = |quiet| quiet >= QUIET_TICKS && self.everybody_sleeps();
        let standby = &self.core().driver.standby;
        let tick_ns = |reports: &Reports| {
            let tick_ns = match (standby.is_wanted(), self.core().size.follow()) {
                (true, _) => (stuck_ns / 2).min(TICK_NS),
                (false, Some(follow)) => (stuck_ns / 2).min(follow.tick_ns()),
                (false, None) => stuck_ns / 2,
            };
            match reports.are_pending() {
                true => tick_ns.min(REPORT_TICK_NS),
                false => tick_ns,
            }
        };
        let mut tick = tick_ns(&reports);
        loop {
            let phase = monitor.sleep(tick, || !reports.are_pending() && is_asleep(quiet));
            if phase == Tick::Over {
                break;
            }
            watched.advance(tick);
            quiet = if self.everybody_sleeps() { quiet + 1 } else { 0 };
            let mut due = Vec::new();
            let long = self.count_long(&mut seen, stuck_ns, watched.ns, &mut due);
            standby.tick();
            if phase == Tick::Open {
                self.follow_machine(&mut followed_ns);
                self.replace_stuck(pool, long);
            }
            // After the workers are replaced: a report takes longer.
            for due in due {
                let begun = self.begin_report(pool, &mut reports, &mut recordings, due);
                let seen = &mut seen[due.worker];
                seen.postponed = begun == ReportAdmission::Postponed;
                seen.reported = !seen.postponed;
            }
            for ready in reports.take_done(|worker| self.worker(worker).steps()) {
                self.give_out(&reports, ready);
            }
            tick = tick_ns(&reports);
        }
        let monitor = &self.core().monitor;
        let end = monitor.last_wait(reports::LAST_WAIT_NS);
        for ready in reports.take_all(end, |worker| self.worker(worker).steps()) {
            self.give_out(&reports, ready);
        }
        reports.finish(monitor.last_wait(reports::LAST_WAIT_NS));
        recordings.finish(monitor.last_wait(stall_record::LAST_WAIT_NS));
    }

    /// Sends compensating workers in the place of those that are stuck, and the standby poller.
    fn replace_stuck(&self, pool: &Arc<dyn PoolRef>, long: Long) {
        let (monitor, standby) = (&self.core().monitor, &self.core().driver.standby);
        let (stuck, replaced) = (long.stuck, long.to_replace(self.core().size.now()));
        if long.all > 0 {
            standby.want();
        }
        // One that is in a long task does not poll, and replaces others from now on.
        if let Some(poller) = long.poller {
            standby.dismiss(poller);
        }
        let polls = usize::from(self.core().driver.wants_standby());
        // One is kept for the poller, however many are stuck.
        let replaced = replaced.min(self.core().info.slots - self.core().asked - 1);
        let has_work = stuck > 0 && self.has_queued();
        let replacing = match has_work {
            true => replaced,
            // It would find nothing, and retire at once. One that is in a task stays.
            false => replaced.min(monitor.active().saturating_sub(usize::from(standby.is_there()))),
        };
        // Those that are in long tasks cannot retire, nor can they poll.
        let needed = replacing.max(long.compensating) + polls;
        // Counted once: one that finds nothing retires at once, and would be sent again during the same tick.
        let missing = monitor.set_needed(long.all, stuck, needed);
        // The one in the poller would not see it.
        if monitor.has_one_too_many() {
            self.core().driver.unpark_standby();
        }
        for _ in 0..missing {
            let is_poller = polls > 0 && !standby.is_there();
            if !self.send_compensating(pool, is_poller) {
                standby.give_up();
                break;
            }
        }
    }

    /// Returns true if tasks are queued that a compensating worker may take. A look while workers run may
    /// miss a push of this moment; a later one sees it.
    fn has_queued(&self) -> bool {
        let pinned: usize = self.workers().map(|worker| worker.pinned.len()).sum();
        let queued = self.core().ledger.remaining(self.handed_out());
        queued > i64::try_from(pinned).unwrap_or(i64::MAX)
    }

    pub(super) fn everybody_sleeps(&self) -> bool {
        self.core().monitor.active() == 0
            && (0..self.core().asked).all(|worker| !self.core().idle.is_awake(worker))
    }

    /// Returns how many workers have been in one task for too long. Puts those into `due` that are to be
    /// reported.
    fn count_long(&self, seen: &mut [Sample], stuck_ns: u64, now: u64, due: &mut Vec<Due>) -> Long {
        let report_ns = self.core().monitor.report_ns();
        let mut long = Long::default();
        let machine_ns = clock::now_ns();
        let is_closing = self.core().lifecycle.is_closing();
        for (id, seen) in seen.iter_mut().enumerate() {
            let (steps, turns) = (self.worker(id).steps(), self.worker(id).fiber_turns());
            // A compensating worker is stuck only if it has made a step since it was sent.
            // Nor is one that looks for work, however long others keep the CPU from it.
            let works = id >= self.core().asked
                || self.core().idle.is_awake(id) && !self.worker(id).worker_ref.searches();
            let compensates = id >= self.core().asked;
            if compensates && (!self.worker(id).is_carried() || self.core().driver.standby.sleeps(id)) {
                seen.rested = Some(steps);
            }
            let rests = compensates && seen.rested == Some(steps);
            // Also one that has left stays awake.
            let has_left = || is_closing && self.core().threads.thread_with(id).is_none();
            if !works || steps != seen.steps || rests || has_left() {
                if seen.postponed {
                    Reports::leave_out();
                }
                *seen = Sample {
                    steps,
                    rested: seen.rested,
                    turns,
                    was_turn: turns != seen.turns,
                    since_ns: now,
                    began_ns: machine_ns,
                    noted: false,
                    unexpected_since_ns: now,
                    told: false,
                    counted: false,
                    reported: false,
                    postponed: false,
                };
                continue;
            }
            if !std::mem::replace(&mut seen.noted, true) {
                self.core().monitor.note_long_step(id, steps, seen.began_ns);
            }
            let is_expected = self.worker(id).worker_ref.expects_long(steps);
            if is_expected {
                seen.unexpected_since_ns = now;
            }
            let in_task_ns = now.saturating_sub(seen.since_ns);
            let ns = now.saturating_sub(seen.unexpected_since_ns);
            if report_ns.is_some_and(|report_ns| ns >= report_ns / 2)
                && self.core().monitor.stack_signal() != StackSignal::Off
            {
                // So that the first report has its names in time.
                stacks::prepare();
            }
            if in_task_ns < stuck_ns {
                continue;
            }
            // Where the system does not say, each worker counts as blocked.
            let is_blocked = self.has_cpu(id) != Some(true);
            let is_stuck = is_blocked || in_task_ns >= stuck_ns.saturating_mul(COMPUTES);
            long.all += 1;
            long.blocked += usize::from(is_blocked);
            long.stuck += usize::from(is_stuck);
            long.asked += usize::from(is_stuck && id < self.core().asked);
            long.compensating += usize::from(compensates);
            if self.core().driver.standby.is(id) {
                long.poller = Some(id);
            }
            if !std::mem::replace(&mut seen.told, true) {
                // The worker may have drawn tasks from a common queue while others that looked there went to
                // sleep.
                self.core().idle.wake_one();
            }
            // Not for code that is expected to take long.
            if !is_expected && ns >= stuck_ns && !std::mem::replace(&mut seen.counted, true) {
                self.core().monitor.count_stall();
                self.core().recorder.note_outside(Kind::Stall, id as u64);
            }
            // With a hook the program decides what is too long.
            if report_ns.is_some() && !self.core().monitor.has_hook() && self.offers_its_work(id) {
                seen.unexpected_since_ns = now;
            }
            let ns = now.saturating_sub(seen.unexpected_since_ns);
            if !is_expected && !seen.reported && report_ns.is_some_and(|report_ns| ns >= report_ns) {
                due.push(Due {
                    worker: id,
                    ns,
                    steps,
                    was_turn: seen.was_turn,
                });
            }
        }
        long
    }

    /// Returns true if the worker's thread has a CPU or waits for one; `None` if the system does not say.
    fn has_cpu(&self, worker: usize) -> Option<bool> {
        let thread = self.core().threads.thread_with(worker)?;
        thread_state::runs(thread)
    }

    /// Returns true if the worker computes in the middle of a fork-join computation of which a part is on
    /// offer: idle workers take it, and long computations of this kind are what the pool is for.
    fn offers_its_work(&self, worker: usize) -> bool {
        self.core().offer_board.offers(worker) && self.has_cpu(worker) != Some(false)
    }

    /// Returns the task to which the fork belongs that the worker has taken, if that task waits for the fork
    /// on a stack of a thread. A hint.
    fn task_of_fork(&self, worker: usize) -> Option<Told> {
        // What identifies a fork is the latch for which its owner waits.
        let mut fork = self.worker(worker).worker_ref.running.get();
        for _ in 0..MOST_FORKS {
            let mut owner = Who::NOBODY;
            self.core().threads.frames().for_each(|frame| {
                if frame.kind == FrameKind::Joins && frame.key == fork.id {
                    owner = frame.who;
                }
            });
            if !owner.origin.is_null() {
                return told(owner);
            }
            // The owner may be a fork as well.
            fork = owner;
            if fork.id == 0 {
                break;
            }
        }
        None
    }

    /// Begins the report of a stall, if there are not too many. It is given out when it has its stack. With
    /// it a snapshot of the flight recorder is taken.
    fn begin_report(
        &self,
        pool: &Arc<dyn PoolRef>,
        reports: &mut Reports,
        recordings: &mut Recordings,
        due: Due,
    ) -> ReportAdmission {
        let monitor = &self.core().monitor;
        let worker = self.worker(due.worker);
        let running = worker.running();
        let took_fork = running.is_none() && worker.has_no_task();
        let runs_nothing = worker.worker_ref.running.get().id == 0 && !due.was_turn;
        if runs_nothing && due.worker >= self.core().asked {
            // A compensating worker takes no forks: its thread has had no CPU since it was sent.
            return ReportAdmission::LeftOut;
        }
        let is_fork = took_fork && !due.was_turn;
        let kind = match &running {
            Some(told) => Some(told.kind),
            None => is_fork.then_some(TaskKind::Fork),
        };
        let task = running.or_else(|| is_fork.then(|| self.task_of_fork(due.worker)).flatten());
        let (name, spawned_at) = task.map(|told| (told.name, told.location)).unzip();
        let name = name.flatten();
        if !monitor.has_hook() {
            let admission = reports.admit(spawned_at, name.as_deref());
            if admission != ReportAdmission::Admitted {
                return admission;
            }
        }
        let thread = self.core().threads.thread_with(due.worker);
        let stall = Stall {
            pool: self.core().info.name.clone(),
            worker: due.worker,
            stuck_for: Duration::from_nanos(due.ns),
            kind,
            name,
            spawned_at,
            thread_state: thread.and_then(thread_state::of),
            behind: Behind {
                tasks: self.queued(due.worker),
                pinned: worker.pinned.len(),
                fibers: self.ready_fibers(due.worker),
            },
            stack: Err(NoStack::Off),
            left_out: 0,
        };
        if let Some(to) = monitor.record_to() {
            let (pool, said) = (Arc::clone(pool), stall.brief());
            recordings.begin(to, move || pool.snapshot().with_report(due.worker, &said));
        }
        let whose = Whose {
            thread,
            steps: due.steps,
            signal: match monitor.stack_signal() {
                StackSignal::Number(signal) => Some(signal),
                StackSignal::Usual | StackSignal::Off => None,
            },
            wants_stack: monitor.stack_signal() != StackSignal::Off,
            names_within_ns: monitor.names_within_ns(),
        };
        if let Some(stall) = reports.begin(stall, whose) {
            self.give_out(reports, stall.into());
        }
        ReportAdmission::Admitted
    }

    /// Returns how many fibers wait for their turn on the thread that carries that worker.
    fn ready_fibers(&self, worker: usize) -> usize {
        let mut ready = 0;
        self.core()
            .fibers
            .for_each(|fiber| ready += usize::from(fiber.is_ready_behind(worker)));
        ready
    }

    /// Gives a report to the program, or to the standard error stream.
    fn give_out(&self, reports: &Reports, ready: ReadyReport) {
        if self.core().monitor.has_hook() {
            self.core().monitor.call_hook(&ready.stall);
        } else {
            reports.write(ready);
        }
        end_child_if(self.core().is_in_forked_child());
    }

    /// Gives a vacant compensating worker to a spare thread, perhaps as the standby poller. Returns true if
    /// it did.
    fn send_compensating(&self, pool: &Arc<dyn PoolRef>, is_poller: bool) -> bool {
        if !self.core().lifecycle.enter() {
            return false;
        }
        let Some(id) = self.core().monitor.take_one() else {
            self.leave(1);
            return false;
        };
        let Ok(spare) = self.core().threads.reserve(pool) else {
            self.core().monitor.put_back(id);
            self.leave(1);
            return false;
        };
        self.worker(id).set_carried(true);
        if is_poller {
            self.core().driver.standby.enlist(id);
        }
        self.core().recorder.note_outside(Kind::Compensate, id as u64);
        spare.handoff.assign(Some(id));
        true
    }

    /// Retires this compensating worker, which the calling thread has released, and which is empty.
    pub(crate) fn retire_compensating(&self, id: usize) {
        self.core().driver.standby.discharge(id);
        self.worker(id).set_carried(false);
        self.core().recorder.note_outside(Kind::Retire, id as u64);
        self.core().monitor.put_back(id);
        self.leave(1);
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{Long, credited};

    /// If the process is stopped, no worker is stuck after one look: half of the time passes in a tick, and
    /// what a worker did in the last one before counts.
    #[test]
    fn a_long_pause_counts_as_a_tick() {
        const STUCK: u64 = 10_000_000;
        let tick = STUCK / 2;
        assert_eq!(credited(tick, tick), tick);
        assert_eq!(credited(tick + 1000, tick), tick + 1000);
        assert!(credited(u64::MAX, tick) < STUCK);
        assert!(credited(60_000_000_000, tick) < STUCK);
    }

    #[test]
    fn one_that_computes_is_replaced_when_no_worker_is_left_to_steal() {
        let long = |asked| Long {
            all: 4,
            stuck: 3,
            blocked: 1,
            asked,
            compensating: 0,
            poller: None,
        };
        assert_eq!(long(2).to_replace(4), 1);
        assert_eq!(long(3).to_replace(4), 1);
        assert_eq!(long(4).to_replace(4), 3);
        // There were more before the pool was made smaller.
        assert_eq!(long(5).to_replace(4), 3);
    }
}
