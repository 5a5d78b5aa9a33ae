//! An object that leaves its register while a report looks at it, under every interleaving: the report sees
//! it whole, or not at all.
#![cfg(warpweft_loom)]

use std::ptr::NonNull;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::cell::UnsafeCell;
use warpweft_platform::loom;
use warpweft_platform::loom::thread;
use warpweft_platform::sync::Arc;
use warpweft_task::registry::Registry;

/// Its cell is written before it is entered and after it was removed: loom reports a report that looks at it
/// at another time.
struct Object {
    cell: UnsafeCell<usize>,
    beside: AtomicUsize,
}

// SAFETY: the register's lock orders the accesses to the cell, which is what the models show.
unsafe impl Sync for Object {}
// SAFETY: as above.
unsafe impl Send for Object {}

fn set(object: &Object, value: usize) {
    // SAFETY: loom checks that no other thread looks at the cell.
    object.cell.with_mut(|cell| unsafe { *cell = value });
}

fn look(register: &Registry<Object>) -> usize {
    let mut sum = 0;
    register.for_each(|object| {
        // SAFETY: as above.
        let value = object.cell.with(|cell| unsafe { *cell });
        assert_eq!(value, 1, "it is looked at while it is entered");
        sum += value + object.beside.load(Ordering::Relaxed);
    });
    sum
}

fn live(register: &Registry<Object>, object: &Object) {
    set(object, 1);
    // SAFETY: it is removed below, and its owner keeps it for longer.
    let entry = unsafe { register.insert(NonNull::from(object)) };
    object.beside.store(1, Ordering::Relaxed);
    register.remove(entry);
    set(object, 2);
}

fn object() -> Object {
    Object {
        cell: UnsafeCell::new(0),
        beside: AtomicUsize::new(0),
    }
}

#[test]
fn a_removal_waits_for_the_report() {
    loom::model(|| {
        let register = Arc::new(Registry::new());
        let objects = Arc::clone(&register);
        let owner = thread::spawn(move || live(&objects, &object()));
        assert!(look(&register) <= 2);
        owner.join().expect("no panic");
        assert_eq!(look(&register), 0);
    });
}

#[test]
fn a_slot_is_used_again_while_a_report_looks() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(|| {
        let register = Arc::new(Registry::new());
        let objects = Arc::clone(&register);
        let owner = thread::spawn(move || {
            live(&objects, &object());
            live(&objects, &object());
        });
        live(&register, &object());
        assert!(look(&register) <= 4);
        owner.join().expect("no panic");
    });
}
