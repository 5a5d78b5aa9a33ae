//! A worker is given to a thread and wanted back, under loom: one of the two has it, and sees what was done
//! with it.
#![cfg(warpweft_loom)]

#[allow(dead_code, reason = "the model uses a part of it")]
#[path = "../src/threads/handoff.rs"]
mod handoff;

use handoff::Handoff;
use loom::thread;
use std::sync::Arc;
use warpweft_platform::cell::UnsafeCell;

/// The data of the thread that carries the worker: loom reports accesses that race.
struct Worker(UnsafeCell<u32>);

// SAFETY: that accesses do not race is what the models show.
unsafe impl Sync for Worker {}
// SAFETY: a plain value.
unsafe impl Send for Worker {}

impl Worker {
    fn work(&self) -> u32 {
        self.0.with_mut(|count| {
            // SAFETY: loom checks that no other thread accesses it.
            let count = unsafe { &mut *count };
            *count += 1;
            *count
        })
    }
}

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(body);
}

#[test]
fn giver_and_sleeper_want_the_same_worker() {
    model(|| {
        let (handoff, worker) = (Arc::new(Handoff::new()), Arc::new(Worker(UnsafeCell::new(0))));
        let sleeper = {
            let (handoff, worker) = (Arc::clone(&handoff), Arc::clone(&worker));
            thread::spawn(move || match handoff.wait() {
                Some(7) => Some(worker.work()),
                other => {
                    assert_eq!(other, None);
                    None
                }
            })
        };
        worker.work();
        let assigned = handoff.assign(Some(7));
        let mine = handoff.take_back(assigned);
        if mine {
            worker.work();
            // It continues to sleep, and gets another worker.
            handoff.assign(None);
        }
        let theirs = sleeper.join().expect("no panic");
        assert_eq!(theirs, (!mine).then_some(2));
        assert_eq!(worker.work(), 3);
    });
}

#[test]
fn a_worker_goes_and_comes_back_twice() {
    model(|| {
        let (handoff, worker) = (Arc::new(Handoff::new()), Arc::new(Worker(UnsafeCell::new(0))));
        let sleeper = {
            let (handoff, worker) = (Arc::clone(&handoff), Arc::clone(&worker));
            thread::spawn(move || handoff.wait().map(|_| worker.work()))
        };
        let first = handoff.assign(Some(0));
        if handoff.take_back(first) {
            worker.work();
            let second = handoff.assign(Some(0));
            // The first worker cannot be taken back any more, though the second is the same one.
            assert!(!handoff.take_back(first));
            if handoff.take_back(second) {
                worker.work();
                handoff.assign(None);
            }
        }
        sleeper.join().expect("no panic");
        assert!(worker.work() <= 3);
    });
}
