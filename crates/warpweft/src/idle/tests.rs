//! Tests of how long a worker searches and how it sleeps, with searchers that only count.

use super::{FEW_LOOKS, IN_VAIN, Idle, PAUSES, PollerPark, REGISTERED, Searcher, SleepHistory, Waited};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::thread::{JoinHandle, spawn, yield_now};

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
    sleeps: SleepHistory,
}

impl<S: Fn(u32) -> bool, L: Fn(u32) -> bool> Searcher for Looks<'_, S, L> {
    type Found = &'static str;
    type PollerPark = NoPoller;

    fn look(&mut self) -> Option<&'static str> {
        self.looked += 1;
        assert!(!self.idle.wake_one(), "a searcher is registered");
        assert!(self.looked <= self.idle.rounds + PAUSES, "its pauses never end");
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

    fn is_about_to_take(&self, _: u64) -> bool {
        false
    }

    fn woken(&self) {}

    fn searches(&self, _: bool) {}

    fn sleep_history(&self) -> &SleepHistory {
        &self.sleeps
    }
}

/// Runs a worker without a history until it finds `"late"` in its last look or `"found"` at look number `at`.
/// Returns what it found and the number of its looks.
fn looks(
    w: usize,
    idle: &Idle,
    at: u32,
    stops: impl Fn(u32) -> bool,
    in_haste: bool,
    leaves: impl Fn(u32) -> bool,
) -> (Option<&'static str>, u32) {
    looks_after(SleepHistory::default(), w, idle, at, stops, in_haste, leaves)
}

/// The same after sleeps.
fn looks_after(
    sleeps: SleepHistory,
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
        sleeps,
    };
    let found = match idle.wait(w, &mut searcher) {
        Waited::Found(found) => Some(found),
        Waited::Unparked | Waited::Stop => None,
    };
    (found, searcher.looked)
}

const NEVER: u32 = u32::MAX;

#[test]
fn a_searcher_that_sees_lone_tasks_pauses() {
    let idle = Idle::new(2);
    let spins = idle.rounds;
    let found = looks(0, &idle, spins + PAUSES / 2, |_| false, false, |_| true);
    assert_eq!(found, (Some("found"), spins + PAUSES / 2));
    // It stops in the end: the last look finds what it may have overlooked.
    let found = looks(0, &idle, NEVER, |_| false, false, |_| true);
    assert_eq!(found, (Some("late"), spins + PAUSES));
    // It does not pause without a reason.
    let found = looks(0, &idle, NEVER, |_| false, false, |_| false);
    assert_eq!(found, (Some("late"), spins));
    let found = looks(0, &idle, NEVER, |_| false, false, |looked| looked <= spins);
    assert_eq!(found, (Some("late"), spins + IN_VAIN));
    assert_eq!(idle.snapshot(), (0, 0));
}

#[test]
fn after_long_sleeps_a_worker_hardly_searches() {
    let idle = Idle::new(2);
    let after = |lengths_us: &[u64]| {
        let sleeps = SleepHistory::default();
        lengths_us.iter().for_each(|us| sleeps.slept(0, us * 1000));
        looks_after(sleeps, 0, &idle, NEVER, |_| false, false, |_| false)
    };
    assert_eq!(after(&[100, 5_000]), (Some("late"), FEW_LOOKS));
    for lengths in [[5_000, 99], [99, 5_000]] {
        assert_eq!(after(&lengths), (Some("late"), idle.rounds), "{lengths:?}");
    }
    assert_eq!(idle.snapshot(), (0, 0));
}

#[test]
fn a_searcher_that_stops_or_is_in_haste_does_not_pause() {
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
fn a_push_wakes_no_worker_while_a_searcher_pauses() {
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
            sleeps: SleepHistory::default(),
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

/// A worker that finds nothing before its last look number `at`.
struct Scans<'idle> {
    idle: &'idle Idle,
    scans: u32,
    at: u32,
    /// The last look in which another thread wakes it.
    wakes_in: u32,
    stop: &'idle AtomicBool,
    sleeps: SleepHistory,
    parks: Cell<u32>,
    woken: Cell<u32>,
}

impl Searcher for Scans<'_> {
    type Found = &'static str;
    type PollerPark = NoPoller;

    fn look(&mut self) -> Option<&'static str> {
        None
    }

    fn scan(&mut self) -> Option<&'static str> {
        self.scans += 1;
        if self.scans == self.wakes_in {
            assert!(self.idle.wake_one(), "it is announced");
        }
        (self.scans == self.at).then_some("late")
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn parks(&self) {
        self.parks.set(self.parks.get() + 1);
    }

    fn unparks(&self) {}

    fn park_timeout_ns(&mut self) -> Option<u64> {
        None
    }

    fn poller_park(&self, _: bool) -> Option<NoPoller> {
        None
    }

    fn is_in_haste(&self) -> bool {
        false
    }

    fn has_left(&mut self) -> bool {
        false
    }

    fn is_about_to_take(&self, _: u64) -> bool {
        false
    }

    fn woken(&self) {
        self.woken.set(self.woken.get() + 1);
    }

    fn searches(&self, _: bool) {}

    fn sleep_history(&self) -> &SleepHistory {
        &self.sleeps
    }
}

