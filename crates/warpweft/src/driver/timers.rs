//! The timers of a driver: one wheel of deadlines per worker, each under its lock, and one for all other
//! threads.
//!
//! Deadlines are nanoseconds of the poller's clock; they are not rounded. A cancelled timer leaves its wheel
//! at once. The wheel itself is in [`wheel`](super::wheel).
//!
//! # Invariants
//!
//! - `next` is no later than the first deadline of the wheel, [`NEVER`] if it is empty; it changes under the
//!   lock.
//! - No waker is called, cloned or dropped under a lock.

use super::wheel::{EntryId, Wheel};
use crate::observe::raw::{RawWait, RawWhat};
use std::task::Waker;
use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::sync::Mutex;

/// No deadline: later than any other.
pub(crate) const NEVER: u64 = u64::MAX;
/// The number of timers that expire under one lock.
const BATCH: usize = 1024;

#[derive(Debug)]
pub(crate) struct Timers {
    shards: Box<[CachePadded<TimerShard>]>,
}

#[derive(Debug)]
struct TimerShard {
    next: AtomicU64,
    wheel: Mutex<WheelState>,
}

#[derive(Debug)]
struct WheelState {
    wheel: Wheel,
    /// True if no timers are accepted any more.
    closed: bool,
}

/// The owner's reference to a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimerKey {
    shard: u32,
    place: EntryId,
}

impl TimerKey {
    /// Returns the worker for whom a timer goes into the same shard.
    pub(crate) fn worker(self) -> Option<usize> {
        Some(self.shard as usize)
    }
}

impl Timers {
    pub(crate) fn new(workers: usize) -> Self {
        let shard = |_| {
            CachePadded::new(TimerShard {
                next: AtomicU64::new(NEVER),
                wheel: Mutex::new(WheelState {
                    wheel: Wheel::new(),
                    closed: false,
                }),
            })
        };
        Self {
            shards: (0..=workers).map(shard).collect(),
        }
    }

    /// Calls `see` for each task that waits for a timer.
    pub(crate) fn each(&self, see: &mut dyn FnMut(RawWait)) {
        for shard in &self.shards {
            // In a forked child the lock may be lost.
            let Some(open) = shard.wheel.lock_unless_lost() else {
                continue;
            };
            open.wheel.each(|until_ns, waker| {
                see(RawWait {
                    waiter: waker.data().addr(),
                    task: 0,
                    object: 0,
                    since_ns: None,
                    told: false,
                    what: RawWhat::Timer { until_ns },
                });
            });
        }
    }

    /// Sets a timer in the shard of `worker`. Returns true if it is now the first of its shard: the poller
    /// may have to be woken. Returns `None` if the driver is closed.
    pub(crate) fn insert(
        &self,
        worker: Option<usize>,
        deadline: u64,
        waker: Waker,
    ) -> Option<(TimerKey, bool)> {
        let outside = self.shards.len() - 1;
        let number = worker.map_or(outside, |worker| worker.min(outside));
        let shard = &self.shards[number];
        let mut open = shard.wheel.lock();
        if open.closed {
            // Not under the lock: dropping the waker may end a task, and that task may have timers.
            drop(open);
            return None;
        }
        let place = open.wheel.insert(deadline, waker);
        let first = shard.note_first(&open.wheel);
        let shard = u32::try_from(number).unwrap_or_else(|_| unreachable!("there are fewer workers"));
        Some((TimerKey { shard, place }, first))
    }

    /// Removes a timer, and returns its waker. Returns `None` if it has expired.
    pub(crate) fn cancel(&self, key: TimerKey) -> Option<Waker> {
        let shard = &self.shards[key.shard as usize];
        let mut open = shard.wheel.lock();
        let waker = open.wheel.remove(key.place);
        shard.note_first(&open.wheel);
        waker
    }

    /// Replaces the waker of a timer. Returns `false` if the timer has expired.
    pub(crate) fn renew(&self, key: TimerKey, waker: &Waker) -> bool {
        let clone = waker.clone();
        let mut open = self.shards[key.shard as usize].wheel.lock();
        let Some(place) = open.wheel.waker(key.place) else {
            return false;
        };
        let old = std::mem::replace(place, clone);
        drop(open);
        drop(old);
        true
    }

    /// Returns the time of the next possible expiry: no later than the first deadline of all.
    pub(crate) fn next(&self) -> u64 {
        // Ordering: Relaxed. A thread that sets a timer and a thread that goes to sleep have a fence each
        // (`Driver`). Otherwise it is a hint.
        let next = |shard: &CachePadded<TimerShard>| shard.next.load(Ordering::Relaxed);
        self.shards.iter().map(next).min().unwrap_or(NEVER)
    }

    /// Moves up to [`BATCH`] timers of each level of each wheel to where they will expire, in an idle thread.
    /// Returns true if more can be moved.
    pub(crate) fn tidy(&self) -> bool {
        let mut left = false;
        for shard in &self.shards {
            if shard.next.load(Ordering::Relaxed) != NEVER {
                left |= shard.wheel.lock().wheel.move_ahead(|_, _| BATCH);
            }
        }
        left
    }

