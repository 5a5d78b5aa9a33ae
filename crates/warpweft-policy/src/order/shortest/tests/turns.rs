//! What long kinds have of the time, and in which order they come.

use super::{Kinds, LONG, MS, US};
use crate::order::shortest::{PATIENCE, least_of};
use crate::order::step_times::KEPT_NS;
use crate::{Count, Cx, Policy, Shortest};

/// What short tasks without end, and this number of long ones, have of the time, in nanoseconds.
fn shares(kinds: &mut Kinds, short_ns: u64, long_ns: u64, longs: usize) -> [u64; 2] {
    let (mut shares, mut ran) = ([0, 0], 0);
    kinds.pool.spawn(0, [1]);
    while ran < longs {
        let is_short = kinds.run(short_ns, long_ns);
        if is_short {
            shares[0] += short_ns;
            kinds.pool.spawn(0, [1]);
        } else {
            shares[1] += long_ns;
            ran += 1;
        }
    }
    shares
}

/// The share of long tasks, in percent, where they wait on a level for other lengths than they have.
#[test]
fn long_ones_have_a_tenth_also_if_they_become_shorter_or_longer() {
    for (before_ns, long_ns) in [(LONG, 5 * MS), (100 * US, LONG)] {
        let mut kinds = Kinds::new(1);
        kinds.push_long(0, 0);
        assert!(!kinds.run(US, before_ns));
        for _ in 0..60 {
            kinds.push_long(0, 2);
        }
        let [short, long] = shares(&mut kinds, 20 * US, long_ns, 60);
        let share = 100 * long / (short + long);
        assert!(
            (8..=11).contains(&share),
            "{share} %: {before_ns}, then {long_ns}"
        );
        kinds.pool.end_all();
    }
}

#[test]
fn long_ones_have_a_tenth_also_beside_tasks_that_are_hardly_shorter() {
    for short_ns in [US, 10 * US, 30 * US] {
        let mut kinds = Kinds::new(1);
        kinds.push_long(0, 0);
        assert!(!kinds.run(short_ns, 40 * US));
        for _ in 0..200 {
            kinds.push_long(0, 2);
        }
        let [short, long] = shares(&mut kinds, short_ns, 40 * US, 200);
        let share = 100 * long / (short + long);
        assert!((8..=15).contains(&share), "{share} % beside {short_ns} ns");
        kinds.pool.end_all();
    }
}

/// As where a process is stopped in a step, or takes that long in its first one; also if a fiber ran behind
/// it.
#[test]
fn one_step_of_a_minute_holds_the_next_ones_up_for_seconds() {
    for (first_ns, fibers) in [(LONG, 0), (60_000 * MS, 1)] {
        let mut kinds = Kinds::new(1);
        kinds.push_long(0, 2);
        kinds.run(US, first_ns);
        kinds.push_long(0, 2);
        kinds.push_long(0, 2);
        kinds.pool.spawn(0, [1]);
        while kinds.run(30 * US, 60_000 * MS) {
            kinds.pool.spawn(0, [1]);
        }
        kinds.pool.counters.add(Count::FiberTurns, fibers);
        let start = kinds.pool.now.get();
        while kinds.run(30 * US, LONG) {
            kinds.pool.spawn(0, [1]);
        }
        assert!(kinds.pool.now.get() - start <= 10 * KEPT_NS);
        kinds.pool.end_all();
    }
}

/// Each is spawned when the one before it has ended, so their level is empty in between.
#[test]
fn long_ones_have_a_tenth_also_if_they_come_one_by_one() {
    let mut kinds = Kinds::known(1);
    let mut time = [0, 0];
    for _ in 0..40 {
        kinds.push_long(0, 2);
        let [short, long] = shares(&mut kinds, 20 * US, LONG, 1);
        time = [time[0] + short, time[1] + long];
        while kinds.queued(0) > 0 {
            kinds.run(20 * US, LONG);
        }
        assert_eq!(kinds.step(0), None);
    }
    let share = 100 * time[1] / (time[0] + time[1]);
    assert!((8..=11).contains(&share), "{share} %");
}

#[test]
fn a_full_level_leaves_room_for_short_ones_from_outside() {
    let taken = [0, 255].map(|longs| {
        let mut kinds = Kinds::known(1);
        for _ in 0..longs {
            kinds.push_long(0, 2);
        }
        kinds.pool.spawn(0, [1]);
        assert_eq!(kinds.step(0), Some(1));
        for _ in 0..1000 {
            let task = kinds.pool.task(3, 0);
            let _ = kinds.pool.push_from_outside(task);
        }
        assert_eq!(kinds.step_by(0, Shortest::poll_global), Some(3));
        let queued = |shared: &_, _: &mut _, _: &Cx<'_>| Shortest::queued_shared(shared);
        let left = kinds.pool.call(0, queued);
        kinds.pool.end_all();
        left
    });
    assert_eq!(taken[0], taken[1]);
}

#[test]
fn what_is_drained_comes_back_in_its_order() {
    let mut kinds = Kinds::known(1);
    kinds.push_long(0, 10);
    kinds.push_long(0, 11);
    kinds.pool.spawn(0, [1]);
    assert_eq!(kinds.step(0), Some(1));
    kinds.push_long(0, 12);
    let none = kinds.pool.call(0, |shared: &_, local: &mut _, cx: &Cx<'_>| {
        Shortest::extract(shared, local, &|_| false, cx)
    });
    assert!(none.is_empty());
    let order: Vec<_> = std::iter::from_fn(|| kinds.step(0)).collect();
    assert_eq!(order, [10, 11, 12]);
}

