#![doc = include_str!("README.md")]

use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::thread::{pause, sharply, yield_now};
use warpweft_queue::EventCount;

/// How an idle worker waits for work, and how it is woken.
#[derive(Debug)]
pub(crate) struct Idle {
    events: EventCount,
    /// Looks at other workers' queues before sleep is announced.
    rounds: u32,
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Waited<T> {
    /// The worker found work.
    Found(T),
    /// The worker slept in the poller and has handed out what happened there: its own queue may hold tasks.
    Unparked,
    /// The pool closes.
    Stop,
}

/// An idle worker: where it looks for work, and where it may sleep.
pub(crate) trait Searcher {
    /// A unit of work.
    type Found;
    /// A second place to sleep.
    type PollerPark: PollerPark;
    /// Looks for work. It is called repeatedly, and may overlook work.
    fn look(&mut self) -> Option<Self::Found>;
    /// The last look before sleep. It overlooks nothing.
    fn scan(&mut self) -> Option<Self::Found>;
    /// Returns true if the worker must wait no longer.
    fn stops(&self) -> bool;
    /// Notes that it is about to sleep until it is woken.
    fn parks(&self);
    /// Notes that it is awake, after a sleep of any kind.
    fn unparks(&self);
    /// Returns the nanoseconds after which the worker must look again, because there is something that it may
    /// not take yet.
    fn park_timeout_ns(&mut self) -> Option<u64>;
    /// Returns the second place to sleep, if there is one and it is free. The sleep there is a timed one if
    /// `timed_parks` is true.
    /// A free place counts as work, which one sleeper takes.
    fn poller_park(&self, timed_parks: bool) -> Option<Self::PollerPark>;
    /// Returns true if one look is enough before sleep is announced, because an event will report what comes.
    fn is_in_haste(&self) -> bool;
    /// Returns true if `look` has left a task to its owner since the last call.
    fn has_left(&mut self) -> bool;
    /// Returns true if `look` has left something that it will take within microseconds.
    fn is_about_to_take(&self) -> bool;
    /// Notes that another worker has woken this one.
    fn woken(&self);
}

/// A second place to sleep: a poller. Its holder sleeps there alone.
pub(crate) trait PollerPark {
    /// Sleeps until an event happens there, another thread wakes the sleeper, or `at_most_ns` nanoseconds are
    /// over.
    fn sleep(&mut self, at_most_ns: Option<u64>);
    /// Leaves the poller and hands out the events. Returns true if there were any.
    fn wake(self) -> bool;
}

/// The number of looks before sleep is announced, with a yield between any two: 5 to 20 microseconds. The
/// search is short and gives way, because the system takes a CPU with a searcher for a busy one, and places
/// threads that wake beside each other on another: see `docs/decisions/0060-searchers-give-way.md`.
const LOOKS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    2
} else {
    20
};

/// The time that a lingering searcher sleeps between two looks, in nanoseconds.
const SPIN_NS: u64 = 50_000;
/// The largest number of such looks before the searcher announces sleep.
const LINGERS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    1
} else {
    40
};
/// The number of such looks in a row that see no lone task, after which the searcher stops lingering.
const IN_VAIN: u32 = 4;

impl Idle {
    /// Creates the protocol's state for workers `0..workers`, all awake.
    pub(crate) fn new(workers: usize) -> Self {
        // At most half of the workers search. One searcher finds what there is, and leaves a successor when
        // it does.
        let searchers = (workers / 2).max(1);
        // A single worker has no victim: work from outside wakes it.
        let rounds = match workers {
            1 => 1,
            _ => LOOKS,
        };
        Self {
            events: EventCount::new(workers, searchers, Asymmetric::new()),
            rounds,
        }
    }

