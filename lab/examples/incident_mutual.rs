//! The halves of a join wait for each other.
//!
//! On rayon the second half runs at the latest when the first one has ended: with one worker, or when all
//! others are busy, the first half waits for ever. On Warpweft a half that waits as a task should, with
//! `block_on`, gives its worker away, and the second half with it. (A wait that only the operating system
//! sees, such as that of a channel of the standard library, would hang there as well.)

mod support;

use std::future;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::mpsc;
use std::task::{Poll, Waker};

use support::{Answer, rayon_pool, warpweft_runtime};

/// How often the halves talk.
const ROUNDS: u64 = 100;

fn main() -> ExitCode {
    support::main(on_rayon, on_warpweft)
}

/// The program on rayon.
pub(crate) fn on_rayon(workers: usize) -> Answer {
    let pool = rayon_pool(workers);
    answer((0..ROUNDS).map(|round| {
        let (to_second, from_first) = mpsc::channel();
        let (to_first, from_second) = mpsc::channel();
        pool.install(|| {
            rayon::join(
                move || {
                    to_second.send(round).expect("the other half waits");
                    from_second.recv().expect("the other half sends")
                },
                move || {
                    to_first.send(round).expect("the other half waits");
                    from_first.recv().expect("the other half sends")
                },
            )
        })
    }))
}

/// The program on Warpweft.
pub(crate) fn on_warpweft(workers: usize) -> Answer {
    let runtime = warpweft_runtime(workers);
    answer((0..ROUNDS).map(|round| {
        let (first, second) = (Slot::default(), Slot::default());
        let halves = runtime.install(|cx| {
            cx.join(
                |_| {
                    second.put(round);
                    first.take()
                },
                |_| {
                    first.put(round);
                    second.take()
                },
            )
        });
        halves.expect("the runtime is open")
    }))
}

fn answer(rounds: impl Iterator<Item = (u64, u64)>) -> Answer {
    let right = rounds
        .zip(0..)
        .filter(|(halves, round)| *halves == (*round, *round))
        .count();
    assert_eq!(right as u64, ROUNDS);
    Ok(format!("{ROUNDS} joins"))
}

/// A place for one number, and for the thread that waits for it.
#[derive(Default)]
struct Slot(Mutex<(Option<u64>, Option<Waker>)>);

impl Slot {
    fn put(&self, number: u64) {
        let waker = {
            let mut inside = self.0.lock().expect("nobody panics");
            inside.0 = Some(number);
            inside.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits, and gives the worker away meanwhile.
    fn take(&self) -> u64 {
        warpweft::block_on(future::poll_fn(|context| {
            let mut inside = self.0.lock().expect("nobody panics");
            match inside.0.take() {
                Some(number) => Poll::Ready(number),
                None => {
                    inside.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }
}
