//! Tests of the linearizability checker: it accepts correct histories and rejects others.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod support;

use std::collections::VecDeque;
use std::sync::Mutex;
use support::linear::{Call, Part, Spec, linearize, record};

#[derive(Clone, Copy, Debug)]
enum Op {
    Push(u32),
    Pop,
    Write(u32),
    Read,
}
use Op::{Pop, Push, Read, Write};

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Fifo(VecDeque<u32>);

impl Spec for Fifo {
    type Op = Op;
    type Ret = Option<u32>;

    fn step(&mut self, op: &Op, ret: &Option<u32>) -> bool {
        match op {
            Push(x) => {
                self.0.push_back(*x);
                ret.is_none()
            }
            Pop => self.0.pop_front() == *ret,
            _ => unreachable!("a FIFO"),
        }
    }
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Register(u32);

impl Spec for Register {
    type Op = Op;
    type Ret = Option<u32>;

    fn step(&mut self, op: &Op, ret: &Option<u32>) -> bool {
        match op {
            Write(x) => self.0 = *x,
            Read => return Some(self.0) == *ret,
            _ => unreachable!("a register"),
        }
        true
    }
}

/// Calls as (begin, end, op, result).
fn ok<S: Spec<Op = Op, Ret = Option<u32>> + Default>(calls: &[(u64, u64, Op, Option<u32>)]) -> bool {
    let calls: Vec<_> = calls
        .iter()
        .map(|&(begin, end, op, ret)| Call {
            thread: 0,
            op,
            ret,
            begin,
            end,
        })
        .collect();
    linearize(S::default(), &calls).is_ok()
}

#[test]
fn one_after_the_other() {
    assert!(ok::<Fifo>(&[]));
    assert!(ok::<Fifo>(&[
        (0, 1, Push(1), None),
        (2, 3, Push(2), None),
        (4, 5, Pop, Some(1)),
        (6, 7, Pop, Some(2))
    ]));
    assert!(ok::<Register>(&[
        (0, 1, Read, Some(0)),
        (2, 3, Write(1), None),
        (4, 5, Read, Some(1))
    ]));
}

#[test]
fn overlapping_calls_take_effect_in_either_order() {
    let pushes = [(0, 9, Push(1), None), (1, 8, Push(2), None)];
    assert!(ok::<Fifo>(&[
        pushes[0],
        pushes[1],
        (10, 11, Pop, Some(1)),
        (12, 13, Pop, Some(2))
    ]));
    assert!(ok::<Fifo>(&[
        pushes[0],
        pushes[1],
        (10, 11, Pop, Some(2)),
        (12, 13, Pop, Some(1))
    ]));
    assert!(ok::<Fifo>(&[
        (0, 9, Pop, None),
        (1, 2, Push(1), None),
        (3, 4, Pop, Some(1))
    ]));
}

#[test]
fn a_stale_read() {
    assert!(!ok::<Register>(&[(0, 1, Write(1), None), (2, 3, Read, Some(0))]));
    // Two readers that see two writes in opposite orders.
    let writes = [(0, 9, Write(1), None), (1, 8, Write(2), None)];
    let one = [(10, 11, Read, Some(1)), (12, 13, Read, Some(2))];
    assert!(!ok::<Register>(&[writes[0], writes[1], one[0], one[1]]));
}

#[test]
fn a_reordered_fifo() {
    assert!(!ok::<Fifo>(&[
        (0, 1, Push(1), None),
        (2, 3, Push(2), None),
        (4, 5, Pop, Some(2))
    ]));
}

#[test]
fn a_lost_element() {
    assert!(!ok::<Fifo>(&[(0, 1, Push(1), None), (2, 3, Pop, None)]));
    // Twice "empty" while an element was there all the time: the result of a stale roll-back of a ticket.
    let pops = [(0, 9, Pop, None), (4, 5, Pop, None), (10, 11, Pop, Some(1))];
    assert!(!ok::<Fifo>(&[(2, 3, Push(1), None), pops[0], pops[1], pops[2]]));
}

#[test]
fn a_duplicate() {
    assert!(!ok::<Fifo>(&[
        (0, 1, Push(1), None),
        (2, 5, Pop, Some(1)),
        (3, 4, Pop, Some(1))
    ]));
}

#[test]
fn an_element_from_nowhere() {
    assert!(!ok::<Fifo>(&[(0, 1, Pop, Some(7))]));
}

#[test]
fn the_report_shows_every_call_and_the_longest_order() {
    let call = |begin, op, ret| Call {
        thread: 0,
        op,
        ret,
        begin,
        end: begin + 1,
    };
    let calls = [call(0, Push(1), None), call(2, Pop, None)];
    let report = format!("{:?}", linearize(Fifo::default(), &calls).unwrap_err());
    assert!(
        report.contains("   0  thread 0  [   0,    1]  Push(1) -> None"),
        "{report}"
    );
    assert!(
        report.contains("   -  thread 0  [   2,    3]  Pop -> None"),
        "{report}"
    );
}

#[test]
fn a_locked_queue_is_linearizable_and_one_that_loses_is_not() {
    let run = |seed, loses: bool| {
        let queue = Mutex::new(VecDeque::new());
        let part = |first: u32| -> Part<'_, Op, Option<u32>> {
            let queue = &queue;
            Box::new(move |log| {
                for x in first..first + 4 {
                    log.call(Push(x), || {
                        if !(loses && x == 12) {
                            queue.lock().unwrap().push_back(x);
                        }
                        None
                    });
                    log.call(Pop, || queue.lock().unwrap().pop_front());
                }
            })
        };
        linearize(Fifo::default(), &record(seed, vec![part(0), part(10), part(20)]))
    };
    for seed in 0..200 {
        run(seed, false).unwrap();
        run(seed, true).unwrap_err();
    }
}
