//! The wheel against lists in order, and moments at which digits change.

use super::{DIGIT_BITS, LEAST_MOVED, MOST_MOVED, NEVER, Set, TICK_BITS, Wheel, WheelEntry};
use std::task::Waker;

fn expired(wheel: &mut Wheel, now: u64) -> usize {
    let mut wakers = Vec::new();
    while wheel.expire(now, 3, &mut wakers) {}
    wakers.len()
}

#[test]
fn a_timer_costs_forty_bytes() {
    assert!(size_of::<WheelEntry>() <= 40, "{}", size_of::<WheelEntry>());
}

/// Deadlines around every power of two, where digits change, expire neither early nor late.
#[test]
fn exact_at_every_digit() {
    for start in [0, 1, 1 << 22, (1 << 40) - 1, 1 << 63] {
        for bit in 0..64 {
            for deadline in [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1] {
                let deadline = deadline.saturating_add(start).min(NEVER - 1);
                let mut wheel = Wheel::new();
                expired(&mut wheel, start);
                wheel.insert(deadline, Waker::noop().clone());
                assert_eq!(wheel.next(), deadline, "nobody wakes up before");
                assert_eq!(
                    expired(&mut wheel, deadline.saturating_sub(1)),
                    usize::from(deadline == 0),
                    "{start} {deadline}"
                );
                assert_eq!(
                    expired(&mut wheel, deadline),
                    usize::from(deadline != 0),
                    "{start} {deadline}"
                );
                assert_eq!(wheel.next(), NEVER);
            }
        }
    }
}

#[test]
fn many_at_one_moment_and_one_behind() {
    let mut wheel = Wheel::new();
    for _ in 0..10 {
        wheel.insert(1_000_000, Waker::noop().clone());
    }
    let later = wheel.insert(1_000_001, Waker::noop().clone());
    assert_eq!(expired(&mut wheel, 1_000_000), 10);
    assert_eq!((wheel.next(), wheel.len()), (1_000_001, 1));
    assert!(wheel.remove(later).is_some());
    assert!(wheel.remove(later).is_none());
    wheel.insert(5, Waker::noop().clone());
    assert_eq!(wheel.next(), 5, "what is overdue is next");
    assert_eq!(expired(&mut wheel, 1_000_000), 1);
}

/// Against a sorted list: timers come, go and expire while others are ahead.
#[test]
fn like_a_sorted_list() {
    let random = &mut fastrand::Rng::with_seed(7);
    for spread_bits in [18, 24, 30, 36] {
        let (mut wheel, mut now) = (Wheel::new(), 0_u64);
        let mut due = std::collections::BTreeMap::new();
        for id in 0..20_000_u64 {
            let bits = random.u32(10..=spread_bits);
            let deadline = now + random.u64(0..1 << bits);
            due.insert((deadline, id), wheel.insert(deadline, Waker::noop().clone()));
            if random.u8(..) < 40 {
                let pick = random.usize(..due.len());
                let key = *due.keys().nth(pick.min(50)).expect("it is not empty");
                let place = due.remove(&key).expect("it is there");
                assert!(wheel.remove(place).is_some());
            }
            if random.u8(..) < 60 {
                let bits = random.u32(8..=spread_bits - 6);
                now += random.u64(0..1 << bits);
                let later = due.split_off(&(now + 1, 0));
                let gone = std::mem::replace(&mut due, later);
                assert_eq!(expired(&mut wheel, now), gone.len());
                assert!(gone.values().all(|&place| wheel.remove(place).is_none()));
            }
            let first = due.keys().next().map_or(NEVER, |&(deadline, _)| deadline);
            assert!(wheel.next() <= first, "nobody is late");
            assert_eq!(wheel.next() == NEVER, due.is_empty());
        }
        assert_eq!(wheel.len(), due.len());
        assert_eq!(expired(&mut wheel, NEVER), due.len());
    }
}

/// The first of two timers was ahead when their slot began, and the second one was not.
#[test]
fn what_came_from_ahead_is_not_behind_the_rest() {
    for level in 1..8 {
        let start = 1_u64 << (TICK_BITS + level * DIGIT_BITS);
        let slot = start >> DIGIT_BITS;
        let early = start + (3 << TICK_BITS).min(slot / 2);
        let mut wheel = Wheel::new();
        wheel.insert(early, Waker::noop().clone());
        wheel.move_ahead(|_, _| 1);
        wheel.insert(start + slot - 1, Waker::noop().clone());
        assert_eq!(expired(&mut wheel, start), 0, "level {level}");
        assert_eq!(wheel.next(), early, "level {level}");
        assert_eq!(expired(&mut wheel, early), 1, "level {level}");
        assert_eq!(expired(&mut wheel, start + slot), 1, "level {level}");
    }
}