#[test]
fn a_long_task_from_behind_a_stuck_worker_waits_for_short_ones() {
    let mut kinds = Kinds::known(2);
    kinds.push_long(0, 2);
    kinds.push_long(0, 3);
    kinds.pool.spawn(0, [1]);
    assert_eq!(kinds.step(0), Some(1));
    kinds.pool.spawn(1, [5, 6, 7]);
    assert_eq!(kinds.step_by(1, Shortest::steal_from_stuck), Some(5));
    kinds.pool.end_all();
}

/// A short task that waits for the long ones, yielding over and over.
#[test]
fn what_only_yields_goes_behind_long_ones() {
    let mut kinds = Kinds::known(1);
    for _ in 0..4 {
        kinds.push_long(0, 2);
    }
    kinds.pool.spawn(0, [1]);
    let (mut steps, mut longs) = (0, 0);
    while longs < 4 {
        assert!(steps < 300, "they wait for turns by time");
        steps += 1;
        if kinds.run(US, LONG) {
            kinds.pool.counters.add(Count::Yields, 1);
            // Fibers take their turns in between.
            kinds.pool.counters.add(Count::FiberTurns, 1);
            kinds.pool.spawn(0, [1]);
        } else {
            longs += 1;
        }
        if steps % 61 == 0 {
            assert_eq!(kinds.step_by(0, Shortest::poll_global), None);
        }
    }
    kinds.pool.end_all();
}

/// Two kinds that take turns: the long one is never at a multiple of a power of two.
#[test]
fn kinds_that_take_turns_are_both_measured() {
    let mut kinds = Kinds::new(1);
    let mut long_ns = US;
    for round in 0..4000 {
        if round == 500 {
            long_ns = LONG;
        }
        kinds.push_long(0, 2);
        kinds.pool.spawn(0, [1]);
        kinds.run(US, long_ns);
        kinds.run(US, long_ns);
    }
    kinds.push_long(0, 2);
    kinds.pool.spawn(0, [1]);
    assert!(kinds.run(US, long_ns), "the short one is first");
    kinds.pool.end_all();
}

/// A step of a kind prepares what all others use. They come one by one; short tasks are always there.
#[test]
fn a_kind_whose_first_step_was_long_waits_for_it_once() {
    let mut kinds = Kinds::new(1);
    kinds.push_long(0, 2);
    assert!(!kinds.run(US, LONG), "the first one");
    let waited = [1, 100].map(|longs| {
        let start = kinds.pool.now.get();
        for _ in 0..longs {
            kinds.push_long(0, 2);
            shares(&mut kinds, US, US, 1);
            while kinds.queued(0) > 0 {
                kinds.run(US, US);
            }
        }
        kinds.pool.now.get() - start
    });
    assert!(waited[0] >= least_of(3) * PATIENCE, "{waited:?}");
    assert!(waited[1] < 10 * MS, "{waited:?}");
}

/// A fiber or a task that is bound to the worker runs between two looks into the queue, and takes long.
#[test]
fn what_comes_from_no_queue_is_charged_to_no_task() {
    for between in [Count::FiberTurns, Count::Ran] {
        let mut kinds = Kinds::known(1);
        // One step in 61 is measured.
        for _ in 0..1000 {
            kinds.pool.spawn(0, [1]);
            assert_eq!(kinds.step(0), Some(1));
            kinds.pool.counters.add(between, 1);
            kinds.pass(LONG);
        }
        kinds.push_long(0, 2);
        kinds.pool.spawn(0, [1]);
        assert_eq!((kinds.step(0), kinds.step(0)), (Some(1), Some(2)), "{between:?}");
    }
}

/// Many looks into an empty queue, and then long tasks beside short ones.
#[test]
fn a_worker_that_ran_nothing_does_not_only_yield() {
    let mut kinds = Kinds::known(1);
    // Nothing ran between the last two looks.
    for _ in 0..2 {
        (0..20).for_each(|_| assert_eq!(kinds.step(0), None));
        assert_eq!(kinds.step_by(0, Shortest::poll_global), None);
    }
    kinds.push_long(0, 2);
    for step in 1..300 {
        kinds.pool.spawn(0, [1]);
        assert!(kinds.run(US, LONG), "step {step}");
    }
    kinds.pool.end_all();
}

/// A fiber runs behind each step, for a tenth of a second behind long ones.
#[test]
fn a_level_waits_for_its_own_time_and_not_for_that_of_fibers() {
    let mut kinds = Kinds::known(1);
    for _ in 0..4 {
        kinds.push_long(0, 2);
    }
    kinds.pool.spawn(0, [1]);
    let (mut turns, mut steps) = (0, 0);
    while turns < 4 {
        steps += 1;
        assert!(steps < 4 * 10 * 20_000 / 30, "turns by time");
        if kinds.run(30 * US, LONG) {
            kinds.pool.spawn(0, [1]);
        } else {
            turns += 1;
            kinds.pool.counters.add(Count::FiberTurns, 1);
            kinds.pass(100 * MS);
        }
    }
    kinds.pool.end_all();
}
