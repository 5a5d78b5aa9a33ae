//! The interval at which a busy worker looks for more than its own tasks: for overdue ones, sockets and
//! timers.

use crate::driver::core::{Driver, PollTurn};
use crate::driver::owner::DriverOwner;
use crate::execution::stack_context::with_worker_kept;
use crate::idle::{Idle, PollerPark};
use crate::threads::monitor::Monitor;
use std::cell::Cell;
use warpweft_platform::clock::{now_ns, thread_cpu_ns};

/// A busy pool looks at its poller after this time, at the next end of a task.
pub(crate) const LOOK_NS: u64 = 100_000;
/// While a standby poller is wanted, the workers do not look at the poller for this time.
const STANDBY_NS: u64 = 10_000_000;
/// A worker that computes for this time without a look at the poller wants a standby poller.
const LONG_NS: u64 = 500_000;
/// For this time after a stretch of [`LONG_NS`] the worker reads its thread's CPU time before each stretch.
/// That is a system call, so a server of short tasks does not make it.
const ALERT_NS: u64 = 10_000_000;
/// The fewest tasks between two calls of `poll_global`, also where tasks take long: own tasks must go on
/// beside those that other threads make ready.
const OWN_TASKS: u32 = 8;
/// The most tasks between two looks at the clock.
const STRETCH: u32 = 64;
/// The stretches between two looks at the clock if only reports need its time.
const UNREAD: u32 = 8;

impl PollerPark for PollTurn<'_> {
    fn sleep(&mut self, at_most_ns: Option<u64>) {
        self.wait(at_most_ns);
    }

    fn wake(self) -> bool {
        hand_out(self)
    }
}

/// Hands out the events of the poller, on a worker. Returns true if there were any. Wakers are foreign code:
/// they may not take the worker from its thread.
pub(crate) fn hand_out(turn: PollTurn<'_>) -> bool {
    with_worker_kept(|| turn.hand_out() > 0)
}

/// Looks for events of the poller and hands them out. Returns true if there were any.
pub(crate) fn look(driver_owner: &DriverOwner, idle: &Idle) -> bool {
    driver_owner.look(idle, hand_out)
}

/// The number of yields after which a worker looks at the poller, for a task that is the only ready one.
///
/// Such a task continues at once, so its worker comes to no end of a task, where it would look. The clock is
/// not read for each yield: a stretch doubles while the last one took less than a quarter of [`LOOK_NS`].
#[derive(Debug)]
pub(crate) struct YieldInterval {
    left: Cell<u32>,
    stretch: Cell<u32>,
    since_ns: Cell<u64>,
    /// The looks since the end of the worker's last stretch of tasks.
    looks: Cell<u32>,
}

impl Default for YieldInterval {
    fn default() -> Self {
        Self {
            left: Cell::new(1),
            stretch: Cell::new(1),
            since_ns: Cell::new(0),
            looks: Cell::new(0),
        }
    }
}

impl YieldInterval {
    /// Returns how often yields have made sure that the poller was looked at lately, since the last call.
    pub(crate) fn take_looks(&self) -> u32 {
        self.looks.take()
    }

    /// Looks at the poller if no worker has for [`LOOK_NS`].
    #[inline]
    pub(crate) fn look_if_due(&self, driver_owner: &DriverOwner, idle: &Idle) {
        if driver_owner.is_polled() {
            self.left.set(self.left.get() - 1);
            if self.left.get() == 0 {
                self.by_the_clock(driver_owner, idle);
            }
        }
    }

    #[cold]
    fn by_the_clock(&self, driver_owner: &DriverOwner, idle: &Idle) {
        let Some(driver) = driver_owner.get() else { return };
        let now = driver.now_ns();
        self.looks.set(self.looks.get().saturating_add(1));
        let took = now.saturating_sub(self.since_ns.replace(now));
        // Twice as many yields fit, or the code between two of them takes longer now.
        let stretch = if took < LOOK_NS / 4 {
            self.stretch.get() * 2
        } else {
            1
        };
        self.stretch.set(stretch.min(STRETCH));
        self.left.set(self.stretch.get());
        // Under the checkers, where no time passes, the time is always over.
        let modelled = cfg!(any(warpweft_loom, warpweft_shuttle));
        if modelled || now.saturating_sub(driver.looked_ns()) >= LOOK_NS {
            look(driver_owner, idle);
        }
    }
}

