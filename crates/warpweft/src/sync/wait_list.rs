//! The list of waiters, in order of arrival.
//!
//! ```text
//!           push                  grant_front                    leave
//!   ────────────────▶ in line ────────────────▶ granted ─────────────────▶ gone
//!                      │   ▲  wake_front: its waker is taken,       ▲
//!                      │   └─ set_waker: and given again            │
//!                      └──────────────── leave (cancelled) ─────────┘
//! ```
//!
//! It is a doubly linked list in a slab. A place is an index, so a waiter that gives up leaves from the
//! middle in constant time. No pointer refers to a future, which may be moved, leaked or dropped at any time.
//!
//! # Invariants
//!
//! - A [`WaiterId`] names an occupied slot from `push` until `leave`, which takes it by value: it is not used
//!   twice.
//! - A slot is linked exactly while its waiter is in the list; the links form one list from `head` to `tail`.
//! - A waiter in the list without a waker was woken to look again, and has not done so yet.
//!
//! A waiter costs one slot (32 bytes and its item). Slots are used again, and surplus slots are freed when
//! the list becomes empty.

use crate::execution::current_task::current_task;
use crate::execution::fiber_waker::is_of_fiber;
use crate::observe::raw::{RawWait, RawWhat};
use std::task::Waker;
use warpweft_platform::clock::{coarse_ns, recent_ns};
use warpweft_task::task_of;

/// The index that means no slot.
const NONE: u32 = u32::MAX;
/// The number of slots that an empty list keeps.
const KEPT: usize = 32;
/// The nanoseconds of a unit of [`Since`], as a power of two: about what the coarse clock resolves.
const SINCE_BITS: u32 = 22;

/// When a waiter came, in units of 4.2 ms: the lower half of a clock's reading. What is longer ago than 104
/// days looks as if it had just begun.
#[derive(Debug, Clone, Copy)]
struct Since(u32);

impl Since {
    #[allow(clippy::cast_possible_truncation, reason = "the lower half is what is kept")]
    fn at(ns: u64) -> Self {
        Self((ns >> SINCE_BITS) as u32)
    }

    /// Returns the time as it is on the clock that shows `now_ns`.
    fn ns(self, now_ns: u64) -> u64 {
        let ago = Self::at(now_ns).0.wrapping_sub(self.0);
        // The waiter's clock may have been ahead of the reader's.
        let ago = if ago > u32::MAX / 2 { 0 } else { ago };
        now_ns.saturating_sub(u64::from(ago) << SINCE_BITS)
    }
}

/// What wakes a waiter. It is as large as a waker.
#[derive(Debug)]
enum Waking {
    /// Its waker.
    By(Waker),
    /// It was woken, or has left. The address is that of the waker's data, by which a dump knows the task.
    Woken(usize),
}

impl Waking {
    fn is_woken(&self) -> bool {
        matches!(self, Self::Woken(_))
    }

    /// Returns the address of the waker's data.
    fn waiter(&self) -> usize {
        match self {
            Self::By(waker) => waker.data().addr(),
            Self::Woken(waiter) => *waiter,
        }
    }

    #[inline]
    fn take(&mut self) -> Option<Waker> {
        let Self::By(waker) = self else {
            return None;
        };
        let waiter = waker.data().addr();
        match std::mem::replace(self, Self::Woken(waiter)) {
            Self::By(waker) => Some(waker),
            Self::Woken(_) => None,
        }
    }
}

/// A waiter's place. Not `Clone`, so that its owner leaves once.
#[derive(Debug)]
pub(crate) struct WaiterId(u32);

