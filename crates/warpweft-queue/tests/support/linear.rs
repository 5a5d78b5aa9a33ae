//! Decides whether a recorded history is linearizable.
//!
//! A history is a set of calls with the times of their beginning and end. It is linearizable if each call can
//! be given one moment between the two so that the calls, done one after the other at those moments, get the
//! same results from a sequential object: the [`Spec`].
//!
//! ```text
//!   thread 0   |--- push 1 ---|      |--- pop -> 2 ---|        not a FIFO: push 1 ended before push 2 began,
//!   thread 1                    |- push 2 -|                   and no call took 1 before 2
//! ```
//!
//! The checker is that of Wing and Gong with Lowe's memory of dead ends (G. Lowe, *Testing for
//! linearizability*, 2017). It searches depth first over the calls that may come next, and never twice from
//! the same set of done calls and the same state. The problem is NP-complete: keep histories short.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "outside the checkers the system's own threads and locks are what is tested against"
)]

use std::collections::HashSet;
use std::fmt::{self, Debug};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A sequential object that decides which results are right.
pub trait Spec: Clone + Eq + Hash {
    /// A call with its arguments.
    type Op: Debug;
    /// What it returned.
    type Ret: Debug;

    /// Returns true if `op`, done now, may return `ret`; if so, the state becomes the one after it.
    fn step(&mut self, op: &Self::Op, ret: &Self::Ret) -> bool;
}

/// One complete call.
pub struct Call<O, R> {
    pub thread: usize,
    pub op: O,
    pub ret: R,
    /// A tick of the recorder's clock, as is `end`.
    pub begin: u64,
    pub end: u64,
}

impl<O: Debug, R: Debug> Debug for Call<O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, ret, .. } = self;
        write!(
            f,
            "thread {}  [{:>4}, {:>4}]  {op:?} -> {ret:?}",
            self.thread, self.begin, self.end
        )
    }
}

/// A history for which there is no order.
pub struct NotLinearizable(String);

impl Debug for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no order exists; the longest:{}", self.0)
    }
}

/// Returns an order of the calls, as indices into `calls`, in which `spec` gives the recorded results. If
/// there is none, the error shows the history with the longest order found. Panics if it has more than 64
/// calls.
pub fn linearize<S: Spec>(spec: S, calls: &[Call<S::Op, S::Ret>]) -> Result<Vec<usize>, NotLinearizable> {
    assert!(calls.len() <= 64, "{} are too many", calls.len());
    let mut search = Search {
        calls,
        dead_ends: HashSet::new(),
        order: Vec::new(),
        states: vec![spec],
        longest: Vec::new(),
    };
    if search.extend(0) {
        return Ok(search.order);
    }
    let mut by_begin: Vec<_> = calls.iter().enumerate().collect();
    by_begin.sort_by_key(|(_, call)| call.begin);
    let lines = by_begin.into_iter().map(|(i, call)| {
        let place = search.longest.iter().position(|&j| j == i);
        let place = place.map_or_else(|| "-".to_owned(), |place| place.to_string());
        format!("\n{place:>4}  {call:?}")
    });
    Err(NotLinearizable(lines.collect()))
}

struct Search<'a, S: Spec> {
    calls: &'a [Call<S::Op, S::Ret>],
    dead_ends: HashSet<(u64, S)>,
    order: Vec<usize>,
    /// Before the first call of `order`, and after each.
    states: Vec<S>,
    longest: Vec<usize>,
}

impl<S: Spec> Search<'_, S> {
    /// Returns true if the calls that are not in the set `done` can follow.
    fn extend(&mut self, done: u64) -> bool {
        if self.order.len() > self.longest.len() {
            self.longest.clone_from(&self.order);
        }
        let calls = self.calls;
        let rest = || (0..calls.len()).filter(|i| done & (1 << i) == 0);
        // A call may come next if no other one that is left ended before it began.
        let Some(first_end) = rest().map(|i| calls[i].end).min() else {
            return true;
        };
        for i in rest().filter(|&i| calls[i].begin <= first_end) {
            let mut next = self.states[self.order.len()].clone();
            if !next.step(&calls[i].op, &calls[i].ret) {
                continue;
            }
            let dead_end = (done | 1 << i, next);
            if self.dead_ends.contains(&dead_end) {
                continue;
            }
            self.states.push(dead_end.1.clone());
            self.order.push(i);
            if self.extend(dead_end.0) {
                return true;
            }
            self.order.pop();
            self.states.pop();
            self.dead_ends.insert(dead_end);
        }
        false
    }
}

/// What one thread did.
pub struct Log<'a, O, R> {
    clock: &'a AtomicU64,
    thread: usize,
    dice: u64,
    calls: Vec<Call<O, R>>,
}

impl<O, R> Log<'_, O, R> {
    /// Does `op` by `run` and records when it began, when it ended and what it returned.
    pub fn call(&mut self, op: O, run: impl FnOnce() -> R) {
        self.dawdle();
        let begin = self.clock.fetch_add(1, Ordering::SeqCst);
        let ret = run();
        let end = self.clock.fetch_add(1, Ordering::SeqCst);
        self.calls.push(Call {
            thread: self.thread,
            op,
            ret,
            begin,
            end,
        });
    }

    fn dawdle(&mut self) {
        self.dice = self
            .dice
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(self.thread as u64 + 1);
        match self.dice >> 56 {
            0..8 => std::thread::yield_now(),
            spins => (0..spins & 63).for_each(|_| std::hint::spin_loop()),
        }
    }
}

/// The calls of one thread in a history.
pub type Part<'a, O, R> = Box<dyn FnOnce(&mut Log<'_, O, R>) + Send + 'a>;

/// Runs each part in its own thread, all released at the same moment, and returns the recorded calls. `seed`
/// varies the short delays between the calls of a thread. Panics if a part does.
pub fn record<O: Send, R: Send>(seed: u64, parts: Vec<Part<'_, O, R>>) -> Vec<Call<O, R>> {
    let clock = AtomicU64::new(0);
    let missing = AtomicUsize::new(parts.len());
    let (clock, missing) = (&clock, &missing);
    std::thread::scope(|scope| {
        let run = |(thread, part): (usize, Part<'_, O, R>)| {
            let mut log = Log {
                clock,
                thread,
                dice: seed ^ (thread as u64) << 40,
                calls: Vec::new(),
            };
            missing.fetch_sub(1, Ordering::SeqCst);
            while missing.load(Ordering::SeqCst) > 0 {
                std::thread::yield_now();
            }
            part(&mut log);
            log.calls
        };
        let threads: Vec<_> = parts
            .into_iter()
            .enumerate()
            .map(|part| scope.spawn(move || run(part)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a part panicked"))
            .collect()
    })
}
