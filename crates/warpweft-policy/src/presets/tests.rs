//! Tests that each preset puts a task where its original would, and keeps its bound.

use super::tokio::PollInterval;
use crate::testing::{Busy, Pool, keeps_its_bound};
use crate::{Go, Libfibre, Policy as _, Tokio, Wake, WorkerId};
use warpweft_task::Why;

#[test]
fn go_runs_the_newest_next_and_the_others_in_their_order() {
    let mut pool = Pool::new(&Go, 2);
    pool.spawn(0, 0..4);
    let yields = pool.task(9, 0);
    let _ = pool.push(0, yields, Why::Yielded);
    assert_eq!(pool.run(0, Go::next), Some(3));
    assert_eq!(pool.run(0, Go::next), Some(0));
    // A yielded goroutine is in the global queue, which has its turn beside the ring.
    assert_eq!(pool.run(0, Go::poll_global), Some(9));
    assert_eq!(pool.run(0, Go::poll_global), Some(1));
    pool.end_all();
}

#[test]
fn go_takes_what_is_next_elsewhere_last() {
    let mut pool = Pool::new(&Go, 2);
    pool.spawn(0, 0..3);
    // Half of the ring of two, rounded up or down, before the slot.
    assert_eq!(pool.run(1, Go::search), Some(0));
    let mut rest: Vec<_> = std::iter::from_fn(|| pool.run(1, Go::search)).collect();
    rest.extend(std::iter::from_fn(|| pool.run(1, Go::next)));
    assert_eq!(rest, [1, 2]);
}

#[test]
fn half_of_a_full_ring_overflows() {
    let mut pool = Pool::new(&Go, 1);
    // One is in the slot, 256 fill the ring, one more moves 128 out, and follows them.
    pool.spawn(0, 0..258);
    assert_eq!(pool.run(0, Go::next), Some(257));
    assert_eq!(pool.run(0, Go::next), Some(128));
    let global: Vec<_> = (0..4).filter_map(|_| pool.run(0, Go::poll_global)).collect();
    assert_eq!(global, [0, 129, 1, 130]);
    pool.end_all();
    let mut pool = Pool::new(&Tokio, 1);
    pool.spawn(0, 0..258);
    assert_eq!(pool.run(0, Tokio::next), Some(257));
    assert_eq!(pool.run(0, Tokio::next), Some(128));
    assert_eq!(pool.run(0, Tokio::poll_global), Some(0));
    pool.end_all();
}

#[test]
fn tokios_slot_goes_first_but_three_times_only() {
    let mut pool = Pool::new(&Tokio, 2);
    pool.spawn(0, [9]);
    assert_eq!(pool.run(1, Tokio::search), None, "nobody takes from a slot");
    pool.spawn(0, [0]);
    let mut order = Vec::new();
    for number in 1..5 {
        order.extend(pool.run(0, Tokio::next));
        pool.spawn(0, [number]);
    }
    assert_eq!(order, [0, 1, 2, 9]);
    pool.end_all();
}

#[test]
fn tokio_wakes_somebody_only_for_what_others_can_take() {
    let mut pool = Pool::new(&Tokio, 2);
    let tasks = [0, 1, 2, 3].map(|number| pool.task(number, 0));
    let [first, second, yielded, outside] = tasks;
    assert_eq!(pool.push(0, first, Why::Woken), Wake::None);
    assert_eq!(pool.push(0, second, Why::Woken), Wake::Any);
    assert_eq!(pool.push(0, yielded, Why::Yielded), Wake::Any);
    assert_eq!(pool.push_from_outside(outside), Wake::Any);
    pool.end_all();
}

#[test]
fn tokio_tunes_how_often_it_looks_at_the_injector() {
    let mut pace = PollInterval::new();
    pace.learn(0);
    assert_eq!(pace.interval, 61, "nothing is known before the second look");
    // 10 µs a step: every 20 steps are 200 µs.
    pace.learn(61 * 10_000);
    assert_eq!(pace.interval, 20);
    // One in ten of the new: 9 × 10 + 110 in tenths are 20 µs.
    pace.learn(61 * (10_000 + 110_000));
    assert_eq!(pace.interval, 10);
    let mut now = 61 * 120_000;
    for _ in 0..100 {
        now += 61_000_000;
        pace.learn(now);
    }
    assert_eq!(pace.interval, 2);
    for _ in 0..200 {
        now += 61;
        pace.learn(now);
    }
    assert_eq!(pace.interval, 127);
}

#[test]
fn libfibre_brings_a_woken_task_back() {
    let mut pool = Pool::new(&Libfibre, 3);
    pool.spawn(1, [7]);
    let mut task = pool.call(1, Libfibre::next).expect("its own");
    pool.call(1, |shared, own, cx| {
        Libfibre::suspended(shared, own, task.waiting(), cx);
    });
    assert_eq!(pool.push(2, task, Why::Woken), Wake::Worker(WorkerId(1)));
    assert_eq!(pool.run(2, Libfibre::next), None);
    let mut task = pool.call(1, Libfibre::next).expect("at home");
    pool.call(1, |shared, own, cx| {
        Libfibre::suspended(shared, own, task.waiting(), cx);
    });
    // On its own worker it stays, and so does a task that yields there though it once ran elsewhere.
    assert_eq!(pool.push(1, task, Why::Woken), Wake::Any);
    let task = pool.call(1, Libfibre::next).expect("at home");
    assert_eq!(pool.push(2, task, Why::Yielded), Wake::Any);
    assert_eq!(pool.run(2, Libfibre::next), Some(7));
    // A word that is no worker's number selects no worker.
    let stray = pool.task(8, 1_000);
    assert_eq!(pool.push(0, stray, Why::Woken), Wake::Any);
    assert_eq!(pool.run(0, Libfibre::next), Some(8));
}

#[test]
fn who_yields_alone_is_alone() {
    let mut pool = Pool::new(&Libfibre, 2);
    assert!(pool.call(0, |shared, own, _| Libfibre::is_only_ready(shared, own)));
    pool.spawn(1, [0]);
    assert!(!pool.call(0, |shared, own, _| Libfibre::is_only_ready(shared, own)));
    pool.end_all();
}

#[test]
fn every_task_has_its_turn() {
    for busy in [Busy::Yield, Busy::Wake] {
        // More than a ring holds, and fewer.
        for most in [5, 300] {
            keeps_its_bound(&Go, busy, most, false, |others, _| Go::steps(others));
            keeps_its_bound(&Tokio, busy, most, false, |others, _| Tokio::steps(others));
            keeps_its_bound(&Libfibre, busy, most, false, |others, _| {
                Libfibre::own_steps(others)
            });
            keeps_its_bound(&Libfibre, busy, most, true, Libfibre::steps);
        }
    }
}
