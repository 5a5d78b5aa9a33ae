//! The monitor's sleep against workers that wake up, under loom: every interleaving and every weak-memory
//! outcome.
#![cfg(warpweft_loom)]

#[path = "../src/threads/sleep_flag.rs"]
mod sleep_flag;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use sleep_flag::SleepFlag;

/// That many workers wake up while the monitor goes to sleep.
fn somebody_wakes(workers: usize) {
    let mut model = loom::model::Builder::new();
    // Two preemptions find each mutant of this protocol; without a bound two workers take minutes.
    model.preemption_bound.get_or_insert(2);
    model.check(move || {
        let sleep_flag = Arc::new(SleepFlag::new());
        let awake: Arc<Vec<AtomicBool>> = Arc::new((0..workers).map(|_| AtomicBool::new(false)).collect());
        let notifications: Vec<_> = (0..workers)
            .map(|worker| {
                let (sleep_flag, awake) = (Arc::clone(&sleep_flag), Arc::clone(&awake));
                thread::spawn(move || {
                    awake[worker].store(true, Ordering::Relaxed);
                    sleep_flag.is_to_be_rung()
                })
            })
            .collect();
        let lies = sleep_flag.try_sleep(|| awake.iter().all(|awake| !awake.load(Ordering::Relaxed)));
        assert_eq!(sleep_flag.lies(), lies);
        let notified = notifications
            .into_iter()
            .map(|ring| ring.join().expect("no panic"))
            .filter(|notified| *notified)
            .count();
        assert!(
            !lies || notified == workers,
            "the monitor sleeps, and {notified} of {workers} rang"
        );
    });
}

#[test]
fn who_wakes_up_is_seen_or_rings() {
    somebody_wakes(1);
}

#[test]
fn each_of_two_is_seen_or_rings() {
    somebody_wakes(2);
}

/// The monitor goes to sleep only if no worker is awake, which it checks once before.
#[test]
fn beside_somebody_awake_it_stays_up() {
    loom::model(|| {
        let sleep_flag = SleepFlag::new();
        assert!(!sleep_flag.try_sleep(|| false));
        assert!(!sleep_flag.lies() && !sleep_flag.is_to_be_rung());
        assert!(sleep_flag.try_sleep(|| true));
        assert!(sleep_flag.lies() && sleep_flag.is_to_be_rung());
        sleep_flag.wake();
        assert!(!sleep_flag.lies());
    });
}
