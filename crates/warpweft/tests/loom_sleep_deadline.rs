//! A poller goes to sleep while timers are set, under loom. It sleeps no longer than until the first timer,
//! or is woken.
#![cfg(warpweft_loom)]

#[path = "../src/driver/sleep_deadline.rs"]
mod sleep_deadline;

use loom::thread;
use sleep_deadline::SleepDeadline;
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicBool, AtomicU64, Ordering};

const NEVER: u64 = u64::MAX;

/// What sleeper and setters share: the first deadline of a worker's timers, as `driver::timers` publishes it,
/// and the poller's wake-up.
struct World {
    sleep_deadline: SleepDeadline,
    next: [AtomicU64; 2],
    unparked: AtomicBool,
}

impl World {
    fn new(before: u64) -> Arc<Self> {
        Arc::new(Self {
            sleep_deadline: SleepDeadline::new(),
            next: [AtomicU64::new(before), AtomicU64::new(NEVER)],
            unparked: AtomicBool::new(false),
        })
    }

    /// Sets a timer that is the first of its worker.
    fn set(&self, worker: usize, deadline: u64) {
        self.next[worker].store(deadline, Ordering::Relaxed);
        if self.sleep_deadline.is_late_for(deadline) {
            self.unparked.store(true, Ordering::Relaxed);
        }
    }

    /// Returns until when the poller would sleep.
    fn sleep(&self) -> u64 {
        self.sleep_deadline.set(|| {
            let next = self.next.each_ref().map(|next| next.load(Ordering::Relaxed));
            next[0].min(next[1])
        })
    }

    /// Checks, at the end, that the poller does not sleep past the timers of `deadlines`.
    fn check(&self, until: u64, first: u64) {
        let unparked = self.unparked.load(Ordering::Relaxed);
        assert!(
            unparked || until <= first,
            "it sleeps until {until}, a timer is due at {first}"
        );
    }
}

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(body);
}

#[test]
fn a_timer_is_seen_or_wakes_the_poller() {
    model(|| {
        let world = World::new(NEVER);
        let sets = Arc::clone(&world);
        let setter = thread::spawn(move || sets.set(0, 5));
        let until = world.sleep();
        setter.join().expect("no panic");
        world.check(until, 5);
    });
}

#[test]
fn an_earlier_timer_is_seen_or_wakes_the_poller() {
    model(|| {
        let world = World::new(9);
        let sets = Arc::clone(&world);
        let setter = thread::spawn(move || sets.set(1, 5));
        let until = world.sleep();
        setter.join().expect("no panic");
        world.check(until, 5);
    });
}

#[test]
fn the_earlier_of_two_timers_is_seen_or_wakes_the_poller() {
    model(|| {
        let world = World::new(NEVER);
        let setters = [(0, 7), (1, 5)].map(|(worker, deadline)| {
            let sets = Arc::clone(&world);
            thread::spawn(move || sets.set(worker, deadline))
        });
        let until = world.sleep();
        for setter in setters {
            setter.join().expect("no panic");
        }
        world.check(until, 5);
    });
}

#[test]
fn the_next_sleep_sees_the_wake_up_of_the_last() {
    model(|| {
        let world = World::new(NEVER);
        let sets = Arc::clone(&world);
        let setter = thread::spawn(move || sets.set(0, 5));
        world.sleep();
        world.sleep_deadline.clear();
        let until = world.sleep();
        setter.join().expect("no panic");
        // Woken during the first sleep: the wake-up is still there at the second, which then does not begin.
        world.check(until, 5);
    });
}

#[test]
fn a_sleeper_that_is_awake_is_left_alone() {
    model(|| {
        let world = World::new(NEVER);
        assert_eq!(world.sleep(), NEVER);
        world.sleep_deadline.clear();
        world.set(0, 5);
        assert!(!world.unparked.load(Ordering::Relaxed));
        // A timer later than the deadline wakes no thread.
        assert_eq!(world.sleep(), 5);
        world.set(1, 8);
        assert!(!world.unparked.load(Ordering::Relaxed));
        world.set(1, 4);
        assert!(world.unparked.load(Ordering::Relaxed));
    });
}
