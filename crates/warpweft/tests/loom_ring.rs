//! The ring of the flight recorder: a reader beside a writer that overwrites, under loom.
#![cfg(warpweft_loom)]

#[allow(dead_code, reason = "the models need a part of it")]
#[path = "../src/observe/recorder/ring.rs"]
mod ring;

use loom::sync::Arc;
use loom::thread;
use ring::{FIRST, Ring};

/// A ring of at most `bytes` bytes in which `before` records are, while `more` are written and one thread
/// reads.
fn read_beside(bytes: usize, before: u64, more: u64, young: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let ring = Arc::new(Ring::new(bytes));
        (1..=before).for_each(|number| write(&ring, number, young));
        let writer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (before + 1..=before + more).for_each(|number| write(&ring, number, young)))
        };
        let seen = check(&ring);
        // What was there before has not vanished, but for what was overwritten.
        assert!(seen.is_none_or(|last| last >= before) || before == 0, "{seen:?}");
        writer.join().expect("no panic");
        assert_eq!(check(&ring), Some(before + more));
    });
}

/// Writes a record. One thread at a time does so: that of the model, and then the one that it starts.
fn write(ring: &Ring, number: u64, young: bool) {
    // SAFETY: as above.
    unsafe { ring.write([number, !number], |_| young) };
}

/// Checks that the records are whole and in order. Returns the last one.
fn check(ring: &Ring) -> Option<u64> {
    let records = ring.read();
    for [number, other] in &records {
        assert_eq!(*other, !number, "a record of two halves: {number:#x} {other:#x}");
    }
    let mut numbers = records.iter().map(|record| record[0]);
    assert!(numbers.clone().is_sorted() && numbers.clone().min().is_none_or(|first| first > 0));
    numbers.next_back()
}

#[test]
fn a_reader_sees_no_record_of_two_halves() {
    read_beside(FIRST * 16, FIRST as u64, 1, false);
}

#[test]
fn a_reader_that_is_overrun_twice_sees_whole_records() {
    read_beside(FIRST * 16, FIRST as u64, 3, false);
}

#[test]
fn the_first_buffer_appears_whole() {
    read_beside(FIRST * 16, 0, 2, false);
}

#[test]
fn a_larger_buffer_appears_whole_and_after_the_old_one() {
    read_beside(FIRST * 16 * 3, FIRST as u64, 2, true);
}
