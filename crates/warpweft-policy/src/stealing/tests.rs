//! The bound that every policy of the family keeps, whatever its order.

use super::axes::PLACES;
use super::{Fifo, FifoBehind, LifoBehind, Overflow, Rebalance, StealAmount, Stealing, Victims, Woken};
use crate::YieldTo;
use crate::order::{
    BehindOrder, ChainOrder, FifoOrder, LifoOrder, Mix, MixedOrder, Order, PriorityOrder, SlotOrder,
};
use crate::testing::{Busy, Pool, keeps_its_bound, next_step};
use crate::{Lifo, Policy as _, priority};
use proptest::prelude::*;
use std::num::NonZeroUsize;
use warpweft_task::test_tasks::number;
use warpweft_task::{TaskRef, Why};

fn n(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("not 0")
}

/// The behaviour of the busy tasks, their number, and the axes that decide where tasks wait.
type Case = (Busy, usize, bool, bool, usize, Option<usize>);

fn case() -> impl Strategy<Value = Case> {
    let busy = prop_oneof![Just(Busy::Yield), Just(Busy::Wake)];
    let level = proptest::option::of(1..20usize);
    (busy, 1..30usize, any::<bool>(), any::<bool>(), 1..40usize, level)
}

fn check_bound<O: Order>(order: O, (busy, most, global, last, capacity, level): Case) {
    let policy = Stealing::with_order(order)
        .yield_to(if global { YieldTo::Global } else { YieldTo::Local })
        .woken(if last { Woken::Last } else { Woken::Waker })
        .steal(StealAmount::Adaptive)
        .victims(Victims::Adaptive)
        .rebalance(level.map_or(Rebalance::Off, |looks| Rebalance::Every(n(looks))))
        .capacity(capacity);
    keeps_its_bound(&policy, busy, most, false, |others, workers| {
        policy.steps(others, workers)
    });
}

fn mixed(mix: Mix) -> MixedOrder {
    MixedOrder::new(mix).expect("possible")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_plain_orders(case in case()) {
        check_bound(FifoOrder, case);
        check_bound(ChainOrder, case);
        check_bound(LifoOrder, case);
        check_bound(BehindOrder::new(FifoOrder), case);
        check_bound(BehindOrder::new(LifoOrder), case);
    }

    #[test]
    fn what_learns(case in case(), every in 1..100usize) {
        check_bound(mixed(Mix::Adaptive(n(every))), case);
    }

    #[test]
    fn the_mixed_orders(case in case(), every in 1..300usize, percent in 1..=99u8) {
        check_bound(mixed(Mix::Alternate(n(every))), case);
        check_bound(mixed(Mix::Stochastic(percent)), case);
        check_bound(mixed(Mix::Reverse(n(every))), case);
    }

    #[test]
    fn slots_and_levels(case in case(), limit in 1..600usize, levels in 1..8usize) {
        check_bound(SlotOrder::new(FifoOrder, n(limit)), case);
        check_bound(PriorityOrder::new(FifoOrder, n(levels)), case);
        check_bound(BehindOrder::new(SlotOrder::new(LifoOrder, n(limit))), case);
        check_bound(PriorityOrder::new(SlotOrder::new(LifoOrder, n(limit)), n(levels)), case);
    }
}

#[test]
fn a_steal_from_a_stuck_worker_takes_half_of_little_and_one_of_much() {
    let mut pool = Pool::new(&Fifo::new(), 2);
    pool.spawn(0, 0..10);
    pool.spawn(1, 10..12);
    assert_eq!(pool.run(1, Fifo::steal_from_stuck), Some(0));
    assert_eq!(pool.all(1), [10, 11, 1, 2, 3, 4]);
    pool.spawn(0, 10..1000);
    assert_eq!(pool.run(1, Fifo::steal_from_stuck), Some(5));
    assert_eq!(pool.all(1), [], "the order of the others stays as it is");
    assert_eq!(pool.run(0, Fifo::next), Some(6));
    pool.end_all();
    let mut pool = Pool::new(&Lifo::new(), 2);
    pool.spawn(0, 0..1000);
    assert_eq!(pool.run(1, Lifo::steal_from_stuck), Some(0));
    assert_eq!(pool.all(1), []);
    pool.end_all();
}

