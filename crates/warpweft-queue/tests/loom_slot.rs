//! Every interleaving of few users of a slot.
#![cfg(warpweft_loom)]

mod support;

use loom::sync::Arc;
use loom::thread;
use std::num::NonZeroUsize;
use support::loom::model;
use warpweft_platform::atomic::{AtomicBool, Ordering, fence};
use warpweft_platform::cell::UnsafeCell;
use warpweft_queue::Slot;

fn word(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

#[test]
fn each_element_comes_out_once() {
    model(3, || {
        let slot = Arc::new(Slot::new());
        let putters = [1, 2].map(|n| {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.swap(word(n)))
        });
        let taken = slot.take();
        let displaced = putters.map(|putter| putter.join().unwrap());
        let mut out: Vec<_> = [taken, slot.take()]
            .into_iter()
            .chain(displaced)
            .flatten()
            .map(usize::from)
            .collect();
        out.sort_unstable();
        assert_eq!(out, [1, 2]);
    });
}

#[test]
fn two_takers_share_one_element() {
    model(3, || {
        let slot = Arc::new(Slot::new());
        assert_eq!(slot.swap(word(1)), None);
        let takers = [(); 2].map(|()| {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.take())
        });
        let taken = takers.map(|taker| taker.join().unwrap());
        assert_eq!(taken.iter().flatten().count(), 1, "{taken:?}");
    });
}

#[test]
fn what_was_done_before_comes_with_the_element() {
    model(3, || {
        let slot = Arc::new((Slot::new(), UnsafeCell::new(0)));
        let other = Arc::clone(&slot);
        let putter = thread::spawn(move || {
            // SAFETY: the other thread reads it only after it has the element.
            other.1.with_mut(|place| unsafe { *place = 7 });
            other.0.swap(word(1));
        });
        if slot.0.take().is_some() {
            // SAFETY: the thread that wrote it is done, for the element is here.
            assert_eq!(slot.1.with(|place| unsafe { *place }), 7);
        }
        putter.join().unwrap();
    });
}

#[test]
fn putter_and_sleeper_do_not_miss_each_other() {
    model(3, || {
        let slot = Arc::new(Slot::new());
        let sleeping = Arc::new(AtomicBool::new(false));
        let (shared, seen) = (Arc::clone(&slot), Arc::clone(&sleeping));
        let putter = thread::spawn(move || {
            shared.swap(word(1));
            fence(Ordering::SeqCst);
            seen.load(Ordering::Relaxed)
        });
        sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let taken = slot.take();
        let woken = putter.join().unwrap();
        assert!(taken.is_some() || woken, "the taker sleeps, the element waits");
    });
}
