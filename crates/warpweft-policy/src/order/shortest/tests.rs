//! The order of short and long kinds, on a pool without threads whose clock the test sets.

mod turns;

use super::{BETWEEN_LOOKS, LEVELS, PATIENCE, SAMPLE, least_of, level_of};
use crate::order::step_times::KEPT_NS;
use crate::testing::Pool;
use crate::{Cx, Policy, Shortest, Why, WorkerId};
use std::num::NonZeroUsize;
use warpweft_queue::Amount;
use warpweft_task::JoinHandle;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// How long a step of a task with a handle takes here; one without takes a microsecond.
const LONG: u64 = 20 * MS;

/// A pool whose tasks with a handle are the long ones.
struct Kinds {
    pool: Pool<Shortest>,
    handles: Vec<JoinHandle<()>>,
}

impl Kinds {
    fn new(workers: usize) -> Self {
        Self {
            pool: Pool::new(&Shortest::new(), workers),
            handles: Vec::new(),
        }
    }

    /// As [`new`](Self::new), and both kinds are known.
    fn known(workers: usize) -> Self {
        let mut kinds = Self::new(workers);
        kinds.push_long(0, 0);
        kinds.pool.spawn(0, [1]);
        assert_eq!(
            (kinds.step(0), kinds.step(0), kinds.step(0)),
            (Some(0), Some(1), None)
        );
        kinds
    }

    fn push_long(&mut self, worker: usize, number: usize) {
        let (task, handle) = self.pool.probe.cancellable(number);
        self.handles.push(handle);
        let _ = self.pool.push(worker, task, Why::Spawned);
    }

    fn queued(&mut self, worker: usize) -> usize {
        let queued = |shared: &_, _: &mut _, _: &Cx<'_>| Shortest::queued(shared, WorkerId(worker));
        self.pool.call(worker, queued).expect("it is there")
    }

    /// Runs short tasks until the worker has looked at the clock, and the look itself.
    fn run_short(&mut self, worker: usize) {
        for _ in 0..BETWEEN_LOOKS {
            self.pool.spawn(worker, [1]);
            assert_eq!(self.step(worker), Some(1));
        }
        assert_eq!(self.step_by(worker, Shortest::poll_global), None);
    }

    /// Runs the next task of the first worker, which takes one of these times. Returns true if it was a
    /// short one.
    fn run(&mut self, short_ns: u64, long_ns: u64) -> bool {
        let task = self.pool.call(0, Shortest::next).expect("one is ready");
        let is_short = task.code() == self.pool.probe.task(0).code();
        self.pass(if is_short { short_ns } else { long_ns });
        self.pool.end(0, task);
        is_short
    }

    fn pass(&self, ns: u64) {
        self.pool.now.set(self.pool.now.get() + ns);
    }

    /// Runs the next task. Time passes while it runs.
    fn step(&mut self, worker: usize) -> Option<usize> {
        self.step_by(worker, Shortest::next)
    }

    fn step_by(
        &mut self,
        worker: usize,
        hook: fn(
            &<Shortest as Policy>::Shared,
            &mut <Shortest as Policy>::Local,
            &Cx<'_>,
        ) -> Option<crate::TaskRef>,
    ) -> Option<usize> {
        let task = self.pool.call(worker, hook)?;
        let short = task.code() == self.pool.probe.task(0).code();
        self.pass(if short { US } else { LONG });
        Some(self.pool.end(worker, task))
    }
}

#[test]
fn a_level_is_what_the_times_on_it_say() {
    let levels = [0, 31 * US, 33 * US, 500 * US, 600 * US, 8 * MS, 9 * MS, u64::MAX].map(level_of);
    assert_eq!(levels, [0, 0, 1, 1, 2, 2, 3, 3]);
    for level in 1..LEVELS {
        assert_eq!(level_of(least_of(level)), level);
        assert_eq!(level_of(least_of(level) - 1), level - 1);
    }
}

#[test]
fn what_was_learned_to_be_long_waits_for_short_ones_also_with_thieves() {
    let mut kinds = Kinds::known(2);
    kinds.push_long(0, 2);
    kinds.push_long(0, 3);
    kinds.pool.spawn(0, [4, 5, 6]);
    assert_eq!(kinds.step(0), Some(4));
    assert_eq!(kinds.step_by(1, Shortest::scan), Some(5));
    let rest: Vec<_> = std::iter::from_fn(|| kinds.step(0)).collect();
    assert_eq!(rest, [6, 2, 3]);
}