#[test]
fn what_is_buried_has_its_turn_beside_what_comes_from_outside() {
    let mut pool = Pool::new(&Lifo::new(), 1);
    pool.spawn(0, 0..10);
    // A turn takes all that is there, so there is one more before each.
    let poll_global = (10..10 + PLACES).filter_map(|number| {
        let _ = pool.push_from_outside(pool.task(number, 0));
        pool.run(0, Lifo::poll_global)
    });
    let first = poll_global.collect::<Vec<_>>();
    assert!(first.contains(&0), "the oldest of its own: {first:?}");
    assert!(first.contains(&10), "the oldest from outside: {first:?}");
    pool.end_all();
}

/// Behind tasks that never end, one at a time would take an interval for each.
#[test]
fn what_comes_from_outside_is_taken_in_shares_also_beside_own_tasks() {
    let mut pool = Pool::new(&Fifo::new(), 2);
    pool.spawn(0, 0..4);
    for number in 100..121 {
        let _ = pool.push_from_outside(pool.task(number, 0));
    }
    assert_eq!(pool.run(0, Fifo::poll_global), Some(100));
    let own: Vec<_> = (0..4).chain(101..111).collect();
    assert_eq!(pool.all(0), own, "the other half is left to the other worker");
    assert_eq!(pool.run(1, Fifo::poll_global), Some(111));
    pool.end_all();
}

#[test]
fn what_found_no_room_does_not_come_back_one_by_one() {
    const GIVES_WAY: usize = 1000;
    for overflow in [Overflow::Locked, Overflow::LockFree, Overflow::Multi(n(3))] {
        let mut pool = Pool::new(&Fifo::new().capacity(64).overflow(overflow), 1);
        pool.spawn(0, 0..64);
        for _ in 0..40 {
            assert!(pool.run(0, Fifo::next).is_some());
        }
        pool.spawn(0, [GIVES_WAY]);
        pool.spawn(0, 64..GIVES_WAY);
        let (mut left, mut steps) = (24 + GIVES_WAY - 64, 0);
        while left > 0 {
            steps += 1;
            let task = next_step(&mut pool, 0, steps).expect("there is always one that gives way");
            if number(&task) == Some(GIVES_WAY) {
                let _ = pool.push(0, task, Why::Yielded);
            } else {
                pool.end(0, task);
                left -= 1;
            }
        }
        assert!(steps < 6000, "{steps} steps for {GIVES_WAY} tasks, {overflow}");
        pool.end_all();
    }
}

/// Tasks 0 to 9 yield, as often as they are asked. Task 10 is woken behind them.
#[test]
fn a_woken_task_does_not_wait_for_those_that_yield() {
    let mut pool = Pool::new(&FifoBehind::new(), 2);
    for number in 0..10 {
        let task = pool.task(number, 0);
        let _ = pool.push(0, task, Why::Yielded);
    }
    let woken = pool.task(10, 0);
    let _ = pool.push(0, woken, Why::Woken);
    pool.spawn(0, [11]);
    assert_eq!(pool.run(0, FifoBehind::next), Some(10));
    assert_eq!(pool.run(0, FifoBehind::next), Some(11));
    assert_eq!(
        pool.run(0, FifoBehind::next),
        Some(0),
        "the oldest of those that yielded"
    );
    // A thief takes what others wait for first, and then half of the rest.
    pool.spawn(0, [12]);
    assert_eq!(pool.run(1, FifoBehind::scan), Some(12));
    assert_eq!(pool.run(1, FifoBehind::scan), Some(1));
    let stolen = std::iter::from_fn(|| pool.run(1, FifoBehind::search)).next();
    assert_eq!(stolen, Some(2));
    assert_eq!(pool.all(1), [3, 4, 5]);
    assert_eq!(pool.all(0), [6, 7, 8, 9]);
    pool.end_all();
}

/// The other queue never becomes empty, and of its tasks some are passed over, too.
#[test]
fn those_that_yield_have_turns_beside_others_without_end() {
    let mut pool = Pool::new(&LifoBehind::new(), 1);
    for number in 0..3 {
        let task = pool.task(number, 0);
        let _ = pool.push(0, task, Why::Yielded);
    }
    pool.spawn(0, 10..20);
    let turns: Vec<_> = (0..6)
        .filter_map(|_| pool.run(0, LifoBehind::poll_global))
        .collect();
    assert_eq!(turns, [10, 0, 11, 1, 12, 2]);
    assert!(!pool.call(0, |shared, own, _| LifoBehind::is_only_ready(shared, own)));
    pool.end_all();
}

