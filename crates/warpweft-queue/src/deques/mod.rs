//! The deques of proactive work stealing: more deques than workers, in sets that thieves choose from.
//!
//! A worker owns one deque, its *active* one, and uses its owner's end without a lock. When its task begins
//! to wait, the worker leaves the deque behind, *suspended*, for others to steal from. When the task is
//! woken, it returns to the bottom of that deque, which is then *resumable*. Once something was stolen from
//! it, it is *muggable*: a thief may take it over as a whole. (K. Singer, Y. Xu and I-T. A. Lee, *Proactive
//! work stealing for futures*, 2019; for tasks that are woken more than once: ProWS-R, N. Weidinger, 2022.)
//!
//! ```text
//!             suspend               resume, abandon            steal_from, sweep: a task
//!   ACTIVE ─────────────▶ SUSPENDED ────────────────▶ RESUMABLE ──────────────────▶ MUGGABLE ──┐
//!     ▲                                                   │     if tasks are left              │
//!     │                                                   ▼ if none are left: freed            │
//!     └────────────────────────────── steal_from: the whole deque ─────────────────────────────┘
//!
//!   worker 0:  Active ═ owner's end, no lock         worker 1:  Active ═
//!                 │ thieves' end                                   │
//!   set 0, locked: [active][deque][deque][deque]     set 1, locked: [active][deque]
//!                            ▲ set 0, member 1
//!   places: a suspended deque's number ─┘  the task carries the number
//! ```
//!
//! # Invariants
//!
//! - A deque without an owner that has tasks is a member of one set. One without tasks is in no set. If it is
//!   suspended, only its entry is left of it; otherwise nothing.
//! - A worker's active deque is in the worker's set while it has tasks. One without tasks is the same as
//!   none.
//! - A step that moves a deque, or changes its state, is done at once under the locks of all the sets
//!   concerned. So no thread sees a deque with tasks in no set, or in two.
//! - All thieves use a set's lock. So only the holder of the lock uses the end of a deque without an owner,
//!   and a kept stack has no late thief.
//! - Sets are locked in the order of their numbers, then one table of entries at a time.
//!
//! *Why sets are locked* and active deques are not: a worker pushes or pops its tasks every few nanoseconds.
//! A step on the sets is a task that waits, or a worker out of work. Each of these steps changes a state, a
//! set and an end of a deque at once.

mod active;
mod places;
mod set;
mod stats;
mod steal;

pub use active::Active;
pub use stats::{DequeState, DequeView};
pub use steal::StealOutcome;

use crate::{CapacityError, Full, Lifo, Owner, Word};
use places::{NOWHERE, Places, index};
use set::{LockedSet, Member, Set, SetGuard, Standing};
use std::fmt;
use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::sync::{Mutex, MutexGuard};

/// The deques of a pool and their sets, one for each worker.
///
/// ```
/// use std::num::NonZeroUsize;
/// use warpweft_queue::{Deques, StealOutcome};
/// # let n = |x| NonZeroUsize::new(x).unwrap();
/// let (deques, mut workers) = Deques::new(2, 8)?;
/// for x in 1..=3 {
///     deques.push(&mut workers[0], n(x)).unwrap();
/// }
/// // The youngest begins to wait: its worker leaves the deque behind, in set 1.
/// let waits = workers[0].pop().unwrap();
/// let word = deques.suspend(&mut workers[0], 1);
/// assert_eq!(workers[0].pop(), None);
///
/// // Woken, it is at the bottom of the same deque, of which a thief first takes the top, then the rest.
/// deques.resume(word, waits, 0).unwrap();
/// let StealOutcome::Stolen { task, .. } = deques.steal_from(&mut workers[1], 1, |_| 0) else { panic!() };
/// assert_eq!(task, n(1));
/// let StealOutcome::TakenOver { task } = deques.steal_from(&mut workers[1], 1, |_| 0) else { panic!() };
/// assert_eq!((task, workers[1].pop()), (waits, Some(n(2))));
/// # Ok::<(), warpweft_queue::CapacityError>(())
/// ```
pub struct Deques<T: Word> {
    slots: Box<[CachePadded<LockedSet<T>>]>,
    /// The worker that gives out a number keeps the entry.
    places: Box<[CachePadded<Mutex<Places>>]>,
    /// How often a deque with tasks changed its set; see [`find`](Self::find).
    moves: CachePadded<AtomicU64>,
    capacity: usize,
}