/// Long tasks that were pushed before that was known, and one from outside.
#[test]
fn what_turns_out_to_be_long_goes_behind() {
    let mut kinds = Kinds::new(1);
    kinds.push_long(0, 0);
    kinds.push_long(0, 2);
    kinds.pool.spawn(0, [1, 3]);
    let (task, handle) = kinds.pool.probe.cancellable(4);
    kinds.handles.push(handle);
    let _ = kinds.pool.push_from_outside(task);
    assert_eq!([kinds.step(0), kinds.step(0)], [Some(0), Some(1)]);
    assert_eq!(
        kinds.step_by(0, Shortest::poll_global),
        Some(3),
        "and not the one from outside"
    );
    assert_eq!(
        [kinds.step(0), kinds.step(0), kinds.step(0)],
        [Some(2), Some(4), None]
    );
}

/// All of them are on the first level when the first one is over.
#[test]
fn many_tasks_that_turn_out_to_be_long_take_no_stack() {
    let mut kinds = Kinds::new(1);
    for _ in 0..100_000 {
        kinds.push_long(0, 0);
    }
    kinds.pool.spawn(0, [1]);
    assert_eq!(
        [kinds.step(0), kinds.step(0), kinds.step(0)],
        [Some(0), Some(1), Some(0)]
    );
    kinds.pool.end_all();
}

#[test]
fn an_unknown_kind_counts_as_short() {
    let mut kinds = Kinds::new(1);
    kinds.push_long(0, 0);
    kinds.pool.spawn(0, [1]);
    kinds.push_long(0, 2);
    assert_eq!(
        [kinds.step(0), kinds.step(0), kinds.step(0)],
        [Some(0), Some(1), Some(2)]
    );
}

/// Short tasks without end, and long ones that wait: those have a tenth of the time.
#[test]
fn long_ones_have_turns_by_time() {
    let mut kinds = Kinds::known(1);
    for number in 2..6 {
        kinds.push_long(0, number);
    }
    let (start, mut turns) = (kinds.pool.now.get(), Vec::new());
    kinds.pool.spawn(0, [1]);
    while turns.len() < 4 {
        let begin = kinds.pool.now.get();
        match kinds.step(0) {
            Some(1) => kinds.pool.spawn(0, [1]),
            Some(long) => turns.push((long, begin - start)),
            None => panic!("something is ready"),
        }
        assert!(begin - start < 4 * (PATIENCE + 1) * LONG, "{turns:?}");
    }
    let numbers: Vec<_> = turns.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [2, 3, 4, 5]);
    let slack = u64::from(2 * SAMPLE) * US;
    let first = turns[0].1;
    assert!(first.abs_diff(least_of(3) * PATIENCE) <= slack, "{turns:?}");
    for pair in turns.windows(2) {
        let between = pair[1].1 - pair[0].1;
        assert!(between.abs_diff((PATIENCE + 1) * LONG) <= slack, "{turns:?}");
    }
    kinds.pool.end_all();
}

#[test]
fn after_a_rest_no_long_task_is_due() {
    let mut kinds = Kinds::known(1);
    kinds.push_long(0, 2);
    assert_eq!((kinds.step(0), kinds.step(0)), (Some(2), None));
    kinds.pass(100 * LONG);
    kinds.push_long(0, 3);
    for _ in 0..=SAMPLE {
        kinds.pool.spawn(0, [1]);
        assert_eq!(kinds.step(0), Some(1));
    }
    assert_eq!(kinds.step(0), Some(3));
}

/// Tasks of some milliseconds without end, and one that takes longer.
#[test]
fn the_longest_have_turns_also_beside_long_ones() {
    let mut kinds = Kinds::new(1);
    kinds.push_long(0, 0);
    kinds.pool.spawn(0, [1]);
    assert_eq!((kinds.run(5 * MS, LONG), kinds.run(5 * MS, LONG)), (false, true));
    kinds.push_long(0, 2);
    let start = kinds.pool.now.get();
    let waited = loop {
        kinds.pool.spawn(0, [1]);
        let begin = kinds.pool.now.get() - start;
        if !kinds.run(5 * MS, LONG) {
            break begin;
        }
        assert!(begin < 1000 * MS, "it starves");
    };
    assert!(waited <= least_of(3) * PATIENCE + 10 * MS, "{waited}");
    kinds.pool.end_all();
}

#[test]
fn nothing_is_learned_until_some_task_may_have_been_long() {
    let mut kinds = Kinds::new(1);
    // The time before the first look is not known.
    kinds.run_short(0);
    kinds.run_short(0);
    // Not measured.
    kinds.push_long(0, 2);
    assert_eq!(kinds.step(0), Some(2));
    kinds.push_long(0, 3);
    kinds.pool.spawn(0, [4]);
    assert_eq!([kinds.step(0), kinds.step(0)], [Some(3), Some(4)]);
    // The look shows that a task was long, but not which one.
    kinds.run_short(0);
    for order in [[5, 6], [6, 5]] {
        kinds.push_long(0, 5);
        kinds.pool.spawn(0, [6]);
        assert_eq!([kinds.step(0), kinds.step(0)], order.map(Some));
    }
}

