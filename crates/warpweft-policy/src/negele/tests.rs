//! Priorities, nodes and bounds, by hooks called one after the other.

use crate::testing::{Pool, next_step};
use crate::{Count, Negele, NegeleLocal, Policy, PoolEnv, Wake, priority};
use warpweft_task::Why;
use warpweft_task::test_tasks::number;

/// The word of a task with the priority `number - 1`; 0 is none.
fn given(number: u64) -> u64 {
    let priority = u8::try_from(number).expect("a small number").checked_sub(1);
    priority.map_or(0, priority::word)
}

#[test]
fn the_most_urgent_first_and_in_turn() {
    let mut pool = Pool::new(&Negele::new(), 1);
    // 0 is no priority: normal, as is 2.
    for (number, priority) in [(0, 4), (1, 3), (2, 0), (3, 1), (4, 2), (5, 1), (6, 0), (7, 255)] {
        let task = pool.task(number, given(priority));
        let _ = pool.push(0, task, Why::Spawned);
    }
    assert_eq!(pool.all(0), [3, 5, 2, 4, 6, 1, 0, 7]);
}

#[test]
fn only_idle_tasks_of_workers_wake_nobody() {
    let mut pool = Pool::new(&Negele::new(), 2);
    for (priority, wake) in [(0, Wake::Any), (1, Wake::Any), (3, Wake::Any), (4, Wake::None)] {
        let task = pool.task(0, given(priority));
        assert_eq!(pool.push(0, task, Why::Woken), wake, "{priority}");
        let task = pool.task(1, given(priority));
        assert_eq!(pool.push_from_outside(task), Wake::Any, "{priority}");
        assert_eq!(pool.all(1), [0, 1]);
    }
}

#[test]
fn who_stands_down_leaves_what_all_share_where_it_is() {
    let mut pool = Pool::new(&Negele::new(), 2);
    for number in 0..3 {
        let task = pool.task(number, given(2));
        let _ = pool.push(0, task, Why::Spawned);
    }
    assert!(pool.call(0, Negele::drain).is_none());
    assert_eq!(pool.all(1), [0, 1, 2]);

    let mut pool = Pool::new(&NegeleLocal::new(), 2);
    for number in 0..3 {
        let task = pool.task(number, given(2));
        let _ = pool.push(0, task, Why::Spawned);
    }
    assert!(pool.call(1, NegeleLocal::drain).is_none());
    let left = std::iter::from_fn(|| pool.call(0, NegeleLocal::drain));
    assert_eq!(
        left.filter_map(|task| number(&task)).collect::<Vec<_>>(),
        [0, 1, 2]
    );
}

#[test]
fn a_priority_stays_with_its_task_and_so_does_its_node() {
    let mut pool = Pool::new(&Negele::new(), 1);
    for number in 0..3 {
        let task = pool.task(number, given(1));
        let _ = pool.push(0, task, Why::Spawned);
    }
    for _ in 0..100 {
        let task = pool.call(0, Negele::next).expect("three wander");
        assert_eq!(priority::of(task.policy_word()), Some(0));
        let _ = pool.push(0, task, Why::Yielded);
    }
    // Three tasks, four queues; no other thread could read a node.
    assert_eq!(pool.shared.nodes.made(), 3 + 4);
    assert_eq!(pool.counters.get(Count::Nodes), 3, "without those of the queues");
    assert_eq!(pool.all(0).len(), 3);
    for number in 0..3 {
        let task = pool.task(number, given(1));
        let _ = pool.push(0, task, Why::Spawned);
    }
    assert_eq!(
        pool.shared.nodes.made(),
        3 + 4,
        "those that ended gave theirs back"
    );
    assert_eq!(pool.all(0).len(), 3);
}

#[test]
fn impossible_levels_are_errors_that_say_what_is_possible() {
    for levels in [0, 1, 33, 1 << 40] {
        let error = Negele::new()
            .levels(levels)
            .build(&PoolEnv::new(1))
            .expect_err("an error");
        assert!(error.to_string().contains("2 to 32"), "{error}");
        let error = NegeleLocal::new().levels(levels).build(&PoolEnv::new(1)).err();
        assert!(error.is_some());
        assert_eq!(Negele::new().levels(levels).priorities(), 0);
    }
    let error = NegeleLocal::new()
        .balance(0)
        .build(&PoolEnv::new(1))
        .expect_err("an error");
    assert!(error.to_string().contains("from 1 on"), "{error}");
}

#[test]
fn balancing_brings_what_is_more_urgent() {
    let mut pool = Pool::new(&NegeleLocal::new().balance(2), 2);
    for number in 0..100 {
        let task = pool.task(number, given(3));
        let _ = pool.push(0, task, Why::Spawned);
    }
    let urgent = pool.task(100, given(1));
    let _ = pool.push(1, urgent, Why::Spawned);
    let less = pool.task(101, given(4));
    let _ = pool.push(1, less, Why::Spawned);
    let order = pool.all(0);
    let place = order.iter().position(|&number| number == 100);
    assert!(place.is_some_and(|place| place < 60), "{order:?}");
    // It is the least urgent, so it comes when nothing else is left.
    assert_eq!(order.last(), Some(&101));
}

/// Whatever more urgent tasks do, one of each level runs within the stated bound. More urgent tasks that
/// yield keep the worker busy forever.
fn keeps_its_bound<P: Policy>(policy: &P, bound: impl Fn(usize) -> u64) {
    let levels = u64::from(policy.priorities());
    for priority in 0..=levels {
        for ahead in [0, 1, 5] {
            for from_outside in [false, true] {
                let mut pool = Pool::new(policy, 1);
                let busy = 3 * levels as usize;
                for number in 0..busy {
                    let task = pool.task(number, given(number as u64 % levels + 1));
                    let _ = pool.push(0, task, Why::Spawned);
                }
                for number in busy..=busy + ahead {
                    let task = pool.task(number, given(priority));
                    let _ = if from_outside {
                        pool.push_from_outside(task)
                    } else {
                        pool.push(0, task, Why::Spawned)
                    };
                }
                // Of the busy ones three are in its level.
                let limit = bound(ahead + 3);
                let ran = (1..=limit).find(|&step| {
                    let task = next_step(&mut pool, 0, step).expect("there is always work");
                    let number = number(&task).expect("a task of the probe");
                    if number < busy {
                        let _ = pool.push(0, task, Why::Yielded);
                    } else {
                        pool.end(0, task);
                    }
                    number == busy + ahead
                });
                assert!(
                    ran.is_some(),
                    "priority {priority}, {ahead} ahead, from outside: {from_outside}"
                );
                while let Some(task) = pool.call(0, P::scan) {
                    pool.end(0, task);
                }
            }
        }
    }
}

#[test]
fn every_level_has_its_turn() {
    for levels in [2, 4, 7] {
        let negele = Negele::new().levels(levels);
        keeps_its_bound(&negele, |ahead| negele.steps(ahead));
        let local = NegeleLocal::new().levels(levels);
        keeps_its_bound(&local, |ahead| local.steps(ahead));
    }
}
