//! Who is to be woken when: one heap per worker, each under its lock, and one for everyone else.
//!
//! ```text
//!   shard:  next (readable without the lock)
//!           order: heap of (deadline, slot), four children each      slots: waker, place in the heap, generation
//! ```
//!
//! Deadlines are nanoseconds of the poller's clock; they are not rounded. A cancelled timer leaves heap and slot at once.
//!
//! # Invariants
//!
//! - `order[slots[i].place].slot == i` for each timer; a vacant slot's place is the next vacant slot, plus one.
//! - `next` is the first deadline of the heap, [`NEVER`] if it is empty; it changes under the lock.
//! - A slot's generation changes when its timer goes: a token finds its own timer or none.
//! - No waker is called, cloned or dropped under a lock.

use std::task::Waker;
use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::sync::Mutex;

/// No deadline: later than any.
pub(crate) const NEVER: u64 = u64::MAX;
/// How many expire under one lock.
const BATCH: usize = 1024;
/// Children of a node of the heap.
const WIDTH: usize = 4;

#[derive(Debug)]
pub(crate) struct Timers {
    shards: Box<[CachePadded<Shard>]>,
}

#[derive(Debug)]
struct Shard {
    next: AtomicU64,
    heap: Mutex<Heap>,
}

/// What its owner keeps of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    shard: u32,
    slot: u32,
    generation: u32,
}

#[derive(Debug, Default)]
struct Heap {
    order: Vec<(u64, u32)>,
    slots: Vec<Slot>,
    /// The first vacant slot, plus one.
    vacant: u32,
    /// No timers are taken any more.
    closed: bool,
}

#[derive(Debug)]
struct Slot {
    waker: Option<Waker>,
    place: u32,
    generation: u32,
}

impl Timers {
    pub(crate) fn new(workers: usize) -> Self {
        let shard = |_| {
            CachePadded::new(Shard {
                next: AtomicU64::new(NEVER),
                heap: Mutex::new(Heap::default()),
            })
        };
        Self {
            shards: (0..=workers).map(shard).collect(),
        }
    }

    /// Sets a timer, kept by `worker`'s shard. Whether it is the first of its shard now: then a poller may have to hear of it.
    /// `None`: closed.
    pub(crate) fn insert(&self, worker: Option<usize>, deadline: u64, waker: Waker) -> Option<(Token, bool)> {
        let outside = self.shards.len() - 1;
        let number = worker.map_or(outside, |worker| worker.min(outside));
        let shard = &self.shards[number];
        let mut heap = shard.heap.lock();
        if heap.closed {
            // Not under the lock: a waker's end may be the end of a task, which may have timers.
            drop(heap);
            return None;
        }
        let slot = heap.occupy(waker);
        heap.insert(deadline, slot);
        let first = shard.note_first(&heap);
        let token = Token {
            shard: u32::try_from(number).unwrap_or_else(|_| unreachable!("there are fewer workers")),
            slot,
            generation: heap.slots[slot as usize].generation,
        };
        Some((token, first))
    }

    /// Takes a timer off; `false` if it has expired.
    pub(crate) fn cancel(&self, token: Token) -> bool {
        let shard = &self.shards[token.shard as usize];
        let mut heap = shard.heap.lock();
        if !heap.has(token) {
            return false;
        }
        let place = heap.slots[token.slot as usize].place;
        heap.remove(place as usize);
        let waker = heap.vacate(token.slot);
        shard.note_first(&heap);
        drop(heap);
        drop(waker);
        true
    }

    /// From now on this waker is woken; `false` if the timer has expired.
    pub(crate) fn renew(&self, token: Token, waker: &Waker) -> bool {
        let shard = &self.shards[token.shard as usize];
        let clone = waker.clone();
        let mut heap = shard.heap.lock();
        if !heap.has(token) {
            return false;
        }
        let old = heap.slots[token.slot as usize].waker.replace(clone);
        drop(heap);
        drop(old);
        true
    }

    /// The first deadline of all.
    pub(crate) fn next(&self) -> u64 {
        // Ordering: Relaxed. Who sets a timer and who goes to sleep have a fence each (`Driver`); else it is a hint.
        let next = |shard: &CachePadded<Shard>| shard.next.load(Ordering::Relaxed);
        self.shards.iter().map(next).min().unwrap_or(NEVER)
    }

    /// Takes timers off whose deadline is not after `now`, at most some thousand, and adds their wakers to `wakers`; whether there
    /// may be more.
    pub(crate) fn expire(&self, now: u64, wakers: &mut Vec<Waker>) -> bool {
        let mut more = false;
        for shard in &self.shards {
            if shard.next.load(Ordering::Relaxed) > now {
                continue;
            }
            let mut heap = shard.heap.lock();
            for taken in 0.. {
                let Some(&(deadline, slot)) = heap.order.first().filter(|(deadline, _)| *deadline <= now)
                else {
                    break;
                };
                debug_assert_ne!(deadline, NEVER);
                if taken == BATCH {
                    more = true;
                    break;
                }
                heap.remove(0);
                wakers.extend(heap.vacate(slot));
            }
            shard.note_first(&heap);
        }
        more
    }

    /// Takes all timers off, for good.
    pub(crate) fn close(&self, wakers: &mut Vec<Waker>) {
        for shard in &self.shards {
            let mut heap = shard.heap.lock();
            heap.closed = true;
            while let Some(&(_, slot)) = heap.order.last() {
                heap.order.pop();
                wakers.extend(heap.vacate(slot));
            }
            shard.note_first(&heap);
        }
    }

