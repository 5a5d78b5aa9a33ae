#![doc = include_str!("README.md")]

use warpweft_platform::atomic::spin_loop;
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::thread::{pause, sharply};
use warpweft_queue::EventCount;

/// How a worker without work waits for some, and how it is woken.
#[derive(Debug)]
pub(crate) struct Idle {
    events: EventCount,
    /// Looks at others' work before sleep is announced.
    rounds: u32,
}

/// What waiting came to.
#[derive(Debug)]
pub(crate) enum Waited<T> {
    /// Work.
    Found(T),
    /// What came while the worker slept in its bed has been handed out: there may be work of its own.
    Unparked,
    /// The pool closes.
    Stop,
}

/// Who waits: where it looks for work, and where it may sleep.
pub(crate) trait Searcher {
    /// Work.
    type Found;
    /// Another place to sleep.
    type PollerPark: PollerPark;
    /// Looks for work. Called again and again, and may miss things.
    fn look(&mut self) -> Option<Self::Found>;
    /// The last look before sleep, which misses nothing.
    fn scan(&mut self) -> Option<Self::Found>;
    /// Whether it is to wait no longer.
    fn stops(&self) -> bool;
    /// It goes to sleep.
    fn parks(&self);
    /// Whether it is to look again after so many nanoseconds, because something is there that is not yet to
    /// be taken.
    fn park_timeout_ns(&mut self) -> Option<u64>;
    /// Another place to sleep, or to timed park if it `timed_parks`, if there is one and nobody is in it.
    /// That it is free counts as work, which one sleeper takes.
    fn poller_park(&self, timed_parks: bool) -> Option<Self::PollerPark>;
    /// Whether one look is enough before sleep is announced: what comes will say so.
    fn is_in_haste(&self) -> bool;
    /// Whether `look` has left a task to its owner since this was asked last.
    fn has_left(&mut self) -> bool;
}

/// Somewhere else to sleep: a poller. Whoever has it sleeps there alone.
pub(crate) trait PollerPark {
    /// Sleeps until something happens there, somebody wakes the sleeper, or `at_most_ns` nanoseconds are
    /// over.
    fn sleep(&mut self, at_most_ns: Option<u64>);
    /// Leaves the bed, and hands out what happened; whether there was anything.
    fn wake(self) -> bool;
}

/// The longest pause between two looks, in spin hints: one to ten microseconds. A look fetches the line of a
/// mailbox that its owner writes to all the time; who looks too often slows down the one who has the work.
const LONGEST_PAUSE: u32 = 256;

/// For how long a searcher that lingers sleeps between two looks, in nanoseconds,
const SPIN_NS: u64 = 50_000;
/// how often before it announces its sleep,
const LINGERS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    1
} else {
    40
};
/// and how often without having seen what it lingers for.
const IN_VAIN: u32 = 4;

impl Idle {
    /// For workers `0..workers`, all awake.
    pub(crate) fn new(workers: usize) -> Self {
        // At most half of the workers search: one finds what there is, and leaves a successor when it does.
        let searchers = (workers / 2).max(1);
        // A worker alone has nobody to rob: what comes from outside wakes it.
        let rounds = match workers {
            1 => 1,
            _ if cfg!(any(warpweft_loom, warpweft_shuttle)) => 2,
            _ => 14,
        };
        Self {
            events: EventCount::new(workers, searchers, Asymmetric::new()),
            rounds,
        }
    }

