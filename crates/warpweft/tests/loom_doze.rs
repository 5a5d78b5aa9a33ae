//! The monitor's sleep against workers that wake up, under loom: every interleaving and every weak-memory outcome.
#![cfg(warpweft_loom)]

#[path = "../src/runtime/doze.rs"]
mod doze;

use doze::Doze;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// So many workers wake up while the monitor lies down.
fn somebody_wakes(workers: usize) {
    let mut model = loom::model::Builder::new();
    // Two preemptions are enough for each bug that is planted here; without a bound two workers take minutes.
    model.preemption_bound.get_or_insert(2);
    model.check(move || {
        let doze = Arc::new(Doze::new());
        let awake: Arc<Vec<AtomicBool>> = Arc::new((0..workers).map(|_| AtomicBool::new(false)).collect());
        let rings: Vec<_> = (0..workers)
            .map(|worker| {
                let (doze, awake) = (Arc::clone(&doze), Arc::clone(&awake));
                thread::spawn(move || {
                    awake[worker].store(true, Ordering::Relaxed);
                    doze.is_to_be_rung()
                })
            })
            .collect();
        let lies = doze.lie_down(|| awake.iter().all(|awake| !awake.load(Ordering::Relaxed)));
        assert_eq!(doze.lies(), lies);
        let rung = rings
            .into_iter()
            .map(|ring| ring.join().expect("no panic"))
            .filter(|rung| *rung)
            .count();
        assert!(
            !lies || rung == workers,
            "the monitor sleeps, and {rung} of {workers} rang"
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

/// Lies down only if nobody is awake, which one look before tells.
#[test]
fn beside_somebody_awake_it_stays_up() {
    loom::model(|| {
        let doze = Doze::new();
        assert!(!doze.lie_down(|| false));
        assert!(!doze.lies() && !doze.is_to_be_rung());
        assert!(doze.lie_down(|| true));
        assert!(doze.lies() && doze.is_to_be_rung());
        doze.rise();
        assert!(!doze.lies());
    });
}