impl WaiterId {
    /// Returns a number that no other waiter of the list has meanwhile.
    pub(crate) fn number(&self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
struct WaiterSlot<I> {
    /// `None` if the slot is free.
    item: Option<I>,
    waking: Waking,
    since: Since,
    before: u32,
    /// The next waiter, or the next free slot.
    after: u32,
    in_line: bool,
}

/// A list of waiters, each with an item: what it brings, wants, or is given.
#[derive(Debug)]
pub(crate) struct WaitList<I> {
    slots: Vec<WaiterSlot<I>>,
    /// By slot, what identifies the task that came, if its waker does not; otherwise 0. It is only as long as
    /// it must be: most lists have no such waiter.
    tasks: Vec<usize>,
    occupied: usize,
    head: u32,
    tail: u32,
    free: u32,
}

/// The state that a waiter finds at its place.
pub(crate) enum WaiterState {
    Granted,
    /// Still in the list. The flag says that its waker is there and would wake the asker.
    InLine {
        will_wake: bool,
    },
}

/// What a waiter that leaves takes with it. The waker is foreign code, so it is dropped outside the lock.
pub(crate) struct Left<I> {
    pub(crate) item: I,
    pub(crate) granted: bool,
    pub(crate) waker: Option<Waker>,
}

/// Returns what identifies the calling task, or 0 if the waker does.
#[inline]
pub(crate) fn behind(waker: &Waker) -> usize {
    if is_own(waker) { 0 } else { current_task().id }
}

/// What a dump needs of a waiter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    /// The address of the waker's data.
    pub(super) waiter: usize,
    /// What identifies the task that came, if the waker does not; otherwise 0.
    pub(super) task: usize,
    /// When it came, on the coarse clock.
    pub(super) since_ns: u64,
}

/// Returns what a dump needs of the caller, which begins to wait with that waker.
#[inline]
pub(super) fn waiter(waker: &Waker) -> Waiter {
    let (task, since_ns) = if is_own(waker) {
        (0, recent_ns())
    } else {
        (current_task().id, coarse_ns())
    };
    Waiter {
        waiter: waker.data().addr(),
        task,
        since_ns,
    }
}

/// Returns true if the waker is that of a task which a worker runs, as the caller does.
fn is_own(waker: &Waker) -> bool {
    task_of(waker).is_some() || is_of_fiber(waker)
}

impl<I> WaitList<I> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            tasks: Vec::new(),
            occupied: 0,
            head: NONE,
            tail: NONE,
            free: NONE,
        }
    }

    /// Returns true if the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Returns an upper bound of the number of waiters.
    pub(crate) fn at_most(&self) -> usize {
        self.occupied
    }

    /// Appends a waiter.
    ///
    /// # Panics
    ///
    /// 2³² - 1 tasks wait already, with 200 GiB of slots.
    pub(crate) fn push(&mut self, waker: Waker, item: I) -> WaiterId {
        let Waiter { task, since_ns, .. } = waiter(&waker);
        let slot = WaiterSlot {
            item: Some(item),
            waking: Waking::By(waker),
            since: Since::at(since_ns),
            before: self.tail,
            after: NONE,
            in_line: true,
        };
        let place = self.free;
        let place = if place == NONE {
            let Some(place) = u32::try_from(self.slots.len())
                .ok()
                .filter(|&place| place != NONE)
            else {
                panic!("2^32 - 1 tasks wait for one object, which is the most");
            };
            self.slots.push(slot);
            place
        } else {
            let vacant = self.slot(place);
            let next = vacant.after;
            *vacant = slot;
            self.free = next;
            place
        };
        match self.tail {
            NONE => self.head = place,
            tail => self.slot(tail).after = place,
        }
        self.tail = place;
        self.occupied += 1;
        if task != 0 || !self.tasks.is_empty() {
            self.note_task(place as usize, task);
        }
        WaiterId(place)
    }

    #[cold]
    fn note_task(&mut self, place: usize, task: usize) {
        while self.tasks.len() <= place {
            self.tasks.push(0);
        }
        self.tasks[place] = task;
    }

    fn slot(&mut self, place: u32) -> &mut WaiterSlot<I> {
        &mut self.slots[place as usize]
    }

    /// Calls `see` for each waiter, those included that were granted and have not left.
    pub(crate) fn each(&self, object: usize, what: impl Fn(&I) -> RawWhat, see: &mut dyn FnMut(RawWait)) {
        let now_ns = coarse_ns();
        for (place, slot) in self.slots.iter().enumerate() {
            if let Some(item) = &slot.item {
                see(RawWait {
                    waiter: slot.waking.waiter(),
                    task: self.tasks.get(place).copied().unwrap_or(0),
                    object,
                    since_ns: Some(slot.since.ns(now_ns)),
                    told: !slot.in_line || slot.waking.is_woken(),
                    what: what(item),
                });
            }
        }
    }

    /// Returns the first waiter's item.
    pub(crate) fn front(&self) -> Option<&I> {
        self.slots.get(self.head as usize)?.item.as_ref()
    }

    /// Returns true if the first waiter was woken to look again, and has not done so yet.
    pub(crate) fn front_is_woken(&self) -> bool {
        self.slots
            .get(self.head as usize)
            .is_some_and(|slot| slot.waking.is_woken())
    }

    /// Takes the first waiter's waker; the waiter stays in the list. `None` also if it was woken already.
    pub(crate) fn wake_front(&mut self) -> Option<Waker> {
        self.slots.get_mut(self.head as usize)?.waking.take()
    }

    /// Takes the first waiter out of the list. It finds its item, which the caller may change, when it looks.
    pub(crate) fn grant_front(&mut self) -> Option<(&mut I, Option<Waker>)> {
        let place = self.head;
        let after = self.slots.get(place as usize)?.after;
        self.head = after;
        match after {
            NONE => self.tail = NONE,
            after => self.slot(after).before = NONE,
        }
        let slot = self.slot(place);
        slot.in_line = false;
        let waker = slot.waking.take();
        Some((slot.item.as_mut()?, waker))
    }

    pub(crate) fn look(&self, place: &WaiterId, waker: &Waker) -> WaiterState {
        let slot = &self.slots[place.number()];
        if slot.in_line {
            let will_wake = matches!(&slot.waking, Waking::By(own) if own.will_wake(waker));
            WaiterState::InLine { will_wake }
        } else {
            WaiterState::Granted
        }
    }

    /// Returns true if the waiter is in the list and was woken to look again.
    pub(crate) fn is_woken(&self, place: &WaiterId) -> bool {
        let slot = &self.slots[place.number()];
        slot.in_line && slot.waking.is_woken()
    }

    pub(crate) fn item_mut(&mut self, place: &WaiterId) -> Option<&mut I> {
        self.slot(place.0).item.as_mut()
    }

    /// Replaces the waiter's waker, and returns the old one.
    pub(crate) fn set_waker(&mut self, place: &WaiterId, waker: Waker) -> Option<Waker> {
        match std::mem::replace(&mut self.slot(place.0).waking, Waking::By(waker)) {
            Waking::By(waker) => Some(waker),
            Waking::Woken(_) => None,
        }
    }

    /// Gives the place up.
    #[allow(clippy::needless_pass_by_value, reason = "a place is given up once")]
    pub(crate) fn leave(&mut self, place: WaiterId) -> Left<I> {
        let free = self.free;
        let mut slot = self.slot(place.0);
        let granted = !slot.in_line;
        if !granted {
            self.unlink(place.0);
            slot = self.slot(place.0);
        }
        let Some(item) = slot.item.take() else {
            unreachable!("a place is occupied until its owner leaves")
        };
        let waker = slot.waking.take();
        slot.after = free;
        self.free = place.0;
        self.occupied -= 1;
        if self.occupied == 0 && self.slots.len() > KEPT {
            // Every slot is empty, so no foreign code is dropped here.
            *self = Self::new();
        }
        Left { item, granted, waker }
    }

    /// Takes a slot out of the list, if it is in it.
    fn unlink(&mut self, place: u32) {
        let Some(slot) = self.slots.get_mut(place as usize).filter(|slot| slot.in_line) else {
            return;
        };
        slot.in_line = false;
        let (before, after) = (slot.before, slot.after);
        match before {
            NONE => self.head = after,
            before => self.slot(before).after = after,
        }
        match after {
            NONE => self.tail = before,
            after => self.slot(after).before = before,
        }
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{KEPT, SINCE_BITS, Since, WaitList, WaiterSlot, WaiterState, behind};
    use crate::Runtime;
    use crate::observe::raw::RawWhat;
    use std::collections::VecDeque;
    use std::future::poll_fn;
    use std::task::{Poll, Waker};

    #[test]
    fn a_line_is_a_queue_from_which_one_may_leave() {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut list = WaitList::new();
        let mut model = VecDeque::new();
        let mut granted = Vec::new();
        for n in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match random % 5 {
                0 | 1 => model.push_back((list.push(Waker::noop().clone(), n), n)),
                2 => {
                    let front = list.grant_front().map(|(item, waker)| (*item, waker.is_some()));
                    assert_eq!(front.map(|(item, _)| item), model.front().map(|(_, n)| *n));
                    granted.extend(model.pop_front());
                }
                3 if !model.is_empty() => {
                    let at = usize::try_from(random >> 8).expect("64 bits") % model.len();
                    let (place, item) = model.remove(at).expect("in range");
                    assert!(matches!(
                        list.look(&place, Waker::noop()),
                        WaiterState::InLine { .. }
                    ));
                    let left = list.leave(place);
                    assert_eq!((left.item, left.granted), (item, false));
                }
                _ => {
                    for (place, item) in granted.drain(..) {
                        assert!(matches!(list.look(&place, Waker::noop()), WaiterState::Granted));
                        let left = list.leave(place);
                        assert_eq!((left.item, left.granted), (item, true));
                    }
                }
            }
            assert_eq!(list.is_empty(), model.is_empty());
            assert_eq!(list.front().copied(), model.front().map(|(_, n)| *n));
        }
    }

    #[test]
    fn a_slot_is_small() {
        assert!(size_of::<WaiterSlot<usize>>() <= 32 + size_of::<Option<usize>>());
    }

    #[test]
    fn the_time_since_when_one_waits_wraps() {
        const UNIT: u64 = 1 << SINCE_BITS;
        for came in [0, 1, UNIT, UNIT << 31, UNIT << 32, (UNIT << 33) + 7] {
            for ago in [0, 1, UNIT - 1, UNIT, 1000 * UNIT, (UNIT << 31) - UNIT] {
                let since = Since::at(came).ns(came + ago);
                assert!(since.abs_diff(came) < UNIT, "{came} {ago}: {since}");
            }
            let ahead = Since::at(came + 5 * UNIT).ns(came);
            assert_eq!(ahead, came, "not from before the clock began");
        }
    }

    #[test]
    fn a_list_knows_the_task_behind_a_strange_waker() {
        let mut list = WaitList::new();
        let places: Vec<_> = (0..3).map(|n| list.push(Waker::noop().clone(), n)).collect();
        let tasks = |list: &WaitList<i32>| {
            let mut tasks = Vec::new();
            list.each(0, |_| RawWhat::Timer { until_ns: 0 }, &mut |wait| {
                tasks.push(wait.task);
            });
            tasks
        };
        list.note_task(1, 71);
        // What comes here is no task: the thread stands for it.
        let own = behind(Waker::noop());
        assert_eq!(tasks(&list), [own, 71, own]);
        for place in places {
            list.leave(place);
        }
        // The slots are used again, by a task that its waker identifies.
        list.note_task(0, 71);
        let runtime = Runtime::builder().workers(1).build().expect("a runtime");
        let enter = poll_fn(move |cx| {
            list.push(cx.waker().clone(), 3);
            list.push(cx.waker().clone(), 4);
            Poll::Ready(tasks(&list))
        });
        assert_eq!(runtime.spawn(enter).wait().expect("no panic"), [0, 0]);
    }

    #[test]
    fn a_crowd_that_has_left_costs_nothing() {
        let mut list = WaitList::new();
        let places: Vec<_> = (0..10 * KEPT)
            .map(|n| list.push(Waker::noop().clone(), n))
            .collect();
        assert!(list.slots.len() >= 10 * KEPT);
        places.into_iter().for_each(|place| drop(list.leave(place)));
        assert_eq!(list.slots.capacity(), 0);
        // Some waiters use the same slot in turn.
        for n in 0..1000 {
            let place = list.push(Waker::noop().clone(), n);
            list.leave(place);
        }
        assert_eq!(list.slots.len(), 1);
    }

    #[test]
    fn a_waiter_that_was_woken_keeps_its_place() {
        let mut list = WaitList::new();
        let first = list.push(Waker::noop().clone(), 1);
        let second = list.push(Waker::noop().clone(), 2);
        assert!(list.wake_front().is_some() && list.wake_front().is_none());
        assert!(list.front_is_woken() && list.is_woken(&first) && !list.is_woken(&second));
        assert!(list.set_waker(&first, Waker::noop().clone()).is_none());
        assert!(!list.front_is_woken());
        assert!(!list.leave(first).granted);
        assert_eq!(list.front(), Some(&2));
        list.leave(second);
    }
}