impl<T: Word> Deques<T> {
    /// Makes empty sets for `workers` workers, at least one, and the workers' ends. A new deque has room for
    /// `capacity` tasks, rounded up to a power of two, and grows.
    ///
    /// # Errors
    ///
    /// [`CapacityError`] if `workers` or `capacity` is 0, if the capacity is too large, or if there is no
    /// memory for one deque for each worker.
    pub fn new(workers: usize, capacity: usize) -> Result<(Self, Vec<Active<T>>), CapacityError> {
        if workers == 0 {
            return Err(CapacityError::Zero);
        }
        let mut slots = Vec::with_capacity(workers);
        for _ in 0..workers {
            let mut set = Set::new();
            set.keep(Lifo::with_capacity(capacity)?);
            slots.push(CachePadded::new(LockedSet::new(set)));
        }
        let deques = Self {
            slots: slots.into(),
            places: (0..workers)
                .map(|worker| CachePadded::new(Mutex::new(Places::new(worker, workers))))
                .collect(),
            moves: CachePadded::new(AtomicU64::new(0)),
            capacity,
        };
        let active = |worker| Active { worker, stack: None };
        Ok((deques, (0..workers).map(active).collect()))
    }

    /// Adds a task at the bottom of the worker's active deque. Makes or grows the deque if need be.
    ///
    /// # Errors
    ///
    /// [`Full`] with the task if there is no memory.
    #[inline]
    pub fn push(&self, active: &mut Active<T>, task: T) -> Result<(), Full<T>> {
        match active.push(task) {
            Ok(()) => Ok(()),
            Err(Full(task)) => self.push_with_room(active, task),
        }
    }

    #[cold]
    fn push_with_room(&self, active: &mut Active<T>, task: T) -> Result<(), Full<T>> {
        if let Some(stack) = &mut active.stack {
            return match stack.grow() {
                Ok(()) => stack.push(task),
                Err(_) => Err(Full(task)),
            };
        }
        let spare = self.lock(active.worker).spare();
        let Some(mut stack) = spare.or_else(|| Lifo::with_capacity(self.capacity).ok()) else {
            return Err(Full(task));
        };
        let pushed = stack.push(task);
        self.lock(active.worker).active = Some(stack.thief());
        active.stack = Some(stack);
        pushed
    }

    /// Suspends the worker's deque, because its task begins to wait. The deque moves to set number `to`
    /// (modulo their number) if it has tasks. The worker has no active deque then.
    ///
    /// Returns the word under which the deque waits, to be given to [`resume`](Self::resume) or
    /// [`abandon`](Self::abandon) once. It is 0 only where all 2^32 numbers are taken: then the deque is
    /// resumable at once, and does not wait for the task.
    ///
    /// Costs a lock, or four if the deque has tasks.
    pub fn suspend(&self, active: &mut Active<T>, to: usize) -> u64 {
        let word = self.places[active.worker].lock().insert().unwrap_or(0);
        // An empty deque leaves only its entry behind; the next deque can use its stack.
        if active.is_empty() {
            return word;
        }
        let to = to % self.slots.len();
        let (mut own, mut other) = self.lock_two(active.worker, to);
        // Thieves may have emptied it meanwhile; now they are locked out.
        let Some(stack) = active.stack.take_if(|stack| !stack.is_empty()) else {
            return word;
        };
        let thieves = own.active.take().unwrap_or_else(|| stack.thief());
        let standing = match word {
            0 => Standing::Resumable,
            _ => Standing::Suspended(index(word)),
        };
        let deque = Member {
            standing,
            ends: Some((stack, thieves)),
            woken: None,
        };
        self.enter(to, other.as_mut().unwrap_or(&mut own), deque);
        self.has_moved();
        word
    }

    /// Puts a woken task at the bottom of the deque of this word, which waited for it. The deque becomes
    /// resumable. If it is in no set, it moves to set number `to` (modulo their number). Any thread may call
    /// it.
    ///
    /// # Errors
    ///
    /// The task, if no deque waits under this word (any more).
    pub fn resume(&self, word: u64, task: T, to: usize) -> Result<(), T> {
        self.stop_waiting(word, Some(task), to).map_or(Ok(()), Err)
    }

