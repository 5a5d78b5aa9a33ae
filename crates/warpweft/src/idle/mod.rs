//! How a worker without work waits, and how it is woken.
//!
#![doc = include_str!("README.md")]

mod sleep_history;

pub(crate) use sleep_history::SleepHistory;

use sleep_history::BRIEF_PARK_NS;
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::clock;
use warpweft_platform::thread::{pause, with_exact_timer, yield_now};
use warpweft_queue::EventCount;

/// How an idle worker waits for work, and how it is woken.
#[derive(Debug)]
pub(crate) struct Idle {
    events: EventCount,
    /// Looks at other workers' queues before sleep is announced.
    rounds: u32,
    /// True if a worker that is not registered searches all the same.
    unregistered: bool,
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
    /// Returns true if `look` has left something that it will take within microseconds. The caller has been
    /// waiting for it since `since_ns`.
    fn is_about_to_take(&self, since_ns: u64) -> bool;
    /// Notes that another worker has woken this one, or is about to.
    fn woken(&self);
    /// Notes that it only looks for work from now on, or, with `false`, that it calls wakers: these are
    /// foreign code, which may keep it.
    fn searches(&self, searches: bool);
    /// Returns what the worker remembers of its sleeps.
    fn sleep_history(&self) -> &SleepHistory;
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
/// search is short and yields, because the system takes a CPU with a searcher for a busy one, and places
/// threads that wake beside each other on another: see `docs/decisions/0060-searchers-give-way.md`.
const LOOKS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    2
} else {
    20
};

/// The number of looks of a worker whose last sleeps were long.
const FEW_LOOKS: u32 = 2;

/// The largest number of searchers that register, in a pool of any size. A few are enough to keep pushes from
/// waking sleepers, and each registration and its end take the cache line that every push reads. See
/// `docs/decisions/0086-contention-that-the-simulator-found.md`.
const REGISTERED: usize = 4;

/// Sleeps that are to be shorter than this many nanoseconds ask the system for an exact timer, which costs
/// two system calls.
const EXACT_BELOW_NS: u64 = 100_000;

/// A searcher that sees lone tasks sleeps this long between two looks, in nanoseconds.
const PAUSE_NS: u64 = 50_000;
/// The largest number of such looks before the searcher announces sleep.
const PAUSES: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    1
} else {
    40
};
/// The number of such looks in a row that see no lone task, after which the searcher pauses no more.
const IN_VAIN: u32 = 4;

impl Idle {
    /// Creates the protocol's state for workers `0..workers`, all awake.
    pub(crate) fn new(workers: usize) -> Self {
        // At most this many searchers register. One finds what there is, and leaves a successor when it does.
        let half = (workers / 2).max(1);
        Self {
            events: EventCount::new(workers, half.min(REGISTERED), Asymmetric::new()),
            rounds: LOOKS,
            unregistered: half > REGISTERED,
        }
    }

    /// Waits until there is work for worker `w`, which is the `searcher`, or until it has to stop. The
    /// worker's own queue is empty.
    pub(crate) fn wait<S: Searcher>(&self, w: usize, searcher: &mut S) -> Waited<S::Found> {
        // Registered searchers keep pushes from waking sleepers. Without sleepers there is nothing to keep,
        // so the word, which every push reads, stays untouched.
        let no_sleeper = self.events.snapshot().1 == 0;
        let mut registered = !no_sleeper && self.events.try_search();
        let mut searching = registered || no_sleeper || self.unregistered;
        let mut rounds = self.patience(searcher);
        // A sleep that is expected to be short begins as a brief park, which spares the barrier.
        let mut brief = searcher.sleep_history().expects_a_short_one();
        let mut asleep_ns = None;
        loop {
            if searcher.stops() {
                if registered {
                    self.end_search();
                }
                return Waited::Stop;
            }
            if searching
                && let Some(found) =
                    Self::search(rounds, searcher).or_else(|| Self::search_with_pauses(rounds, searcher))
            {
                if registered {
                    self.end_search();
                }
                return Waited::Found(found);
            }
            if brief {
                self.events.prepare_brief(w, registered);
            } else {
                self.events.prepare(w, registered);
            }
            if self.events.is_chosen(w) {
                searcher.woken();
            }
            // From here to `cancel` or `park` this worker is announced as asleep: look at everything once
            // more.
            if searcher.stops() {
                self.events.cancel(w);
            } else if let Some(found) = searcher.scan() {
                self.events.cancel(w);
                self.end_search();
                return Waited::Found(found);
            } else {
                let watch_ns = searcher.park_timeout_ns();
                if watch_ns == Some(0) {
                    self.events.cancel(w);
                } else {
                    let at_most_ns = watch_ns.or(brief.then_some(BRIEF_PARK_NS));
                    // After the announcement: a worker that left the poller before looks for sleepers after
                    // that.
                    let poller_park = searcher.poller_park(watch_ns.is_some());
                    if watch_ns.is_none() {
                        searcher.parks();
                        asleep_ns = asleep_ns.or_else(|| Some(clock::now_ns()));
                    }
                    let (woken, happened) = self.sleep(w, poller_park, at_most_ns, searcher);
                    // Also for `recent_ns`, on which what this worker runs now relies.
                    let now_ns = clock::now_ns();
                    if let Some(since) = asleep_ns
                        && (woken || happened)
                    {
                        searcher.sleep_history().slept(since, now_ns);
                        asleep_ns = None;
                    }
                    if happened {
                        self.end_search();
                        return Waited::Unparked;
                    }
                    if woken {
                        searcher.woken();
                    }
                    rounds = if at_most_ns.is_some() && !woken {
                        1
                    } else {
                        self.patience(searcher)
                    };
                    // A watcher looks again soon in any case.
                    brief = watch_ns.is_some();
                }
            }
            // After both `cancel` and `park` the worker is counted as a searcher.
            registered = true;
            searching = true;
        }
    }

