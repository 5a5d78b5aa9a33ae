//! Which workers are helped, and when; marks, caches and bounds.

use super::lanes::log2;
use crate::testing::{Pool, next_step};
use crate::{Cforall, CoreLocation, Helping, LifoOrder, Policy, PoolEnv};
use warpweft_task::Why;
use warpweft_task::test_tasks::number;

#[test]
fn logarithms_in_sixteenths() {
    for (ns, expected) in [
        (0, 0),
        (1, 0),
        (2, 16),
        (3, 24),
        (1024, 160),
        (1536, 168),
        (u64::MAX, 63 * 16 + 15),
    ] {
        assert_eq!(log2(ns), expected, "{ns}");
    }
    let mut before = 0;
    for ns in 0..100_000 {
        assert!(log2(ns) >= before);
        before = log2(ns);
    }
}

/// Worker 0 runs a task every microsecond, each after a wait; worker 1 is stuck with one task. Returns after
/// how many microseconds worker 0 takes that one.
fn helped_after(policy: &Cforall, own_tasks: usize, env: &PoolEnv) -> Option<u64> {
    let mut pool = Pool::at(policy, env);
    let stuck = pool.task(0, 0);
    let _ = pool.push(1, stuck, Why::Spawned);
    for number in 1..=own_tasks {
        let task = pool.task(number, 0);
        let _ = pool.push(0, task, Why::Spawned);
    }
    let mut helped = None;
    for round in 1..100_000 {
        pool.now.set(round * 1_000);
        let task = pool.call(0, Cforall::next).expect("it has tasks of its own");
        if number(&task) == Some(0) {
            pool.end(0, task);
            helped = Some(round);
            break;
        }
        let _ = pool.push(0, task, Why::Yielded);
    }
    while let Some(task) = pool.call(0, Cforall::scan) {
        pool.end(0, task);
    }
    helped
}

#[test]
fn who_waits_eight_times_longer_is_helped() {
    let env = PoolEnv::new(2);
    // Own tasks wait for as many microseconds as there are. Stamps are too old by at most eight pops.
    for own_tasks in [16, 64, 256] {
        let after = helped_after(&Cforall::new(), own_tasks, &env).expect("helped");
        let own = own_tasks as u64;
        assert!(
            (4 * own..24 * own + 200).contains(&after),
            "{after} with {own_tasks}"
        );
    }
    // A factor of 2^32 is never reached.
    assert_eq!(helped_after(&Cforall::new().age_log2(32), 16, &env), None);
}

#[test]
fn lanes_behind_another_cache_are_helped_seldom() {
    let apart = [CoreLocation::new(0, 0, 0), CoreLocation::new(1, 1, 0)];
    let far = PoolEnv::new(2).with_places(apart.to_vec());
    let near = PoolEnv::new(2).with_places(apart.map(|place| CoreLocation::new(place.core, 0, 0)).to_vec());
    let usual = helped_after(&Cforall::new(), 16, &near).expect("helped");
    assert_eq!(
        usual,
        helped_after(&Cforall::new(), 16, &PoolEnv::new(2)).expect("helped")
    );
    let seldom = helped_after(&Cforall::new(), 16, &far).expect("helped in the end");
    assert!(seldom > 100 && seldom > usual, "{seldom} and {usual}");
    assert_eq!(helped_after(&Cforall::new().far(0), 16, &far), None);
}

#[test]
fn a_lane_is_chosen_at_one_pop_and_tried_at_the_next() {
    let mut pool = Pool::new(&Cforall::new().clock_every(1), 2);
    let waits = pool.task(0, 0);
    let _ = pool.push(1, waits, Why::Spawned);
    pool.now.set(1 << 40);
    // One pop of two chooses; the local queue is random, one of three.
    let mut taken = Vec::new();
    for pop in 1..=200 {
        let own = pool.task(pop, 0);
        pool.call(0, |_, own, _| own.now = 1 << 40);
        let _ = pool.push(0, own, Why::Spawned);
        let task = pool.call(0, Cforall::next).expect("its own, at least");
        if pool.end(0, task) == 0 {
            taken.push(pop);
        }
    }
    assert!(taken.len() == 1 && taken[0] % 2 == 0, "{taken:?}");
    while let Some(task) = pool.call(0, Cforall::scan) {
        pool.end(0, task);
    }
}

#[test]
fn impossible_constants_are_errors_that_say_what_is_possible() {
    let usual = Cforall::new;
    for (policy, part) in [
        (usual().lanes(0), "1 to 16"),
        (usual().lanes(17), "1 to 16"),
        (usual().every(1), "2 or more"),
        (usual().age_log2(33), "2^0 to 2^32"),
        (usual().far(257), "0 to 256"),
        (usual().weight(0), "1 to 16"),
        (usual().weight(17), "1 to 16"),
        (usual().clock_every(0), "1 or more"),
        (usual().capacity(0), "capacity"),
    ] {
        let error = policy
            .build(&PoolEnv::new(2))
            .err()
            .expect("an error")
            .to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// Tasks that yield forever keep the workers busy, and one more task comes. Whichever workers make steps, it
/// runs within the bound.
fn keeps_its_bound<P: Policy>(
    policy: &P,
    still: bool,
    bound: impl Fn(usize, usize) -> u64,
    own_bound: Option<fn(usize) -> u64>,
) {
    for (workers, busy, stuck, from_outside) in [
        (1, 1, None, true),
        (1, 9, None, true),
        (1, 9, None, false),
        (3, 5, None, false),
        (3, 30, Some(1), false),
        (4, 8, Some(1), true),
    ] {
        let mut pool = Pool::new(policy, workers);
        let pusher = stuck.unwrap_or(0);
        for number in 0..busy {
            let task = pool.task(number, 0);
            let _ = pool.push(number % workers, task, Why::Spawned);
        }
        let waits = pool.task(busy, 0);
        let _ = if from_outside {
            pool.push_from_outside(waits)
        } else {
            pool.push(pusher, waits, Why::Spawned)
        };
        let limit = match own_bound {
            Some(own_bound) if stuck.is_none() && !from_outside => own_bound(busy),
            _ => bound(busy, workers),
        };
        let mut ran = false;
        'steps: for step in 1..=limit {
            pool.now.set(if still { 0 } else { step * 1_000 });
            for worker in (0..workers).filter(|&worker| Some(worker) != stuck) {
                let Some(task) = next_step(&mut pool, worker, step) else {
                    continue;
                };
                if number(&task) == Some(busy) {
                    pool.end(worker, task);
                    ran = true;
                    break 'steps;
                }
                let _ = pool.push(worker, task, Why::Yielded);
            }
        }
        assert!(
            ran,
            "{workers} workers, {busy} busy, stuck: {stuck:?}, from outside: {from_outside}, still: {still}"
        );
        while let Some(task) = pool.call(0, P::scan) {
            pool.end(0, task);
        }
    }
}

#[test]
fn every_task_has_its_turn() {
    for still in [false, true] {
        let cforall = Cforall::new();
        keeps_its_bound(
            &cforall,
            still,
            |busy, workers| cforall.steps(busy, workers),
            Some(|busy| Cforall::new().own_steps(busy)),
        );
        let one_lane = Cforall::new().lanes(1);
        keeps_its_bound(
            &one_lane,
            still,
            |busy, workers| one_lane.steps(busy, workers),
            Some(|busy| Cforall::new().own_steps(busy)),
        );
        let lifo = Helping::<LifoOrder>::new();
        keeps_its_bound(&lifo, still, |busy, workers| lifo.steps(busy, workers), None);
    }
}