impl<'idle> Scans<'idle> {
    /// A worker whose last sleeps were short if `short` is true.
    fn new(idle: &'idle Idle, stop: &'idle AtomicBool, short: bool, at: u32, wakes_in: u32) -> Self {
        let sleeps = SleepHistory::default();
        for _ in 0..2 {
            sleeps.slept(0, if short { 0 } else { u64::MAX });
        }
        Self {
            idle,
            scans: 0,
            at,
            wakes_in,
            stop,
            sleeps,
            parks: Cell::new(0),
            woken: Cell::new(0),
        }
    }
}

/// Returns how often a worker parks and how often it is woken until its last look number `at`, and whether it
/// expects a short sleep afterwards.
fn scans(short: bool, at: u32, wakes_in: u32) -> (u32, u32, bool) {
    let (idle, over) = (Arc::new(Idle::new(2)), Arc::new(AtomicBool::new(false)));
    // A worker that sleeps for ever fails the test instead of blocking it.
    let guard = stop_after(Duration::from_secs(10), &idle, &over);
    let mut scans = Scans::new(&idle, &over, short, at, wakes_in);
    assert!(matches!(idle.wait(0, &mut scans), Waited::Found("late")));
    let still_short = scans.sleeps.expects_a_short_one();
    let result = (scans.parks.get(), scans.woken.get(), still_short);
    over.store(true, Ordering::SeqCst);
    guard.join().expect("no panic");
    assert_eq!(idle.snapshot(), (0, 0));
    result
}

/// Stops the workers after that time, or as soon as the flag is set.
fn stop_after(time: Duration, idle: &Arc<Idle>, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let (idle, stop, start) = (Arc::clone(idle), Arc::clone(stop), Instant::now());
    spawn(move || {
        while !stop.load(Ordering::SeqCst) && start.elapsed() < time {
            yield_now();
        }
        stop.store(true, Ordering::SeqCst);
        idle.wake_all();
    })
}

#[test]
fn after_short_sleeps_the_next_begins_with_a_brief_park() {
    // Nobody wakes it: only a brief park ends by itself. It says nothing about the sleep after it.
    assert_eq!(scans(true, 2, NEVER), (1, 0, true));
    assert_eq!(scans(true, 1, NEVER), (0, 0, true));
    // Woken in the brief park, and in the park after it.
    assert_eq!(scans(true, 2, 1), (1, 1, true));
    assert_eq!(scans(true, 3, 2), (2, 1, false));
    // After a long sleep it parks until it is woken.
    assert_eq!(scans(false, 2, 1), (1, 1, false));
}

#[test]
fn one_brief_park_is_enough() {
    let (idle, stop) = (Arc::new(Idle::new(2)), Arc::new(AtomicBool::new(false)));
    let guard = stop_after(Duration::from_millis(20), &idle, &stop);
    let mut scans = Scans::new(&idle, &stop, true, NEVER, NEVER);
    assert!(matches!(idle.wait(0, &mut scans), Waited::Stop));
    let parks = scans.parks.get();
    assert!(parks <= 2, "{parks} parks in 20 ms");
    guard.join().expect("no panic");
}

/// A worker in whose look the next worker begins to wait, so that all of them search at the same time.
struct Nested<'a> {
    idle: &'a Idle,
    worker: usize,
    last: usize,
    /// How many are registered while all search.
    registered: &'a Cell<usize>,
    sleeps: SleepHistory,
}

impl Searcher for Nested<'_> {
    type Found = ();
    type PollerPark = NoPoller;

    fn look(&mut self) -> Option<()> {
        if self.worker == self.last {
            self.registered.set(self.idle.snapshot().0);
        } else {
            let worker = self.worker + 1;
            let sleeps = SleepHistory::default();
            let mut next = Nested {
                worker,
                sleeps,
                ..*self
            };
            assert!(matches!(self.idle.wait(worker, &mut next), Waited::Found(())));
        }
        Some(())
    }

    fn scan(&mut self) -> Option<()> {
        panic!("worker {} announces sleep before it has searched", self.worker);
    }

    fn stops(&self) -> bool {
        false
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
        false
    }

    fn has_left(&mut self) -> bool {
        false
    }

    fn is_about_to_take(&self, _: u64) -> bool {
        false
    }

    fn woken(&self) {}

    fn searches(&self, _: bool) {}

    fn sleep_history(&self) -> &SleepHistory {
        &self.sleeps
    }
}

#[test]
fn of_many_idle_workers_a_few_register_and_the_others_search_too() {
    let workers = 4 * REGISTERED;
    let idle = Idle::new(workers);
    // One sleeper, so that searchers register.
    idle.events.prepare(workers - 1, false);
    let registered = Cell::new(0);
    let mut first = Nested {
        idle: &idle,
        worker: 0,
        last: workers - 2,
        registered: &registered,
        sleeps: SleepHistory::default(),
    };
    assert!(matches!(idle.wait(0, &mut first), Waited::Found(())));
    assert_eq!(registered.get(), REGISTERED);
    idle.events.cancel(workers - 1);
    assert!(idle.events.found());
}