    /// Waits until there is work for worker `w`, which is the `searcher`, or until it has to stop. The
    /// worker's own queue is empty.
    pub(crate) fn wait<S: Searcher>(&self, w: usize, searcher: &mut S) -> Waited<S::Found> {
        // Registered searchers keep pushes from waking sleepers. Without sleepers there is nothing to keep,
        // so the word, which every push reads, stays untouched.
        let no_sleeper = self.events.snapshot().1 == 0;
        let mut registered = !no_sleeper && self.events.try_search();
        let mut searching = no_sleeper || registered;
        let mut rounds = self.rounds;
        loop {
            if searcher.stops() {
                if registered {
                    self.end_search();
                }
                return Waited::Stop;
            }
            if searching
                && let Some(found) =
                    Self::search(rounds, searcher).or_else(|| Self::spin_then_park(rounds, searcher))
            {
                if registered {
                    self.end_search();
                }
                return Waited::Found(found);
            }
            self.events.prepare(w, registered);
            // From here to `cancel` or `park` this worker is announced as asleep: look at everything once
            // more.
            if searcher.stops() {
                self.events.cancel(w);
            } else if let Some(found) = searcher.scan() {
                self.events.cancel(w);
                self.end_search();
                return Waited::Found(found);
            } else {
                let timed_park = searcher.park_timeout_ns();
                // After the announcement: a worker that left the poller before looks for sleepers after that.
                let poller_park = if timed_park == Some(0) {
                    None
                } else {
                    searcher.poller_park(timed_park.is_some())
                };
                if timed_park.is_none() {
                    searcher.parks();
                }
                rounds = if timed_park.is_some() { 1 } else { self.rounds };
                match (timed_park, poller_park) {
                    (Some(0), _) => self.events.cancel(w),
                    (timed_park, Some(poller_park)) => {
                        if self.park_in(w, poller_park, timed_park, || searcher.unparks()) {
                            self.end_search();
                            return Waited::Unparked;
                        }
                    }
                    (Some(ns), None) => sharply(|| self.events.park_timeout(w, ns)),
                    (None, None) => {
                        self.events.park(w);
                        searcher.woken();
                    }
                }
                searcher.unparks();
            }
            // After both `cancel` and `park` the worker is counted as a searcher.
            registered = true;
            searching = true;
        }
    }

    /// Sleeps in `poller_park`, and calls `unparks` then. Returns true if anything happened there.
    fn park_in(
        &self,
        w: usize,
        mut poller_park: impl PollerPark,
        timed_park: Option<u64>,
        unparks: impl FnOnce(),
    ) -> bool {
        self.events.park_elsewhere(w, || match timed_park {
            Some(_) => sharply(|| poller_park.sleep(timed_park)),
            None => poller_park.sleep(None),
        });
        unparks();
        // The worker is a registered searcher again: what it hands out wakes no sleeper. The end of the
        // search wakes one.
        poller_park.wake()
    }

    /// Sets the function that wakes a worker that sleeps in the poller.
    pub(crate) fn unpark_by(&self, unpark: impl Fn() + Send + Sync + 'static) {
        self.events.unpark_by(unpark);
    }

    fn search<S: Searcher>(rounds: u32, searcher: &mut S) -> Option<S::Found> {
        // The looks at what ripens are as many as those before, so that a search ends where small forks come and
        // go all the time.
        for round in 1..=2 * rounds {
            if let Some(found) = searcher.look() {
                return Some(found);
            }
            if searcher.is_in_haste() {
                break;
            }
            if round >= rounds && !(rounds > 1 && searcher.is_about_to_take()) {
                break;
            }
            yield_now();
        }
        None
    }

    /// Continues to search, with sleeps between the looks, while it sees tasks that their owner is about to
    /// run. If the worker were announced as asleep, the next such task would wake it. The wake would cost the
    /// owner more than the task.
    fn spin_then_park<S: Searcher>(rounds: u32, searcher: &mut S) -> Option<S::Found> {
        if rounds == 1 || !searcher.has_left() {
            return None;
        }
        let (mut left, mut in_vain) = (LINGERS, 0);
        while left > 0 && in_vain < IN_VAIN && !searcher.stops() && !searcher.is_in_haste() {
            sharply(|| pause(SPIN_NS));
            let found = searcher.look();
            if found.is_some() {
                return found;
            }
            left -= 1;
            in_vain = if searcher.has_left() { 0 } else { in_vain + 1 };
        }
        None
    }

    /// Ends a search. The last searcher leaves a successor, because pushes woke no worker while it searched.
    fn end_search(&self) {
        if self.events.found() {
            self.events.notify_one();
        }
    }

    /// Returns true if worker `w` is neither asleep nor about to be.
    pub(crate) fn is_awake(&self, w: usize) -> bool {
        self.events.is_awake(w)
    }

    /// Wakes one sleeper for work that any worker can do and that is visible now. Returns true if it woke
    /// one.
    #[inline]
    pub(crate) fn wake_one(&self) -> bool {
        self.events.notify_one()
    }