    /// Sleeps, in `poller_park` if there is one, for at most `at_most_ns` nanoseconds. Returns whether a
    /// waker chose the worker, and whether anything happened in the poller.
    fn sleep<S: Searcher>(
        &self,
        w: usize,
        poller_park: Option<S::PollerPark>,
        at_most_ns: Option<u64>,
        searcher: &S,
    ) -> (bool, bool) {
        let exact = at_most_ns.is_some_and(|ns| ns < EXACT_BELOW_NS);
        let exactly = |sleep: &mut dyn FnMut()| if exact { with_exact_timer(sleep) } else { sleep() };
        let mut woken = true;
        let Some(mut poller_park) = poller_park else {
            match at_most_ns {
                Some(ns) => exactly(&mut || woken = self.events.park_timeout(w, ns)),
                None => self.events.park(w),
            }
            searcher.unparks();
            return (woken, false);
        };
        woken = self
            .events
            .park_elsewhere(w, || exactly(&mut || poller_park.sleep(at_most_ns)));
        searcher.unparks();
        // The worker is a registered searcher again: what it hands out wakes no sleeper. The end of the
        // search wakes one.
        searcher.searches(false);
        let happened = poller_park.wake();
        searcher.searches(true);
        (woken, happened)
    }

    /// Sets the function that wakes a worker that sleeps in the poller.
    pub(crate) fn unpark_by(&self, unpark: impl Fn() + Send + Sync + 'static) {
        self.events.unpark_by(unpark);
    }

    /// Returns how often a worker looks before it announces sleep: hardly, if nothing came for long after its
    /// last searches.
    fn patience<S: Searcher>(&self, searcher: &S) -> u32 {
        if searcher.sleep_history().expects_a_long_one() {
            self.rounds.min(FEW_LOOKS)
        } else {
            self.rounds
        }
    }

    fn search<S: Searcher>(rounds: u32, searcher: &mut S) -> Option<S::Found> {
        let mut since_ns = None;
        for round in 1.. {
            if let Some(found) = searcher.look() {
                return Some(found);
            }
            if searcher.is_in_haste() {
                break;
            }
            if round >= rounds {
                let since_ns = *since_ns.get_or_insert_with(clock::now_ns);
                if rounds == 1 || !searcher.is_about_to_take(since_ns) {
                    break;
                }
            }
            yield_now();
        }
        None
    }

    /// Continues to search, with sleeps between the looks, while it sees tasks that their owner is about to
    /// run. If the worker were announced as asleep, the next such task would wake it. The wake would cost the
    /// owner more than the task.
    fn search_with_pauses<S: Searcher>(rounds: u32, searcher: &mut S) -> Option<S::Found> {
        if rounds == 1 || !searcher.has_left() {
            return None;
        }
        let (mut left, mut in_vain) = (PAUSES, 0);
        while left > 0 && in_vain < IN_VAIN && !searcher.stops() && !searcher.is_in_haste() {
            with_exact_timer(|| pause(PAUSE_NS));
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

    /// Lets worker `w`, which is awake and does not search, rest: it takes no part until
    /// [`end_rest`](Self::end_rest). The caller looks again at what only `w` can do, and wakes one.
    pub(crate) fn rest(&self, w: usize) {
        self.events.rest(w);
    }

    /// Ends the rest of worker `w`. Returns true to one caller for each rest, which must find a thread for
    /// it.
    pub(crate) fn end_rest(&self, w: usize) -> bool {
        self.events.end_rest(w)
    }

    /// Returns true if worker `w` rests.
    pub(crate) fn is_resting(&self, w: usize) -> bool {
        self.events.is_resting(w)
    }

    /// Wakes worker `w` if it sleeps, because it has to stop.
    pub(crate) fn wake_to_stop(&self, w: usize) {
        self.events.notify_only(w);
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
mod tests;