    /// Removes timers with a deadline not after `now`, at most [`BATCH`] of each wheel, and adds their wakers
    /// to `wakers`. Returns true if there may be more.
    pub(crate) fn expire(&self, now: u64, wakers: &mut Vec<Waker>) -> bool {
        let mut more = false;
        for shard in &self.shards {
            if shard.next.load(Ordering::Relaxed) > now {
                continue;
            }
            let mut open = shard.wheel.lock();
            more |= open.wheel.expire(now, BATCH, wakers);
            shard.note_first(&open.wheel);
        }
        more
    }

    /// Removes all timers and accepts no more.
    pub(crate) fn close(&self, wakers: &mut Vec<Waker>) {
        for shard in &self.shards {
            let mut open = shard.wheel.lock();
            open.closed = true;
            while open.wheel.expire(NEVER, BATCH, wakers) {}
            shard.note_first(&open.wheel);
        }
    }

    /// Returns the number of timers, without those whose lock is lost in a forked child. Takes a lock for
    /// each worker.
    pub(crate) fn len(&self) -> usize {
        let open = self
            .shards
            .iter()
            .filter_map(|shard| shard.wheel.lock_unless_lost());
        open.map(|open| open.wheel.len()).sum()
    }
}

impl TimerShard {
    /// Publishes the earliest deadline. Returns true if it is earlier than the published one was.
    fn note_first(&self, wheel: &Wheel) -> bool {
        let first = wheel.next();
        // Ordering: Relaxed, under the lock; see `next`.
        let before = self.next.load(Ordering::Relaxed);
        if first != before {
            self.next.store(first, Ordering::Relaxed);
        }
        first < before
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{NEVER, TimerKey, Timers};
    use std::collections::BTreeMap;
    use std::task::Waker;
    use warpweft_platform::random::Rng;

    fn set(timers: &Timers, deadline: u64) -> TimerKey {
        timers
            .insert(None, deadline, Waker::noop().clone())
            .expect("open")
            .0
    }

    /// Sets, cancels and expires timers in any order, against a sorted map.
    #[test]
    fn agrees_with_a_sorted_map() {
        let mut random = Rng::seeded(7);
        let mut below = |n: u64| random.below(n as usize) as u64;
        let timers = Timers::new(2);
        let mut model: BTreeMap<(u64, usize), TimerKey> = BTreeMap::new();
        let mut now = 0;
        for number in 0..20_000 {
            match below(8) {
                0..5 => {
                    // Near and far deadlines, also beyond several turns of the wheel, and past ones.
                    let deadline = (now + (1 << below(40)) + below(1000)).saturating_sub(below(100));
                    let worker = (below(3) < 2).then_some(below(2) as usize);
                    let (key_of_timer, _) = timers
                        .insert(worker, deadline, Waker::noop().clone())
                        .expect("open");
                    model.insert((deadline, number), key_of_timer);
                }
                5..7 if !model.is_empty() => {
                    let key = *model
                        .keys()
                        .nth(below(model.len() as u64) as usize)
                        .expect("some");
                    let key_of_timer = model.remove(&key).expect("there");
                    assert!(timers.cancel(key_of_timer).is_some());
                    assert!(timers.cancel(key_of_timer).is_none(), "once");
                }
                _ => {
                    now += below(60) << below(36);
                    let mut wakers = Vec::new();
                    while timers.expire(now, &mut wakers) {}
                    let later = model.split_off(&(now + 1, 0));
                    assert_eq!(wakers.len(), model.len(), "at {now}");
                    assert!(
                        model
                            .values()
                            .all(|key_of_timer| timers.cancel(*key_of_timer).is_none())
                    );
                    model = later;
                }
            }
            let first = model.keys().next().map_or(NEVER, |key| key.0);
            assert!(timers.next() <= first, "{} {first}", timers.next());
            assert_eq!(timers.next() == NEVER, model.is_empty());
        }
        assert_eq!(timers.len(), model.len());
    }

    #[test]
    fn only_a_new_first_is_news() {
        let timers = Timers::new(1);
        let news = |worker, deadline| {
            timers
                .insert(worker, deadline, Waker::noop().clone())
                .expect("open")
                .1
        };
        assert!(news(None, 50));
        assert!(!news(None, 50));
        assert!(!news(None, 60));
        assert!(news(None, 40));
        assert!(news(Some(0), 45), "the first of its shard");
        assert_eq!(timers.next(), 40);
    }

    #[test]
    fn a_reused_slot_is_another_timer() {
        let timers = Timers::new(1);
        let old = set(&timers, 5);
        assert!(timers.cancel(old).is_some());
        let new = set(&timers, 6);
        assert_ne!(old, new);
        assert!(!timers.renew(old, Waker::noop()));
        assert!(timers.cancel(old).is_none());
        assert!(timers.renew(new, Waker::noop()));
        assert!(timers.cancel(new).is_some());
        assert_eq!((timers.len(), timers.next()), (0, NEVER));
    }
}