    /// Ends the wait of the deque of this word, whose task will not come. The deque becomes resumable without
    /// it, or is dropped if it has no tasks. Does nothing if no deque waits under this word (any more). Any
    /// thread may call it.
    pub fn abandon(&self, word: u64) {
        let none = self.stop_waiting(word, None, 0);
        debug_assert!(none.is_none(), "there was no task to give back");
    }

    /// Ends a suspension. Returns the task if there is none under this word.
    fn stop_waiting(&self, word: u64, task: Option<T>, to: usize) -> Option<T> {
        let shard = index(word) as usize % self.places.len();
        loop {
            let mut places = self.places[shard].lock();
            let Some(place) = places.get(word) else {
                return task;
            };
            if place.home == NOWHERE {
                // It remains empty, because a suspended deque gets no tasks. The number is ours to free.
                places.remove(word);
                drop(places);
                if task.is_some() {
                    let to = to % self.slots.len();
                    let deque = Member {
                        standing: Standing::Resumable,
                        ends: None,
                        woken: task,
                    };
                    self.enter(to, &mut self.lock(to), deque);
                }
                return None;
            }
            // The lock of the set comes before that of the table; the deque may have moved meanwhile.
            drop(places);
            let mut set = self.lock(place.home as usize);
            let mut places = self.places[shard].lock();
            if let Some(now) = places.get(word).filter(|now| now.home == place.home) {
                places.remove(word);
                let deque = &mut set.members[now.at as usize];
                deque.standing = Standing::Resumable;
                deque.woken = task;
                return None;
            }
        }
    }

    /// Returns true if only active deques have tasks. Costs one load per worker; it is a hint.
    pub fn all_are_active(&self) -> bool {
        (0..self.slots.len()).all(|set| self.slots[set].len() == 0)
    }

    /// Returns true if set number `set` has no deque at all. A set with deques may still have no tasks. Costs
    /// one load; it is a hint.
    ///
    /// # Panics
    ///
    /// If there is no set of this number.
    pub fn is_vacant(&self, set: usize) -> bool {
        self.slots[set].is_vacant()
    }

    /// Makes a deque a member of a set.
    fn enter(&self, at: usize, set: &mut Set<T>, deque: Member<T>) {
        set.members.push(deque);
        self.is_at(at, set, set.members.len() - 1);
    }

    /// Takes a member out; the last member gets its number.
    fn leave(&self, at: usize, set: &mut Set<T>, member: usize) -> Member<T> {
        let deque = set.members.swap_remove(member);
        self.is_at(at, set, member);
        deque
    }

    /// Updates the entry of the member of this number, if there is such a member and it is suspended.
    fn is_at(&self, at: usize, set: &Set<T>, member: usize) {
        if let Some(Standing::Suspended(index)) = set.members.get(member).map(|deque| deque.standing) {
            self.place_of(index).moved(index, at as u32, member as u32);
        }
    }

    fn place_of(&self, index: u32) -> MutexGuard<'_, Places> {
        self.places[index as usize % self.places.len()].lock()
    }

    /// Counts a move. Called under the locks of the sets that the deque left and entered.
    fn has_moved(&self) {
        // Ordering: Relaxed; the locks order it, see `find`.
        self.moves.fetch_add(1, Ordering::Relaxed);
    }

    fn lock(&self, set: usize) -> SetGuard<'_, T> {
        self.slots[set].lock()
    }

    /// Locks two sets, the lower number first; the second is `None` if they are the same.
    fn lock_two(&self, first: usize, second: usize) -> (SetGuard<'_, T>, Option<SetGuard<'_, T>>) {
        if first == second {
            return (self.lock(first), None);
        }
        let lower = self.lock(first.min(second));
        let upper = self.lock(first.max(second));
        if first < second {
            (lower, Some(upper))
        } else {
            (upper, Some(lower))
        }
    }
}

impl<T: Word> fmt::Debug for Deques<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<_> = (0..self.slots.len()).map(|set| self.slots[set].len()).collect();
        f.debug_struct("Deques")
            .field("members", &members)
            .finish_non_exhaustive()
    }
}
