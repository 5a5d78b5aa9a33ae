//! The request for a copy of a stack, under loom: the thread that asks, and handlers on other threads.
#![cfg(warpweft_loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use warpweft_platform::stack_copy::request::{Request, Withdrawn};

/// A request with its buffer, whose accesses loom checks.
struct Slot {
    request: Request,
    buffer: UnsafeCell<[u32; 2]>,
}

impl Slot {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            request: Request::new(),
            buffer: UnsafeCell::new([0; 2]),
        })
    }

    /// What a signal does on `thread`.
    fn signal(&self, thread: u32) -> bool {
        if !self.request.begin(thread) {
            return false;
        }
        self.buffer.with_mut(|buffer| {
            // SAFETY: the buffer is the handler's between begin and end; loom sees whether that holds.
            unsafe { *buffer = [thread, 10 * thread] };
        });
        self.request.end();
        true
    }

    /// Reads the copy that is there, and gives the buffer back.
    fn take(&self) -> [u32; 2] {
        // SAFETY: the buffer is the asking thread's while the request is done; loom sees whether that holds.
        let copy = self.buffer.with(|buffer| unsafe { *buffer });
        self.request.release();
        copy
    }
}

#[test]
fn an_answer_is_whole_or_withdrawn() {
    loom::model(|| {
        let slot = Slot::new();
        assert!(slot.request.ask(7));
        let its = Arc::clone(&slot);
        let handler = thread::spawn(move || its.signal(7));
        let withdrawn = if slot.request.is_done() {
            Withdrawn::Done
        } else {
            slot.request.withdraw(7)
        };
        if withdrawn == Withdrawn::Done {
            assert_eq!(slot.take(), [7, 70]);
        }
        let began = handler.join().expect("no panic");
        assert_eq!(began, withdrawn != Withdrawn::Unanswered);
        // Whatever came of it, the request is free again.
        assert!(slot.request.ask(8));
        assert!(slot.signal(8) && slot.request.is_done());
        assert_eq!(slot.take(), [8, 80]);
    });
}

/// A signal of a request that was withdrawn comes while the next one is made for another thread.
#[test]
fn a_late_signal_takes_no_other_request() {
    loom::model(|| {
        let slot = Slot::new();
        assert!(slot.request.ask(1));
        let its = Arc::clone(&slot);
        let late = thread::spawn(move || its.signal(1));
        if slot.request.withdraw(1) == Withdrawn::Done {
            assert_eq!(slot.take(), [1, 10]);
        }
        if slot.request.ask(2) {
            let its = Arc::clone(&slot);
            let other = thread::spawn(move || its.signal(2));
            if slot.request.withdraw(2) == Withdrawn::Done {
                assert_eq!(slot.take(), [2, 20]);
            }
            other.join().expect("no panic");
        }
        late.join().expect("no panic");
    });
}

/// Two signals arrive on a thread, one after the other, and two threads want the request.
#[test]
fn two_who_ask_are_given_one_buffer_each_in_turn() {
    loom::model(|| {
        let slot = Slot::new();
        let its = Arc::clone(&slot);
        let asks = move |slot: &Slot, thread| {
            if !slot.request.ask(thread) {
                return;
            }
            // The handler runs on another thread as a rule; here it runs at once.
            assert!(slot.signal(thread) && !slot.signal(thread));
            assert!(slot.request.is_done());
            assert_eq!(slot.take(), [thread, 10 * thread]);
        };
        let other = thread::spawn(move || asks(&its, 3));
        asks(&slot, 4);
        other.join().expect("no panic");
    });
}
