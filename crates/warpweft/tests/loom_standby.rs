//! The standby poller's sleep against a thread that has something for its thread, under loom.
#![cfg(warpweft_loom)]

#[allow(dead_code, reason = "the model needs a part of it")]
#[path = "../src/driver/standby.rs"]
mod standby;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use standby::StandbyPoller;

/// The number of a compensating worker.
const COMPENSATING: usize = 1;

/// A fiber becomes ready while its thread's compensating worker goes to sleep: the fiber is seen, or the
/// compensating worker is woken.
#[test]
fn a_fiber_is_seen_or_its_thread_is_woken() {
    loom::model(|| {
        let (standby, ready) = (Arc::new(StandbyPoller::new()), Arc::new(AtomicBool::new(false)));
        let (there, fiber) = (Arc::clone(&standby), Arc::clone(&ready));
        let waker = thread::spawn(move || {
            fiber.store(true, Ordering::Release);
            there.must_wake(COMPENSATING)
        });
        assert!(standby.enlist(COMPENSATING));
        assert!(standby.try_sleep(COMPENSATING));
        let sleeps = !ready.load(Ordering::Acquire);
        let unparked = waker.join().expect("no panic");
        assert!(!sleeps || unparked, "it sleeps, and nobody wakes it");
        assert_eq!(standby.sleeps(COMPENSATING), standby.is_parked());
    });
}

/// Its long task ends while the monitor takes the role from it. If it then sleeps in the poller, it has the
/// role, so that it can be woken. If not, it retires, and the role is free.
#[test]
fn one_that_sleeps_in_the_poller_has_the_role() {
    loom::model(|| {
        let standby = Arc::new(StandbyPoller::new());
        assert!(standby.enlist(COMPENSATING));
        let there = Arc::clone(&standby);
        let monitor = thread::spawn(move || there.dismiss(COMPENSATING));
        let sleeps = standby.try_sleep(COMPENSATING);
        if !sleeps {
            // It retires.
            standby.discharge(COMPENSATING);
        }
        monitor.join().expect("no panic");
        assert_eq!(sleeps, standby.is_parked());
        assert_eq!(sleeps, standby.must_wake(COMPENSATING));
        assert_eq!(sleeps, standby.is_there(), "one that has retired has the role");
    });
}

/// As above, and another compensating worker wants the role meanwhile. It finds the poller taken, or gets no
/// role at all: one that sleeps stays known.
#[test]
fn no_other_one_gets_the_role_of_one_that_sleeps() {
    const OTHER: usize = COMPENSATING + 1;
    loom::model(|| {
        let standby = Arc::new(StandbyPoller::new());
        assert!(standby.enlist(COMPENSATING));
        let (there, also_there) = (Arc::clone(&standby), Arc::clone(&standby));
        let monitor = thread::spawn(move || there.dismiss(COMPENSATING));
        let other = thread::spawn(move || {
            if also_there.enlist(OTHER) {
                if also_there.try_sleep(OTHER) {
                    also_there.wake();
                }
                also_there.discharge(OTHER);
            }
        });
        let sleeps = standby.try_sleep(COMPENSATING);
        if !sleeps {
            standby.discharge(COMPENSATING);
        }
        monitor.join().expect("no panic");
        other.join().expect("no panic");
        assert_eq!(sleeps, standby.must_wake(COMPENSATING));
    });
}

/// A worker that is awake, or another worker, is not woken.
#[test]
fn only_a_sleeping_thread_is_woken() {
    loom::model(|| {
        let standby = StandbyPoller::new();
        assert!(!standby.must_wake(COMPENSATING));
        assert!(
            standby.enlist(COMPENSATING) && standby.enlist(COMPENSATING) && !standby.enlist(COMPENSATING + 1)
        );
        assert!(standby.try_sleep(COMPENSATING));
        assert!(standby.must_wake(COMPENSATING) && !standby.must_wake(COMPENSATING + 1));
        standby.wake();
        assert!(!standby.must_wake(COMPENSATING));
        standby.discharge(COMPENSATING);
        assert!(!standby.is_there());
    });
}