#[test]
fn a_second_after_the_last_long_task_they_are_in_turn_again() {
    let mut kinds = Kinds::known(2);
    kinds.run_short(0);
    kinds.push_long(0, 2);
    kinds.pass(KEPT_NS);
    // One waits on a level: so the worker still sorts.
    let mut short = 0;
    while kinds.queued(0) > 0 {
        assert_eq!(kinds.step_by(0, Shortest::poll_global), None);
        kinds.pool.spawn(0, [1]);
        if kinds.step(0) == Some(2) {
            break;
        }
        short += 1;
        kinds.pass(MS);
    }
    assert!(short > 1, "it waits for its turn");
    while kinds.step(0).is_some() {}
    kinds.pass(KEPT_NS);
    kinds.pool.end_all();
    kinds.run_short(0);
    kinds.run_short(0);
    kinds.push_long(0, 3);
    kinds.pool.spawn(0, [4]);
    assert_eq!([kinds.step(0), kinds.step(0)], [Some(3), Some(4)]);
}

/// A thief that learns nothing at the time takes a task from a level on which it never looks.
#[test]
fn a_thief_knows_what_it_has_stolen() {
    let mut kinds = Kinds::known(2);
    kinds.run_short(1);
    kinds.pass(KEPT_NS);
    kinds.run_short(1);
    kinds.run_short(1);
    for number in 2..6 {
        kinds.push_long(0, number);
    }
    // The victim passes them over, and puts them on their level.
    kinds.pool.spawn(0, [1]);
    assert_eq!(kinds.step(0), Some(1));
    let mut stolen = vec![kinds.step_by(1, Shortest::search)];
    assert!(kinds.queued(1) > 0, "more than one was stolen");
    while kinds.queued(1) > 0 {
        let task = kinds.step(1);
        assert!(task.is_some(), "one is there");
        stolen.push(task);
    }
    assert_eq!(stolen[..2], [Some(2), Some(3)]);
    kinds.pool.end_all();
}

/// The victim keeps a short task, which is too few for the thief.
#[test]
fn a_thief_that_wants_many_takes_long_ones() {
    let policy = Shortest::new().steal(Amount::AtLeast(NonZeroUsize::MIN.saturating_add(9)));
    let mut kinds = Kinds {
        pool: Pool::new(&policy, 2),
        handles: Vec::new(),
    };
    kinds.push_long(0, 0);
    assert_eq!((kinds.step(0), kinds.step(0)), (Some(0), None));
    for _ in 0..20 {
        kinds.push_long(0, 2);
    }
    kinds.pool.spawn(0, [1]);
    assert_eq!(kinds.step_by(1, Shortest::search), Some(2));
    kinds.pool.end_all();
}

#[test]
fn idle_time_is_no_time_of_a_task() {
    let mut kinds = Kinds::known(1);
    // Few short steps are measured.
    for _ in 0..1000 {
        kinds.pool.spawn(0, [1]);
        assert_eq!((kinds.step(0), kinds.step(0)), (Some(1), None));
        kinds.pass(1000 * MS);
    }
    kinds.push_long(0, 2);
    kinds.pool.spawn(0, [3]);
    assert_eq!((kinds.step(0), kinds.step(0)), (Some(3), Some(2)));
}

/// A long task that comes from outside is not charged to the task before it.
#[test]
fn a_task_that_was_found_elsewhere_is_measured_by_itself() {
    let mut kinds = Kinds::new(1);
    for _ in 0..100 {
        let (task, handle) = kinds.pool.probe.cancellable(0);
        kinds.handles.push(handle);
        let _ = kinds.pool.push_from_outside(task);
        kinds.pool.spawn(0, [1]);
        let steps = [kinds.step(0), kinds.step_by(0, Shortest::poll_global)];
        assert_eq!(steps, [Some(1), Some(0)]);
    }
    kinds.push_long(0, 2);
    kinds.pool.spawn(0, [3]);
    assert_eq!((kinds.step(0), kinds.step(0)), (Some(3), Some(2)));
}

#[test]
fn a_clone_has_learned_nothing() {
    let policy = Shortest::new();
    let pool = |policy: &Shortest| Kinds {
        pool: Pool::new(policy, 1),
        handles: Vec::new(),
    };
    let mut first = pool(&policy);
    first.push_long(0, 0);
    assert_eq!((first.step(0), first.step(0)), (Some(0), None));
    for (policy, order) in [(policy.clone(), [2, 3]), (policy, [3, 2])] {
        let mut kinds = pool(&policy);
        kinds.push_long(0, 2);
        kinds.pool.spawn(0, [3]);
        assert_eq!([kinds.step(0), kinds.step(0)], order.map(Some));
    }
}
