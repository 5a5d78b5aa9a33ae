//! The lookout's sleep against who has something for its thread, under loom: every interleaving and every weak-memory outcome.
#![cfg(warpweft_loom)]

#[allow(dead_code, reason = "the model needs a part of it")]
#[path = "../src/runtime/lookout.rs"]
mod lookout;

use lookout::Lookout;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// The number of a stand-in.
const STAND_IN: usize = 1;

/// A fiber becomes ready while its thread's stand-in lies down: it is seen, or the stand-in is roused.
#[test]
fn a_fiber_is_seen_or_its_thread_is_roused() {
    loom::model(|| {
        let (lookout, ready) = (Arc::new(Lookout::new()), Arc::new(AtomicBool::new(false)));
        let (there, fiber) = (Arc::clone(&lookout), Arc::clone(&ready));
        let waker = thread::spawn(move || {
            fiber.store(true, Ordering::Release);
            there.has_to_rise(STAND_IN)
        });
        assert!(lookout.enlist(STAND_IN));
        lookout.lie_down();
        let sleeps = !ready.load(Ordering::Acquire);
        let roused = waker.join().expect("no panic");
        assert!(!sleeps || roused, "it sleeps, and nobody rouses it");
        assert_eq!(lookout.sleeps(STAND_IN), lookout.is_in_bed());
    });
}

/// Who has risen, or is another one, is not roused.
#[test]
fn only_who_sleeps_is_roused() {
    loom::model(|| {
        let lookout = Lookout::new();
        assert!(!lookout.has_to_rise(STAND_IN));
        assert!(lookout.enlist(STAND_IN) && lookout.enlist(STAND_IN) && !lookout.enlist(STAND_IN + 1));
        lookout.lie_down();
        assert!(lookout.has_to_rise(STAND_IN) && !lookout.has_to_rise(STAND_IN + 1));
        lookout.rise();
        assert!(!lookout.has_to_rise(STAND_IN));
        lookout.discharge(STAND_IN);
        assert!(!lookout.is_there());
    });
}