#[test]
fn a_task_that_yields_alone_is_seen() {
    let mut pool = Pool::new(&FifoBehind::new(), 1);
    let task = pool.task(0, 0);
    let _ = pool.push(0, task, Why::Yielded);
    assert!(!pool.call(0, |shared, own, _| FifoBehind::is_only_ready(shared, own)));
    assert_eq!(pool.run(0, FifoBehind::next), Some(0));
    assert!(pool.call(0, |shared, own, _| FifoBehind::is_only_ready(shared, own)));
}

#[test]
fn tasks_that_yielded_are_evicted_and_drained() {
    let mut pool = Pool::new(&FifoBehind::new().capacity(2), 1);
    for number in 0..8 {
        let task = pool.task(number, 0);
        let _ = pool.push(0, task, Why::Yielded);
    }
    let even = |task: &TaskRef| number(task).is_some_and(|number| number % 2 == 0);
    let extracted = pool.call(0, |shared, own, cx| FifoBehind::extract(shared, own, &even, cx));
    let numbers: Vec<_> = extracted.iter().filter_map(number).collect();
    assert_eq!(numbers, [0, 2, 4, 6]);
    for task in extracted {
        pool.end(0, task);
    }
    assert_eq!(pool.run(0, FifoBehind::drain), Some(1));
    assert_eq!(pool.all(0), [3, 5, 7]);
    pool.end_all();
}

#[test]
fn the_bound_is_what_is_said() {
    assert_eq!(Fifo::new().steps(0, 1), 732);
    assert_eq!(Fifo::new().steps(9, 2), 7_320);
    // Four queues for tasks that yielded; then eight affine queues, which are more.
    assert_eq!(Fifo::new().steps(0, 8), 4 * 732);
    assert_eq!(Fifo::new().woken(Woken::Last).steps(0, 8), 8 * 732);
    assert_eq!(
        Stealing::with_order(PriorityOrder::new(FifoOrder, n(3))).steps(0, 1),
        3 * 732
    );
    assert_eq!(FifoBehind::new().steps(0, 1), 2 * 732);
    let slot = SlotOrder::new(FifoOrder, n(3));
    assert_eq!(
        Stealing::with_order(PriorityOrder::new(slot, n(3))).steps(0, 1),
        12 * 732
    );
}

#[test]
fn an_urgent_task_does_not_wait_for_its_worker() {
    let policy = Stealing::with_order(PriorityOrder::new(FifoOrder, n(3))).woken(Woken::Last);
    let mut pool = Pool::new(&policy, 2);
    let sleeper = |pool: &mut Pool<_>, number, level| {
        let mut task = pool.task(number, priority::word(level));
        pool.call(1, |shared, own, cx| {
            Stealing::suspended(shared, own, task.waiting(), cx);
        });
        task
    };
    // Worker 1, where they ran last, is in a long task. Worker 0 has a normal task.
    let (urgent, normal) = (sleeper(&mut pool, 0, 0), sleeper(&mut pool, 1, 1));
    pool.spawn(0, [2]);
    let _ = pool.push(0, normal, Why::Woken);
    let _ = pool.push(0, urgent, Why::Woken);
    assert_eq!(pool.run(0, Stealing::next), Some(0));
    assert_eq!(pool.run(0, Stealing::next), Some(2));
    // A task that is not more urgent is left to worker 1, also by a worker that has nothing.
    assert_eq!(pool.run(0, Stealing::next), None);
    assert_eq!(pool.run(1, Stealing::next), Some(1));
    assert!((0..2).all(|worker| pool.call(worker, |shared, own, _| Stealing::is_only_ready(shared, own))));
}

#[test]
fn what_is_more_urgent_than_normal_comes_one_at_a_time() {
    let policy = Stealing::with_order(PriorityOrder::new(FifoOrder, n(3)));
    let mut pool = Pool::new(&policy, 2);
    for (level, numbers) in [(0, 0..4), (1, 4..12)] {
        for number in numbers {
            let _ = pool.push_from_outside(pool.task(number, priority::word(level)));
        }
    }
    let next = |pool: &mut Pool<_>, worker| {
        let next = pool.run(worker, Stealing::next);
        next.or_else(|| pool.run(worker, Stealing::poll_global))
    };
    for (worker, number) in [(0, 0), (1, 1), (0, 2), (1, 3), (0, 4), (1, 8)] {
        assert_eq!(next(&mut pool, worker), Some(number));
    }
    // Each worker has its share of the normal ones.
    assert!(pool.locals.iter().all(|local| local.len() > 0));
    pool.end_all();
}