/// The number of tasks that a worker runs before it looks for overdue tasks, and perhaps at the poller.
///
/// The clock is not read for each task. A *stretch* has as many tasks as fit into [`LOOK_NS`] at the speed of
/// the last ones, and at most twice as many as the last stretch. Sleep within a stretch does not count as
/// time of its tasks.
#[derive(Debug)]
pub(crate) struct PollInterval {
    interval: u32,
    /// The tasks until `poll_global` is called.
    left: u32,
    stretch: u32,
    since_ns: u64,
    /// The time of the last call of `poll_global`.
    polled_global_ns: u64,
    /// The CPU time of this thread at `since_ns`, if it was read.
    cpu_ns: Option<u64>,
    was_long: bool,
    /// The stretches since the clock was read, where neither a driver nor the monitor reads it.
    unread: u32,
    /// Until this time the worker reads the CPU time.
    alert_until_ns: u64,
    /// Until this time the worker looks for tasks of other threads before each task. After a long own task it
    /// does so for as long as that task took.
    others_until_ns: u64,
    /// False for a policy with priorities. Its `next` finds what is more urgent in any place, and
    /// `poll_global` gives a turn to what is less urgent: that must not come before each task.
    others_have_turns: bool,
}

impl PollInterval {
    /// `by_priority` is true for a policy with priorities.
    pub(crate) fn new(interval: u32, by_priority: bool) -> Self {
        let interval = interval.max(1);
        Self {
            interval,
            left: interval,
            // A thread may repeatedly get a worker for one task only.
            stretch: 1,
            since_ns: 0,
            polled_global_ns: 0,
            cpu_ns: None,
            was_long: false,
            unread: 0,
            alert_until_ns: 0,
            others_until_ns: 0,
            others_have_turns: !by_priority,
        }
    }

    pub(crate) fn stretch(&self) -> u32 {
        self.stretch
    }

    pub(crate) fn was_long(&self) -> bool {
        self.was_long
    }

    /// Ends a stretch. Returns true if `poll_global` must be called. Polls, if no worker has for a while.
    /// `woke_ns` is the time at which the worker's last sleep ended, and `looks` the number of looks by
    /// yields in the stretch.
    pub(crate) fn end_stretch(
        &mut self,
        driver_owner: &DriverOwner,
        idle: &Idle,
        monitor: &Monitor,
        woke_ns: u64,
        looks: u32,
    ) -> bool {
        self.left -= self.stretch;
        let mut poll_global = self.left == 0;
        let mut stretch = STRETCH;
        if let Some(driver) = driver_owner.get() {
            self.since_ns = self.since_ns.max(woke_ns);
            stretch = self.by_the_clock(driver, driver_owner, idle, monitor, looks);
            poll_global |= self.since_ns < self.others_until_ns || self.others_are_due();
        } else if !monitor.is_there() {
            self.unread = (self.unread + 1) % UNREAD;
            if self.unread == 0 {
                // For `recent_ns`: no other thread reads the clock while workers run.
                let _ = now_ns();
            }
        }
        if poll_global {
            self.left = self.interval;
            self.polled_global_ns = self.since_ns;
        }
        self.stretch = stretch.min(self.left);
        poll_global
    }

    /// Returns true if tasks of other threads have waited for as long as sockets may. Timers of another
    /// runtime, for one, make many tasks ready at a time, and an interval of tasks can take a millisecond.
    fn others_are_due(&self) -> bool {
        self.others_have_turns
            && self.interval - self.left >= OWN_TASKS
            && self.since_ns.saturating_sub(self.polled_global_ns) >= LOOK_NS
    }

