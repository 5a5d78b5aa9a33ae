//! The kit rejects policies with priorities that forget them somewhere, or follow nothing else.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use warpweft_conformance::{
    Duty, Verdict, extracts_are_honest, nothing_lost, nothing_starves, scan_is_exhaustive, shares_are_kept,
    urgent_comes_first, wakes_are_honest,
};
use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why, priority};
use warpweft_queue::Locked;

const LEVELS: usize = 3;

/// A queue for each level.
type Levels = [Locked<TaskRef>; LEVELS];

fn put(levels: &Levels, task: TaskRef) {
    levels[priority::level(task.policy_word(), LEVELS)].push(task);
}

fn take(levels: &Levels, turn: usize) -> Option<TaskRef> {
    let (before, rest) = levels.split_at(turn % LEVELS);
    rest.iter().chain(before).find_map(Locked::pop)
}

/// The mistake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// Tasks from outside go into one queue, which workers poll only in `poll_global`.
    OutsideIsOne,
    /// The same for what yielded.
    YieldedIsOne,
    /// The most urgent task goes first, always.
    Strict,
    /// `extract` takes all of the first level.
    ExtractsAll,
    /// It promises shares, and has turns instead: the same number of tasks of each level.
    TurnsAsShares,
}

/// Levels that all workers share, and one queue without levels.
struct Shared {
    fault: Fault,
    levels: Levels,
    one: Locked<TaskRef>,
}

struct Ranks(Fault);

impl Policy for Ranks {
    type Shared = Shared;
    /// The place whose turn it is in `poll_global`.
    type Local = usize;

    fn priorities(&self) -> u8 {
        LEVELS as u8
    }
    fn shares(&self) -> Vec<u8> {
        match self.0 {
            Fault::TurnsAsShares => vec![34, 33, 33],
            _ => Vec::new(),
        }
    }
    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<usize>), PolicyError> {
        let shared = Shared {
            fault: self.0,
            levels: Levels::default(),
            one: Locked::new(),
        };
        Ok((shared, vec![0; env.workers]))
    }
    fn push(shared: &Shared, turn: Option<&mut usize>, task: TaskRef, why: Why, _: &Cx<'_>) -> Wake {
        let to_one = match shared.fault {
            Fault::OutsideIsOne => turn.is_none(),
            Fault::YieldedIsOne => why == Why::Yielded,
            Fault::Nothing | Fault::Strict | Fault::ExtractsAll | Fault::TurnsAsShares => false,
        };
        if to_one {
            shared.one.push(task);
        } else {
            put(&shared.levels, task);
        }
        Wake::Any
    }
    fn next(shared: &Shared, turn: &mut usize, _: &Cx<'_>) -> Option<TaskRef> {
        if shared.fault == Fault::TurnsAsShares {
            *turn = turn.wrapping_add(1);
            return take(&shared.levels, *turn);
        }
        take(&shared.levels, 0)
    }
    fn poll_global(shared: &Shared, turn: &mut usize, _: &Cx<'_>) -> Option<TaskRef> {
        if shared.fault == Fault::Strict {
            return None;
        }
        *turn = turn.wrapping_add(1);
        let levels = || take(&shared.levels, *turn / 2);
        if turn.is_multiple_of(2) {
            shared.one.pop().or_else(levels)
        } else {
            levels().or_else(|| shared.one.pop())
        }
    }
    fn extract(
        shared: &Shared,
        _: &mut usize,
        wanted: &dyn Fn(&TaskRef) -> bool,
        _: &Cx<'_>,
    ) -> Vec<TaskRef> {
        let mut tasks = Vec::new();
        let all = shared.fault == Fault::ExtractsAll;
        shared.levels[0].extract(&mut tasks, |task| all || wanted(task));
        tasks
    }
    fn scan(shared: &Shared, _: &mut usize, _: &Cx<'_>) -> Option<TaskRef> {
        take(&shared.levels, 0).or_else(|| shared.one.pop())
    }
}

/// The check must find this duty broken, with this in its message.
#[track_caller]
fn rejects(verdict: Verdict, duty: Duty, message: &str) {
    let violation = verdict.expect_err("the kit accepted a broken policy");
    assert_eq!(violation.duty(), duty, "{violation}");
    assert!(violation.how().contains(message), "{violation}");
}

/// All else is correct.
#[track_caller]
fn is_else_sound(policy: &Ranks) {
    for verdict in [
        nothing_lost("Ranks", policy),
        scan_is_exhaustive("Ranks", policy),
        wakes_are_honest("Ranks", policy),
    ] {
        verdict.expect("it has one fault only");
    }
}

#[test]
fn a_policy_without_a_fault_is_accepted() {
    let policy = Ranks(Fault::Nothing);
    is_else_sound(&policy);
    urgent_comes_first("Ranks", &policy).unwrap();
    nothing_starves("Ranks", &policy).unwrap();
}

#[test]
fn a_policy_that_forgets_the_priority_of_what_comes_from_outside_is_rejected() {
    let policy = Ranks(Fault::OutsideIsOne);
    let message = "priority 0 that was pushed from outside as Injected had not run after 61 steps";
    rejects(urgent_comes_first("Ranks", &policy), Duty::UrgentFirst, message);
    is_else_sound(&policy);
    nothing_starves("Ranks", &policy).unwrap();
}

#[test]
fn a_policy_that_forgets_the_priority_of_what_gives_way_is_rejected() {
    let policy = Ranks(Fault::YieldedIsOne);
    let message = "priority 0 that was pushed by worker 0 as Yielded had not run after 61 steps";
    rejects(urgent_comes_first("Ranks", &policy), Duty::UrgentFirst, message);
    is_else_sound(&policy);
}

#[test]
fn a_policy_that_is_strict_for_ever_is_rejected() {
    let policy = Ranks(Fault::Strict);
    urgent_comes_first("Ranks", &policy).unwrap();
    rejects(
        nothing_starves("Ranks", &policy),
        Duty::NothingStarves,
        "with the lowest priority",
    );
    is_else_sound(&policy);
}

/// Its levels have equal turns, but their tasks do not take equally long.
#[test]
fn a_policy_that_counts_tasks_instead_of_time_is_rejected() {
    let policy = Ranks(Fault::TurnsAsShares);
    rejects(
        shares_are_kept("Ranks", &policy),
        Duty::SharesKept,
        "and its share is 34 %",
    );
    is_else_sound(&policy);
    nothing_starves("Ranks", &policy).unwrap();
    shares_are_kept("Ranks", &Ranks(Fault::Nothing)).unwrap();
}

#[test]
fn a_policy_that_extracts_what_nobody_wants_is_rejected() {
    let policy = Ranks(Fault::ExtractsAll);
    rejects(
        extracts_are_honest("Ranks", &policy),
        Duty::HonestExtract,
        "which was not wanted",
    );
    is_else_sound(&policy);
    extracts_are_honest("Ranks", &Ranks(Fault::Nothing)).unwrap();
}
