//! The monitor's sleep against workers that wake up, under loom.
#![cfg(warpweft_loom)]

#[path = "../src/threads/sleep_flag.rs"]
mod sleep_flag;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use sleep_flag::SleepFlag;

/// Wakes `workers` workers while the monitor goes to sleep.
fn workers_wake(workers: usize) {
    let mut model = loom::model::Builder::new();
    // Two preemptions are enough for each mutant of this protocol; without a bound two workers take minutes.
    model.preemption_bound.get_or_insert(2);
    model.check(move || {
        let sleep_flag = Arc::new(SleepFlag::new());
        let awake: Arc<Vec<AtomicBool>> = Arc::new((0..workers).map(|_| AtomicBool::new(false)).collect());
        let notifications: Vec<_> = (0..workers)
            .map(|worker| {
                let (sleep_flag, awake) = (Arc::clone(&sleep_flag), Arc::clone(&awake));
                thread::spawn(move || {
                    awake[worker].store(true, Ordering::Relaxed);
                    sleep_flag.must_wake()
                })
            })
            .collect();
        let is_sleeping = sleep_flag.try_sleep(|| awake.iter().all(|awake| !awake.load(Ordering::Relaxed)));
        assert_eq!(sleep_flag.is_sleeping(), is_sleeping);
        let notified = notifications
            .into_iter()
            .map(|ring| ring.join().expect("no panic"))
            .filter(|notified| *notified)
            .count();
        assert!(
            !is_sleeping || notified == workers,
            "the monitor sleeps, and {notified} of {workers} rang"
        );
    });
}

#[test]
fn a_waking_worker_is_seen_or_wakes_the_monitor() {
    workers_wake(1);
}

#[test]
fn each_of_two_workers_is_seen_or_wakes_the_monitor() {
    workers_wake(2);
}

/// The monitor sleeps only if no worker is awake, which one look before shows.
#[test]
fn while_a_worker_is_awake_the_monitor_does_not_sleep() {
    loom::model(|| {
        let sleep_flag = SleepFlag::new();
        assert!(!sleep_flag.try_sleep(|| false));
        assert!(!sleep_flag.is_sleeping() && !sleep_flag.must_wake());
        assert!(sleep_flag.try_sleep(|| true));
        assert!(sleep_flag.is_sleeping() && sleep_flag.must_wake());
        sleep_flag.wake();
        assert!(!sleep_flag.is_sleeping());
    });
}