    /// Returns the length of the next stretch.
    #[cold]
    fn by_the_clock(
        &mut self,
        driver: &Driver,
        driver_owner: &DriverOwner,
        idle: &Idle,
        monitor: &Monitor,
        looks: u32,
    ) -> u32 {
        let now = driver.now_ns();
        let took = now.saturating_sub(self.since_ns);
        let each = took / u64::from(self.stretch);
        let without_a_look = took / (u64::from(looks) + 1);
        self.since_ns = now;
        // Under the checkers, where no time passes, the time is always over.
        let modelled = cfg!(any(warpweft_loom, warpweft_shuttle));
        self.was_long = modelled || without_a_look >= LONG_NS && self.computed_long();
        if without_a_look >= LONG_NS {
            self.alert_until_ns = now.saturating_add(ALERT_NS);
        }
        if driver_owner.is_polled() {
            if self.was_long && monitor.is_there() && driver_owner.standby.want() {
                monitor.hurry();
            }
            let late = now.saturating_sub(driver.looked_ns());
            // Tasks that the standby poller wakes need not wait for tasks that take long.
            let patience = if driver_owner.standby.is_wanted() {
                STANDBY_NS
            } else {
                LOOK_NS
            };
            if modelled || late >= patience {
                look(driver_owner, idle);
            }
        }
        if self.others_have_turns && self.was_long && now >= self.others_until_ns {
            self.others_until_ns = now.saturating_add(took);
        }
        let fit = LOOK_NS.checked_div(each).unwrap_or(u64::MAX);
        let most = (self.stretch * 2).min(STRETCH);
        let stretch = u32::try_from(fit).map_or(most, |fit| fit.clamp(1, most));
        // After the look: what it wakes is no task of this stretch.
        self.cpu_ns = (now < self.alert_until_ns).then(thread_cpu_ns).flatten();
        if now < self.others_until_ns { 1 } else { stretch }
    }

    /// Returns true if the last stretch took long by the CPU time of this thread, and not because other
    /// threads had the CPU. It is false for the first long stretch after a while, of which that is not known.
    fn computed_long(&self) -> bool {
        let cpu_ns = self
            .cpu_ns
            .and_then(|before| Some(thread_cpu_ns()?.saturating_sub(before)));
        cpu_ns.is_some_and(|ns| ns >= LONG_NS)
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{DriverOwner, Idle, LONG_NS, LOOK_NS, Monitor, OWN_TASKS, PollInterval};
    use crate::driver::Io;
    use crate::threads::monitor::Watch;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Wake, Waker};
    use warpweft_platform::clock::{now_ns, thread_cpu_ns};
    use warpweft_platform::thread::pause;

    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Tasks that take longer than the time between two looks: after the first stretch, a look follows each
    /// of them. Others have their turn after a few.
    #[test]
    fn long_tasks_are_followed_by_a_look() {
        let idle = Idle::new(1);
        let driver_owner = DriverOwner::new(Io::Inline, String::from("busy"));
        let driver = driver_owner.driver(1, &idle).expect("a poller");
        let monitor = Monitor::new(Watch::default(), 1, 1);
        let mut poll_interval = PollInterval::new(61, false);
        let mut overdue_after = 0;
        // Where the system took the CPU away from some of them, overdue tasks may come earlier.
        let mut was_long = false;
        for round in 0..70 {
            let flag = Arc::new(Flag(AtomicBool::new(false)));
            let waker = Waker::from(Arc::clone(&flag));
            assert!(driver.set_timer(None, 1, waker).is_some());
            let tasks = poll_interval.stretch();
            assert_eq!(tasks, 1, "in round {round}");
            for _ in 0..tasks {
                let start = now_ns();
                while now_ns() - start <= LOOK_NS {}
            }
            overdue_after += tasks;
            let poll_global = poll_interval.end_stretch(&driver_owner, &idle, &monitor, 0, 0);
            was_long |= poll_interval.was_long();
            if poll_global {
                assert!(
                    overdue_after == OWN_TASKS || was_long,
                    "overdue tasks are asked for after some own ones, not after {overdue_after}"
                );
                overdue_after = 0;
            }
            // A task that seems to compute for long, because the host took the CPU away, wants a standby
            // poller, and workers leave the looks to that one.
            let looked = flag.0.load(Ordering::Relaxed);
            assert!(
                looked || driver_owner.standby.is_wanted(),
                "no look in round {round}"
            );
        }
    }