/// Against a sorted list: few timers at a time, which are in part ahead when their slot begins.
#[test]
fn a_few_like_a_sorted_list() {
    for seed in 0..4_000 {
        let random = &mut fastrand::Rng::with_seed(seed);
        let (mut wheel, mut now) = (Wheel::new(), random.u64(0..1 << 40));
        expired(&mut wheel, now);
        let mut due = Vec::new();
        for _ in 0..40 {
            for _ in 0..random.u32(0..6) {
                // Behind the beginning of a slot, the next one of some level.
                let bits = random.u32(10..44);
                let deadline = (((now >> bits) + 1) << bits) + random.u64(0..1 << (bits - 4));
                due.push(deadline);
                wheel.insert(deadline, Waker::noop().clone());
                if random.bool() {
                    wheel.move_ahead(|_, _| 1);
                }
            }
            let bits = random.u32(10..42);
            now += random.u64(0..1 << bits);
            let before = due.len();
            due.retain(|&deadline| deadline > now);
            assert_eq!(expired(&mut wheel, now), before - due.len(), "seed {seed}");
            let first = due.iter().copied().min().unwrap_or(NEVER);
            assert!(wheel.next() <= first, "seed {seed}");
        }
    }
}

/// A slot with very many timers is ahead of its level before its time comes, and never much at once.
#[test]
fn a_full_slot_moves_evenly() {
    const SLOT: u64 = 1 << (TICK_BITS + 2 * DIGIT_BITS);
    const MANY: u64 = 100_000;
    for step in [50_000, 1_000_000, 4_000_000] {
        let mut wheel = Wheel::new();
        assert_eq!(expired(&mut wheel, SLOT), 0);
        for n in 0..MANY {
            wheel.insert(2 * SLOT + n * (SLOT / MANY), Waker::noop().clone());
        }
        let ahead = |wheel: &Wheel| {
            let slots = &wheel.set(Set::Ahead, 1).slots;
            slots.iter().map(|slot| u64::from(slot.timers.len())).sum::<u64>()
        };
        let mut before = 0;
        for now in (SLOT + step..2 * SLOT).step_by(step as usize) {
            assert_eq!(expired(&mut wheel, now), 0);
            let moved = ahead(&wheel) - before;
            before += moved;
            assert!(
                moved <= (MOST_MOVED + LEAST_MOVED) as u64,
                "{moved} at once, each {step} ns"
            );
        }
        assert!(before > MANY - MANY / 10, "{before} are ahead, each {step} ns");
    }
}

/// Timers of one slot are ahead of their level when nearer ones come, and expire at their own time.
#[test]
fn nearer_timers_come_while_others_are_ahead() {
    let mut wheel = Wheel::new();
    // Not in the first slot of those ahead: there they would be looked at, and put back, together with
    // the new timers.
    let far = (40 << 22) + (5 << 16);
    for n in 0..100 {
        wheel.insert(far + n, Waker::noop().clone());
    }
    assert_eq!(expired(&mut wheel, 1), 0);
    let (near, between) = (20 << 22, 30 << 22);
    wheel.insert(near, Waker::noop().clone());
    wheel.insert(between, Waker::noop().clone());
    assert_eq!(wheel.next(), near);
    assert_eq!(expired(&mut wheel, near), 1);
    assert_eq!(wheel.next(), between);
    assert_eq!(expired(&mut wheel, between), 1);
    assert_eq!(wheel.next(), far);
    wheel.insert(far + 50, Waker::noop().clone());
    assert_eq!(expired(&mut wheel, far + 49), 50);
    assert_eq!(expired(&mut wheel, far + 50), 2);
    assert_eq!(expired(&mut wheel, NEVER), 49);
}

#[test]
fn the_last_deadline_of_all() {
    let mut wheel = Wheel::new();
    wheel.insert(NEVER - 1, Waker::noop().clone());
    assert_eq!(expired(&mut wheel, NEVER - 2), 0);
    assert_eq!(expired(&mut wheel, NEVER), 1);
}