    /// Worker `w`, which is the `searcher`, has nothing of its own: waits until there is something, or it is
    /// to stop.
    pub(crate) fn wait<S: Searcher>(&self, w: usize, searcher: &mut S) -> Waited<S::Found> {
        // Registered searchers keep pushes from waking sleepers. With nobody asleep there is nothing to keep,
        // and the word, which every push reads, is left alone.
        let nobody_sleeps = self.events.snapshot().1 == 0;
        let mut registered = !nobody_sleeps && self.events.try_search();
        let mut searching = nobody_sleeps || registered;
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
                // After the announcement: whoever left the bed before looks for sleepers after that.
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
                        if self.park_in(w, poller_park, timed_park) {
                            self.end_search();
                            return Waited::Unparked;
                        }
                    }
                    (Some(ns), None) => sharply(|| self.events.park_timeout(w, ns)),
                    (None, None) => self.events.park(w),
                }
            }
            // After `cancel` and after `park` alike.
            registered = true;
            searching = true;
        }
    }

    /// Sleeps in `poller_park`; whether anything happened there.
    fn park_in(&self, w: usize, mut poller_park: impl PollerPark, timed_park: Option<u64>) -> bool {
        self.events.park_elsewhere(w, || match timed_park {
            Some(_) => sharply(|| poller_park.sleep(timed_park)),
            None => poller_park.sleep(None),
        });
        // Registered as a searcher again: what is handed out here wakes nobody; whoever ends the search does.
        poller_park.wake()
    }

    /// Says how a worker in its bed is woken.
    pub(crate) fn unpark_by(&self, unpark: impl Fn() + Send + Sync + 'static) {
        self.events.unpark_by(unpark);
    }

    fn search<S: Searcher>(rounds: u32, searcher: &mut S) -> Option<S::Found> {
        let mut pause = 4;
        for round in 1..=rounds {
            if let Some(found) = searcher.look() {
                return Some(found);
            }
            if searcher.is_in_haste() {
                break;
            }
            if round < rounds {
                (0..pause).for_each(|_| spin_loop());
                pause = (pause * 4).min(LONGEST_PAUSE);
            }
        }
        None
    }

    /// Goes on searching, with sleeps between the looks, as long as it sees tasks that their owner is about
    /// to run. Were it announced as asleep, the next such task would wake it, which costs that owner more
    /// than the task.
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

    /// The last searcher leaves a successor, for nobody else was told of what came in while it searched.
    fn end_search(&self) {
        if self.events.found() {
            self.events.notify_one();
        }
    }

    /// Whether worker `w` is neither asleep nor about to be.
    pub(crate) fn is_awake(&self, w: usize) -> bool {
        self.events.is_awake(w)
    }

    /// Work that anybody can do became visible. Returns whether a sleeper was woken.
    #[inline]
    pub(crate) fn wake_one(&self) -> bool {
        self.events.notify_one()
    }

    /// Whether [`wake_one`](Idle::wake_one) would wake somebody at this moment: it has to be called then, and
    /// need not be otherwise.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.events.is_wanted()
    }

    /// Work became visible that worker `w` should do.
    pub(crate) fn wake(&self, w: usize) -> bool {
        self.events.notify(w)
    }

    /// `stop` became true.
    pub(crate) fn wake_all(&self) {
        self.events.notify_all();
    }

    /// How many workers search and how many sleep at this moment.
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

    /// A worker beside others that finds `"found"` at its look number `at`, and in its last one what is
    /// `late`.
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
            assert!(!self.idle.wake_one(), "somebody searches");
            assert!(self.looked <= self.idle.rounds + LINGERS, "it lingers for ever");
            (self.looked == self.at).then_some("found")
        }

        fn scan(&mut self) -> Option<&'static str> {
            self.late
        }

        fn stops(&self) -> bool {
            (self.stops)(self.looked)
        }

        fn parks(&self) {}

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
    }

    /// What worker `w` does that finds `"late"` in its last look and, at look number `at`, `"found"`; and how
    /// often it looked.
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
    fn who_sees_lone_tasks_goes_on_searching() {
        let idle = Idle::new(2);
        let spins = idle.rounds;
        let found = looks(0, &idle, spins + LINGERS / 2, |_| false, false, |_| true);
        assert_eq!(found, (Some("found"), spins + LINGERS / 2));
        // Not for ever: what it may have overlooked is found in the end.
        let found = looks(0, &idle, NEVER, |_| false, false, |_| true);
        assert_eq!(found, (Some("late"), spins + LINGERS));
        // And not without a reason.
        let found = looks(0, &idle, NEVER, |_| false, false, |_| false);
        assert_eq!(found, (Some("late"), spins));
        let found = looks(0, &idle, NEVER, |_| false, false, |looked| looked <= spins);
        assert_eq!(found, (Some("late"), spins + IN_VAIN));
        assert_eq!(idle.snapshot(), (0, 0));
    }

    #[test]
    fn who_is_to_stop_or_in_haste_does_not_linger() {
        let idle = Idle::new(2);
        let spins = idle.rounds;
        let found = looks(0, &idle, NEVER, |looked| looked > spins, false, |_| true);
        assert_eq!(found, (None, spins + 1));
        let found = looks(0, &idle, NEVER, |_| false, true, |_| true);
        assert_eq!(found, (Some("late"), 1));
        assert_eq!(idle.snapshot(), (0, 0));
    }

    /// The worker beside it sleeps, and is not woken meanwhile: `looks` checks that.
    #[test]
    fn who_lingers_is_called_by_nobody_and_neither_is_another() {
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