    /// After a task that computed for long, tasks of other threads have a turn before each task. With
    /// priorities they would be less urgent ones.
    #[test]
    fn long_tasks_give_turns_to_others_unless_there_are_priorities() {
        let Some(_) = thread_cpu_ns() else {
            return;
        };
        let idle = Idle::new(1);
        let driver_owner = DriverOwner::new(Io::Inline, String::from("long"));
        driver_owner.driver(1, &idle).expect("a poller");
        let monitor = Monitor::new(Watch::default(), 1, 1);
        let turns = |by_priority| {
            let mut poll_interval = PollInterval::new(61, by_priority);
            let after_a_task = |_: &u32| {
                let start = thread_cpu_ns();
                while thread_cpu_ns() < start.map(|ns| ns + LONG_NS) {}
                poll_interval.end_stretch(&driver_owner, &idle, &monitor, 0, 0)
            };
            (0..4).filter(after_a_task).count()
        };
        assert!(turns(false) > 0);
        assert_eq!(turns(true), 0);
    }

    /// A task that often asks whether others are ready looks at the poller meanwhile.
    #[test]
    fn a_long_task_that_yields_often_wants_no_standby_poller() {
        let Some(_) = thread_cpu_ns() else {
            return;
        };
        let idle = Idle::new(1);
        let driver_owner = DriverOwner::new(Io::Inline, String::from("yields"));
        driver_owner.driver(1, &idle).expect("a poller");
        let monitor = Monitor::new(Watch::default(), 1, 1);
        let long_ones = |looks: u32| {
            let mut poll_interval = PollInterval::new(61, false);
            let was_long = |_: &u32| {
                let start = thread_cpu_ns();
                while thread_cpu_ns() < start.map(|ns| ns + 2 * LONG_NS) {}
                poll_interval.end_stretch(&driver_owner, &idle, &monitor, 0, looks);
                poll_interval.was_long()
            };
            (0..4).filter(was_long).count()
        };
        assert!(long_ones(0) > 0);
        assert!(
            long_ones(1) > 0,
            "a look at its end, or in its middle, is not enough"
        );
        // The system may take the CPU away in any single case.
        assert!((0..10).any(|_| long_ones(20) == 0));
    }

    /// A worker that slept in a stretch: the next stretch grows, and the CPU time is not read.
    #[test]
    fn sleep_is_no_time_of_tasks() {
        let idle = Idle::new(1);
        let driver_owner = DriverOwner::new(Io::Inline, String::from("quiet"));
        driver_owner.driver(1, &idle).expect("a poller");
        let monitor = Monitor::new(Watch::default(), 1, 1);
        let after_sleep = |slept: bool| {
            let mut poll_interval = PollInterval::new(61, false);
            poll_interval.end_stretch(&driver_owner, &idle, &monitor, now_ns(), 0);
            assert_eq!(poll_interval.stretch(), 2);
            pause(LONG_NS);
            let woke_ns = if slept { now_ns() } else { 0 };
            poll_interval.end_stretch(&driver_owner, &idle, &monitor, woke_ns, 0);
            (poll_interval.stretch(), poll_interval.alert_until_ns > 0)
        };
        assert_eq!(after_sleep(false), (1, true));
        // The system may take the CPU away in any single case.
        assert!((0..10).any(|_| after_sleep(true) == (4, false)));
    }

    /// A policy with priorities gives less urgent tasks their turn in `poll_global`: at its own pace.
    #[test]
    fn others_are_due_by_time_unless_there_are_priorities() {
        let due = |by_priority, tasks, ns| {
            let mut poll_interval = PollInterval::new(61, by_priority);
            poll_interval.left -= tasks;
            poll_interval.since_ns = ns;
            poll_interval.others_are_due()
        };
        assert!(due(false, OWN_TASKS, LOOK_NS));
        assert!(!due(false, OWN_TASKS - 1, u64::MAX));
        assert!(!due(false, 60, LOOK_NS - 1));
        assert!(!due(true, 60, u64::MAX));
    }

    #[test]
    fn without_a_driver_the_pace_is_the_policys() {
        let (idle, driver_owner) = (Idle::new(1), DriverOwner::new(Io::Inline, String::from("quiet")));
        let monitor = Monitor::new(Watch::default(), 1, 1);
        for interval in [0, 1, 61, 1000] {
            let mut poll_interval = PollInterval::new(interval, false);
            let mut tasks = 0;
            for _ in 0..100 {
                tasks += poll_interval.stretch();
                if poll_interval.end_stretch(&driver_owner, &idle, &monitor, 0, 0) {
                    assert_eq!(tasks, interval.max(1));
                    tasks = 0;
                }
            }
        }
    }
}