    /// Returns true if [`wake_one`](Idle::wake_one) would wake a sleeper now. The call is necessary then, and
    /// only then.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.events.is_wanted()
    }

    /// Wakes worker `w` for work that is visible now and that `w` should do. Returns true if it slept.
    pub(crate) fn wake(&self, w: usize) -> bool {
        self.events.notify(w)
    }

    /// Wakes all workers after `stop` became true.
    pub(crate) fn wake_all(&self) {
        self.events.notify_all();
    }

    /// Returns the numbers of workers that search and that sleep at this moment.
    pub(crate) fn snapshot(&self) -> (usize, usize) {
        self.events.snapshot()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
pub(crate) mod tests {
    use super::{IN_VAIN, Idle, LINGERS, PollerPark, Searcher, Waited};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use warpweft_platform::thread::{spawn, yield_now};

    struct NoPoller;

    impl PollerPark for NoPoller {
        fn sleep(&mut self, _: Option<u64>) {}

        fn wake(self) -> bool {
            false
        }
    }

    /// A worker that finds `"found"` at look number `at`, and `late` in its last look.
    struct Looks<'idle, S, L> {
        idle: &'idle Idle,
        looked: u32,
        at: u32,
        late: Option<&'static str>,
        stops: S,
        in_haste: bool,
        leaves: L,
    }

    impl<S: Fn(u32) -> bool, L: Fn(u32) -> bool> Searcher for Looks<'_, S, L> {
        type Found = &'static str;
        type PollerPark = NoPoller;

        fn look(&mut self) -> Option<&'static str> {
            self.looked += 1;
            assert!(!self.idle.wake_one(), "a searcher is registered");
            assert!(
                self.looked <= self.idle.rounds + LINGERS,
                "it never stops lingering"
            );
            (self.looked == self.at).then_some("found")
        }

        fn scan(&mut self) -> Option<&'static str> {
            self.late
        }

        fn stops(&self) -> bool {
            (self.stops)(self.looked)
        }

        fn parks(&self) {}

        fn unparks(&self) {}

        fn park_timeout_ns(&mut self) -> Option<u64> {
            None
        }

        fn poller_park(&self, _: bool) -> Option<NoPoller> {
            None
        }

        fn is_in_haste(&self) -> bool {
            self.in_haste
        }

        fn has_left(&mut self) -> bool {
            (self.leaves)(self.looked)
        }

        fn is_about_to_take(&self) -> bool {
            false
        }

        fn woken(&self) {}
    }

    /// Runs worker `w` until it finds `"late"` in its last look or `"found"` at look number `at`. Returns
    /// what it found and the number of its looks.
    fn looks(
        w: usize,
        idle: &Idle,
        at: u32,
        stops: impl Fn(u32) -> bool,
        in_haste: bool,
        leaves: impl Fn(u32) -> bool,
    ) -> (Option<&'static str>, u32) {
        let mut searcher = Looks {
            idle,
            looked: 0,
            at,
            late: Some("late"),
            stops,
            in_haste,
            leaves,
        };
        let found = match idle.wait(w, &mut searcher) {
            Waited::Found(found) => Some(found),
            Waited::Unparked | Waited::Stop => None,
        };
        (found, searcher.looked)
    }

    const NEVER: u32 = u32::MAX;

    #[test]
    fn a_searcher_that_sees_lone_tasks_lingers() {
        let idle = Idle::new(2);
        let spins = idle.rounds;
        let found = looks(0, &idle, spins + LINGERS / 2, |_| false, false, |_| true);
        assert_eq!(found, (Some("found"), spins + LINGERS / 2));
        // It stops in the end: the last look finds what it may have overlooked.
        let found = looks(0, &idle, NEVER, |_| false, false, |_| true);
        assert_eq!(found, (Some("late"), spins + LINGERS));
        // It does not linger without a reason.
        let found = looks(0, &idle, NEVER, |_| false, false, |_| false);
        assert_eq!(found, (Some("late"), spins));
        let found = looks(0, &idle, NEVER, |_| false, false, |looked| looked <= spins);
        assert_eq!(found, (Some("late"), spins + IN_VAIN));
        assert_eq!(idle.snapshot(), (0, 0));
    }

    #[test]
    fn a_searcher_that_stops_or_is_in_haste_does_not_linger() {
        let idle = Idle::new(2);
        let spins = idle.rounds;
        let found = looks(0, &idle, NEVER, |looked| looked > spins, false, |_| true);
        assert_eq!(found, (None, spins + 1));
        let found = looks(0, &idle, NEVER, |_| false, true, |_| true);
        assert_eq!(found, (Some("late"), 1));
        assert_eq!(idle.snapshot(), (0, 0));
    }

    /// The other worker sleeps and is not woken meanwhile: `looks` checks that.
    #[test]
    fn a_push_wakes_no_worker_while_one_lingers() {
        let idle = Arc::new(Idle::new(2));
        let over = Arc::new(AtomicBool::new(false));
        let (theirs, told) = (Arc::clone(&idle), Arc::clone(&over));
        let sleeper = spawn(move || {
            let mut sleeps = Looks {
                idle: &theirs,
                looked: 0,
                at: NEVER,
                late: None,
                stops: |_| told.load(Ordering::SeqCst),
                in_haste: false,
                leaves: |_| false,
            };
            assert!(matches!(theirs.wait(1, &mut sleeps), Waited::Stop));
        });
        while idle.snapshot() != (0, 1) {
            yield_now();
        }
        let found = looks(0, &idle, idle.rounds + 3, |_| false, false, |_| true);
        assert_eq!(found, (Some("found"), idle.rounds + 3));
        over.store(true, Ordering::SeqCst);
        idle.wake_all();
        sleeper.join().expect("no panic");
    }
}
