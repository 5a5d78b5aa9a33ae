//! The server's side: tasks that answer, and sorts.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::idioms::forks::{Branch, Fork};
use crate::idioms::mixed::{Mixed, Wire};
use crate::kit::task_recorder::TaskRecorder;
use crate::workloads::fork_join::sorts::{Quicksort, checksum, numbers};

use super::clients::{BYTES, Message, note};

/// The numbers that are sorted, again and again. They live as long as the process.
#[derive(Clone, Copy)]
pub(super) struct Input {
    numbers: &'static [u64],
    checksum: u64,
}

/// A list of `n` numbers.
pub(super) fn input(n: usize) -> Input {
    let numbers = numbers(n);
    Input {
        checksum: checksum(&numbers),
        numbers: Box::leak(numbers.into_boxed_slice()),
    }
}

/// Sorts the input, and says whether that is what came of it.
pub(super) struct Sort(pub(super) Input);

impl Branch for Sort {
    type Out = bool;

    fn run<F: Fork>(self, cx: F) -> bool {
        let mut range = self.0.numbers.to_vec();
        Quicksort(&mut range).run(cx);
        range.is_sorted() && checksum(&range) == self.0.checksum
    }
}

/// Sorts that continue until they are told to stop.
pub(super) struct Load {
    input: Input,
    stop: AtomicBool,
    sorted: AtomicU64,
    wrong: AtomicU64,
    /// Chains that have ended.
    ended: AtomicU64,
}

impl Load {
    /// None is under way yet. It lives as long as the process.
    pub(super) fn leaked(input: Input) -> &'static Self {
        Box::leak(Box::new(Self {
            input,
            stop: AtomicBool::new(false),
            sorted: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }))
    }

    /// Sorts so far.
    pub(super) fn sorted(&self) -> u64 {
        // Relaxed: a count, read while others add to it.
        self.sorted.load(Ordering::Relaxed)
    }

    /// Sorts that went wrong, when all chains have ended.
    pub(super) fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    /// No further sort begins.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Chains that have ended. What they counted is visible to the caller.
    pub(super) fn ended(&self) -> u64 {
        // Acquire, partner of the release in `Chain::run`.
        self.ended.load(Ordering::Acquire)
    }
}

/// A sort, which starts the next one when it has ended.
pub(super) struct Chain<M> {
    pub(super) api: M,
    pub(super) load: &'static Load,
}

impl<M: Mixed> Branch for Chain<M> {
    type Out = ();

    fn run<F: Fork>(self, cx: F) {
        let Self { api, load } = self;
        let right = Sort(load.input).run(cx);
        load.wrong.fetch_add(u64::from(!right), Ordering::Relaxed);
        load.sorted.fetch_add(1, Ordering::Relaxed);
        if load.stop.load(Ordering::Relaxed) {
            // Release, partner of the acquire in `ended`.
            load.ended.fetch_add(1, Ordering::Release);
        } else {
            api.compute(Chain { api, load });
        }
    }
}

/// The work of a task of the server between reading and writing.
#[derive(Clone, Copy)]
pub(super) enum Between {
    /// It notes how long ago what it read was sent, in the recorder of its phase.
    Record(&'static [&'static TaskRecorder]),
    /// It sorts.
    Sort(Input),
}

/// Answers a connection's messages until the client closes it. An answer is its question; one that is wrong
/// within is not given, which the client will find.
pub(super) async fn answer<M: Mixed>(api: M, stream: TcpStream, between: Between) {
    let Ok(mut wire) = api.wire(stream) else { return };
    let mut bytes = [0; BYTES];
    while wire.read_exact(&mut bytes).await.is_ok() {
        match between {
            Between::Record(recorders) => {
                let message = Message::from_bytes(&bytes);
                note(recorders, message, message.sent);
            }
            Between::Sort(input) => {
                if !api.computed(Sort(input)).await {
                    return;
                }
            }
        }
        if wire.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One branch after the other.
    struct Calls;

    impl Fork for Calls {
        fn join<A: Branch, B: Branch>(&mut self, a: A, b: B) -> (A::Out, B::Out) {
            (a.run(Calls), b.run(Calls))
        }
    }

    #[test]
    fn a_sort_that_loses_a_number_is_found() {
        for n in [1, 2, 1025, 5000] {
            let right = input(n);
            assert!(Sort(right).run(Calls));
            let checksum = right.checksum.wrapping_add(1);
            assert!(!Sort(Input { checksum, ..right }).run(Calls));
        }
    }
}
