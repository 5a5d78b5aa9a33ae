//! Tests that the checker explores every outcome that exists.
#![cfg(warpweft_loom)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use warpweft_platform::atomic::{AtomicU64, Ordering::Relaxed};
use warpweft_platform::{loom, thread};

/// Returns all values that `reader` returned while `other` ran against it on the same atomic.
fn outcomes(
    reader: impl Fn(&AtomicU64) -> u64 + Copy + Send + Sync + 'static,
    other: impl Fn(&AtomicU64) + Copy + Send + Sync + 'static,
) -> BTreeSet<u64> {
    let met = Arc::new(Mutex::new(BTreeSet::new()));
    let all = met.clone();
    loom::model(move || {
        let word = loom::sync::Arc::new(AtomicU64::new(0));
        let (read, write) = (word.clone(), word);
        let reader = thread::spawn(move || reader(&read));
        let other = thread::spawn(move || other(&write));
        let value = reader.join().unwrap();
        other.join().unwrap();
        met.lock().unwrap().insert(value);
    });
    all.lock().unwrap().clone()
}

#[test]
fn a_load_meets_a_swap_that_follows_a_load() {
    let load_and_swap = |word: &AtomicU64| {
        word.load(Relaxed);
        word.swap(1, Relaxed);
    };
    assert_eq!(
        outcomes(|word| word.load(Relaxed), load_and_swap),
        BTreeSet::from([0, 1])
    );
}

#[test]
fn a_load_meets_each_of_two_stores() {
    let load_and_stores = |word: &AtomicU64| {
        word.load(Relaxed);
        word.store(1, Relaxed);
        word.store(2, Relaxed);
    };
    assert_eq!(
        outcomes(|word| word.load(Relaxed), load_and_stores),
        BTreeSet::from([0, 1, 2])
    );
}

#[test]
fn a_load_and_a_swap_meet_what_comes_between_them() {
    // 0, the other's 10, or 11: the other came before, or between the load and the swap, or after.
    let both = |word: &AtomicU64| 2 * word.load(Relaxed) + word.swap(5, Relaxed);
    let other = |word: &AtomicU64| {
        word.load(Relaxed);
        word.swap(1, Relaxed);
    };
    assert_eq!(outcomes(both, other), BTreeSet::from([0, 1, 3]));
}