    /// How many timers are set.
    #[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
    pub(crate) fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.heap.lock().order.len())
            .sum()
    }
}

impl Shard {
    /// Writes down the first deadline; whether it is earlier than what was written.
    fn note_first(&self, heap: &Heap) -> bool {
        let first = heap.order.first().map_or(NEVER, |(deadline, _)| *deadline);
        // Ordering: Relaxed, under the lock; see `next`.
        let before = self.next.load(Ordering::Relaxed);
        if first != before {
            self.next.store(first, Ordering::Relaxed);
        }
        first < before
    }
}

impl Heap {
    fn has(&self, token: Token) -> bool {
        let slot = &self.slots[token.slot as usize];
        slot.generation == token.generation && slot.waker.is_some()
    }

    fn occupy(&mut self, waker: Waker) -> u32 {
        if let Some(index) = self.vacant.checked_sub(1) {
            let slot = &mut self.slots[index as usize];
            self.vacant = slot.place;
            slot.waker = Some(waker);
            return index;
        }
        // 2³² timers would take 160 GiB.
        let index = u32::try_from(self.slots.len()).unwrap_or_else(|_| unreachable!("memory ends before"));
        self.slots.push(Slot {
            waker: Some(waker),
            place: 0,
            generation: 0,
        });
        index
    }

    fn vacate(&mut self, index: u32) -> Option<Waker> {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.place = std::mem::replace(&mut self.vacant, index + 1);
        slot.waker.take()
    }

    fn insert(&mut self, deadline: u64, slot: u32) {
        self.order.push((deadline, slot));
        self.rise(self.order.len() - 1);
    }

    fn remove(&mut self, place: usize) {
        self.order.swap_remove(place);
        if place < self.order.len() {
            // The last one took the place: it belongs further up or further down.
            let place = self.rise(place);
            self.sink(place);
        }
    }

    fn put(&mut self, place: usize, entry: (u64, u32)) {
        self.order[place] = entry;
        // As many entries as slots at most.
        self.slots[entry.1 as usize].place = place as u32;
    }

    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.order[place];
        while place > 0 {
            let parent = (place - 1) / WIDTH;
            if self.order[parent].0 <= entry.0 {
                break;
            }
            self.put(place, self.order[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.order[place];
        loop {
            let first = place * WIDTH + 1;
            let children = first..(first + WIDTH).min(self.order.len());
            let Some(child) = children.min_by_key(|&child| self.order[child].0) else {
                break;
            };
            if self.order[child].0 >= entry.0 {
                break;
            }
            self.put(place, self.order[child]);
            place = child;
        }
        self.put(place, entry);
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{NEVER, Timers, Token};
    use std::collections::BTreeMap;
    use std::task::Waker;
    use warpweft_platform::random::Rng;

    fn set(timers: &Timers, deadline: u64) -> Token {
        timers
            .insert(None, deadline, Waker::noop().clone())
            .expect("open")
            .0
    }

    fn check(timers: &Timers) {
        for shard in &timers.shards {
            let heap = shard.heap.lock();
            for (place, (deadline, slot)) in heap.order.iter().enumerate() {
                assert!(
                    heap.order[place.saturating_sub(1) / 4].0 <= *deadline,
                    "heap order"
                );
                assert_eq!(heap.slots[*slot as usize].place as usize, place);
            }
        }
    }

    /// Setting, cancelling and expiring in any order, against a sorted map.
    #[test]
    fn agrees_with_a_sorted_map() {
        let mut random = Rng::seeded(7);
        let mut below = |n: u64| random.below(n as usize) as u64;
        let timers = Timers::new(2);
        let mut model: BTreeMap<(u64, usize), Token> = BTreeMap::new();
        let mut now = 0;
        for number in 0..20_000 {
            match below(8) {
                0..5 => {
                    let deadline = now + below(1000);
                    let worker = (below(3) < 2).then_some(below(2) as usize);
                    let (token, _) = timers
                        .insert(worker, deadline, Waker::noop().clone())
                        .expect("open");
                    model.insert((deadline, number), token);
                }
                5..7 if !model.is_empty() => {
                    let key = *model
                        .keys()
                        .nth(below(model.len() as u64) as usize)
                        .expect("some");
                    let token = model.remove(&key).expect("there");
                    assert!(timers.cancel(token));
                    assert!(!timers.cancel(token), "once");
                }
                _ => {
                    now += below(60);
                    let mut wakers = Vec::new();
                    while timers.expire(now, &mut wakers) {}
                    let later = model.split_off(&(now + 1, 0));
                    assert_eq!(wakers.len(), model.len(), "at {now}");
                    assert!(model.values().all(|token| !timers.cancel(*token)));
                    model = later;
                }
            }
            assert_eq!(timers.next(), model.keys().next().map_or(NEVER, |key| key.0));
        }
        check(&timers);
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
        assert!(timers.cancel(old));
        let new = set(&timers, 6);
        assert_eq!((old.slot, old.shard), (new.slot, new.shard));
        assert!(!timers.renew(old, Waker::noop()));
        assert!(!timers.cancel(old));
        assert!(timers.renew(new, Waker::noop()));
        assert!(timers.cancel(new));
        assert_eq!((timers.len(), timers.next()), (0, NEVER));
    }

    #[test]
    fn a_timer_costs_fewer_than_fifty_bytes() {
        let bytes = size_of::<(u64, u32)>() + size_of::<super::Slot>();
        assert!(bytes <= 40, "{bytes}");
    }
}
