//! A report that looks at what it finds in a queue, while others take it out and free it, under every
//! interleaving: what it looks at is there, and all is freed in the end.
#![cfg(warpweft_loom)]

use std::num::NonZeroUsize;
use warpweft_platform::atomic::{AtomicBool, AtomicUsize, Ordering};
use warpweft_platform::cell::UnsafeCell;
use warpweft_platform::loom;
use warpweft_platform::loom::thread;
use warpweft_platform::sync::Arc;
use warpweft_queue::{Fifo, Owner, Slot, Thief};
use warpweft_task::Reclamation;

/// Its cell is written when it is freed: loom reports a report that looks at it then, or later.
struct Thing {
    cell: UnsafeCell<usize>,
    freed: AtomicUsize,
}

// SAFETY: that the accesses to the cell are ordered is what the models show.
unsafe impl Sync for Thing {}
// SAFETY: as above.
unsafe impl Send for Thing {}

/// A thing that has ended. Its memory outlives the execution, so that loom can report a late look.
struct Ended(NonZeroUsize);

fn thing(word: NonZeroUsize) -> &'static Thing {
    // SAFETY: the word is from `element`, which leaks what it made.
    unsafe { &*std::ptr::with_exposed_provenance::<Thing>(word.get()) }
}

fn element() -> NonZeroUsize {
    let thing = Box::leak(Box::new(Thing {
        cell: UnsafeCell::new(0),
        freed: AtomicUsize::new(0),
    }));
    set(thing, 1);
    NonZeroUsize::new(std::ptr::from_ref(thing).expose_provenance()).expect("an address is not 0")
}

fn set(thing: &Thing, value: usize) {
    // SAFETY: loom checks that no other thread looks at the cell.
    thing.cell.with_mut(|cell| unsafe { *cell = value });
}

impl Drop for Ended {
    fn drop(&mut self) {
        set(thing(self.0), 2);
        thing(self.0).freed.fetch_add(1, Ordering::Relaxed);
    }
}

type Things = Arc<Reclamation<Ended>>;

fn free(things: &Things, word: NonZeroUsize) {
    if things.is_held() {
        things.leave(Ended(word));
    } else {
        drop(Ended(word));
    }
}

/// Looks at what a queue shows.
fn report(things: &Things, peek: impl FnOnce(&mut dyn FnMut(NonZeroUsize))) {
    let hold = things.hold().expect("the checker has barriers");
    let mut seen = Vec::new();
    peek(&mut |word| seen.push(word));
    for word in seen {
        // SAFETY: as above.
        let value = thing(word).cell.with(|cell| unsafe { *cell });
        assert_eq!(value, 1, "it is looked at before it is freed");
    }
    drop(hold);
}

fn report_on(things: &Things, thief: &impl Thief<NonZeroUsize>) {
    report(things, |see| thief.peek(usize::MAX, &mut |peek| see(peek.word())));
}

fn is_freed_once(word: NonZeroUsize) {
    assert_eq!(thing(word).freed.load(Ordering::Relaxed), 1);
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(model);
}

#[test]
fn what_a_report_finds_is_there() {
    explore(|| {
        let things = Things::new(Reclamation::new());
        let mut queue = Fifo::with_capacity(2).expect("a small capacity");
        let words = [element(), element()];
        words
            .iter()
            .for_each(|&word| queue.push(word).expect("there is room"));
        let reporter = {
            let (things, thief) = (Arc::clone(&things), queue.thief());
            thread::spawn(move || report_on(&things, &thief))
        };
        while let Some(word) = queue.pop() {
            free(&things, word);
        }
        reporter.join().expect("the report panicked");
        words.into_iter().for_each(is_freed_once);
    });
}

/// One thread takes the element out, and another one frees it.
#[test]
fn the_thread_that_frees_need_not_be_the_one_that_takes() {
    explore(|| {
        let things = Things::new(Reclamation::new());
        let slot = Arc::new(Slot::new());
        let word = element();
        assert_eq!(slot.swap(word), None);
        let is_ended = Arc::new(AtomicBool::new(false));
        let reporter = {
            let (things, slot) = (Arc::clone(&things), Arc::clone(&slot));
            thread::spawn(move || {
                report(&things, |see| slot.peek(&mut |peek| see(peek.word())));
            })
        };
        let taker = {
            let (slot, is_ended) = (Arc::clone(&slot), Arc::clone(&is_ended));
            thread::spawn(move || {
                assert_eq!(slot.take(), Some(word));
                is_ended.store(true, Ordering::Release);
            })
        };
        let is_freed = is_ended.load(Ordering::Acquire);
        if is_freed {
            free(&things, word);
        }
        reporter.join().expect("the report panicked");
        taker.join().expect("the taker panicked");
        assert_eq!(thing(word).freed.load(Ordering::Relaxed), usize::from(is_freed));
    });
}

#[test]
fn the_last_of_two_reports_frees() {
    explore(|| {
        let things = Things::new(Reclamation::new());
        let mut queue = Fifo::with_capacity(2).expect("a small capacity");
        let word = element();
        queue.push(word).expect("there is room");
        let reporter = |things: &Things, thief| {
            let things = Arc::clone(things);
            thread::spawn(move || report_on(&things, &thief))
        };
        let first = reporter(&things, queue.thief());
        let second = reporter(&things, queue.thief());
        free(&things, queue.pop().expect("nobody else takes it"));
        for report in [first, second] {
            report.join().expect("a report panicked");
        }
        is_freed_once(word);
    });
}
