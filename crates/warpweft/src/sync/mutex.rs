//! Mutual exclusion.
//!
//! ```text
//!   word:  LOCKED   a task has it
//!          QUEUED   a task waits: unlocking is not a single compare-and-swap
//!          WOKEN    the first in line was woken and has not looked again: unlocking wakes none
//!          STARVED  the first in line lost too often: unlocking hands the lock over
//!          above    how often it was unlocked since the first in line was woken
//! ```
//!
//! A caller takes a free lock at once, even if others wait: those would have to be scheduled first, and the
//! lock would be unused meanwhile. But the first waiter is handed the lock if it was woken [`PATIENCE`] times
//! without getting it, or if others had the lock [`OVERTAKERS`] times since it was woken: perhaps they keep
//! the thread on which it would look. So the first waiter is overtaken a bounded number of times, and waiters
//! are served in order.
//!
//! # Invariants
//!
//! - All flags but LOCKED change under the list's lock only, and describe the list: see [`Mutex::flags`].
//!   While a thread holds the lock *and* the list's lock, no other thread writes the word.
//! - The count is 0 unless WOKEN is set. It grows with each unlocking that leaves WOKEN, and begins anew when
//!   another waiter is woken.
//! - STARVED implies LOCKED.
//! - When the list's lock is free: if the list is not empty, the lock is held, or the first waiter is WOKEN.

use super::lazy_state::{LazyState, WaitState};
use super::owner::Owner;
use super::suspend::{Suspend, WaitOp};
use super::wait::Wait;
use super::wait_list::{WaitList, WaiterId};
use super::wakers::Wakers;
use crate::execution::current_task::current_task;
use crate::observe::raw::{RawWait, RawWhat};
use crate::pool::lending;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use warpweft_platform::atomic::{AtomicU32, Ordering, spin_loop};
use warpweft_platform::cell::UnsafeCell;
use warpweft_platform::{delay, sync};
use warpweft_task::frame::Who;

const LOCKED: u32 = 1;
const QUEUED: u32 = 2;
const WOKEN: u32 = 4;
const STARVED: u32 = 8;
/// One in the count of unlockings.
const UNLOCKED: u32 = 16;
/// The bits of that count.
const COUNT: u32 = !(UNLOCKED - 1);

/// How often the first waiter is woken without getting the lock before it is handed the lock.
const PATIENCE: u32 = 4;
/// How often others have the lock before the first waiter, once woken, is handed it: in a loop that does
/// nothing else that is less than a millisecond. Models have no patience for that.
const OVERTAKERS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    2
} else {
    1 << 16
};
/// How often a caller looks for a free lock before it enters the list, after twice as many pauses each time.
const LOOKS: u32 = 7;

/// A value that one task at a time may use, whatever kind of task it is.
///
/// The guard may be held across an `.await`, a [`join`](crate::join) and any other wait of this crate.
///
/// Locking and unlocking without contention cost one compare-and-swap each. A caller that finds it locked
/// looks again for less than a microsecond, and then enters the list of waiters; see the
/// [module](self::super) for the order.
///
/// **No poisoning.** A panic while the guard is held unlocks the mutex. The value may then be half changed; a
/// program that must know keeps a flag in the value.
///
/// A task that locks the same mutex twice waits for itself.
///
/// ```
/// use std::sync::Arc;
/// use warpweft::{Runtime, sync::Mutex};
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let sum = Arc::new(Mutex::new(0));
/// let (from_future, from_job) = (Arc::clone(&sum), Arc::clone(&sum));
/// let future = runtime.spawn(async move { *from_future.lock().await += 1 });
/// let job = runtime.spawn_job(move || *from_job.lock().wait() += 2);
/// future.wait()?;
/// job.wait()?;
/// assert_eq!(*sum.lock().wait(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mutex<T> {
    word: AtomicU32,
    owner: Owner,
    /// Each waiter's item counts how often it was woken without getting the lock.
    list: LazyState<WaitList<u32>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves with the mutex, hence `T: Send`.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: one thread at a time reaches the value, so it is as if it moved there: `T: Send`.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// Returns an unlocked mutex.
    pub fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(0),
            owner: Owner::default(),
            list: LazyState::new("mutex"),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock.
    ///
    /// If the wait is dropped before it is ready, it leaves the list, and a lock that it had been handed goes
    /// to the next waiter.
    #[inline]
    pub fn lock(&self) -> Wait<impl Future<Output = MutexGuard<'_, T>>> {
        Wait::new(Suspend::new(Locking(self), 0))
    }

    /// Returns the guard if the mutex is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        // Ordering: Acquire pairs with the Release of the thread that unlocked.
        let mut word = match self
            .word
            .compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => return Some(MutexGuard::new(self)),
            Err(word) => word,
        };
        while word & LOCKED == 0 {
            match self
                .word
                .compare_exchange_weak(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Some(MutexGuard::new(self)),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Looks for a free lock a few times.
    #[cold]
    fn spin(&self) -> Option<MutexGuard<'_, T>> {
        if cfg!(any(warpweft_loom, warpweft_shuttle)) {
            // The checkers have no time; one more look would only multiply the executions.
            return None;
        }
        for look in 0..LOOKS {
            for _ in 0..1 << look {
                spin_loop();
            }
            if self.word.load(Ordering::Relaxed) & LOCKED == 0
                && let Some(guard) = self.try_lock()
            {
                return Some(guard);
            }
        }
        None
    }

    /// Returns the value, without locking: `&mut self` proves that there is no guard.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: as long as `self` is borrowed there is no guard and no other reference.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    #[inline]
    fn unlock(&self) {
        // A dump must not take this owner for the next one, which notes itself after it has locked.
        self.owner.forget();
        if let Some(owner) = self.list.beside() {
            owner.forget();
        }
        // Ordering: Release passes on what was done under the lock.
        if self
            .word
            .compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            self.unlock_before_others();
        }
    }

    #[cold]
    fn unlock_before_others(&self) {
        lending::released(std::ptr::from_ref(&self.list.node().state).addr());
        let mut word = self.word.load(Ordering::Relaxed);
        while word & WOKEN != 0 && word & STARVED == 0 && word / UNLOCKED < OVERTAKERS {
            // A waiter that was woken will look.
            let unlocked = (word & !LOCKED) + UNLOCKED;
            match self
                .word
                .compare_exchange_weak(word, unlocked, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        let mut wakers = Wakers::new();
        let Some(mut list) = self.list.node().state.lock_unless_lost() else {
            return;
        };
        self.release(&mut list, &mut wakers);
        drop(list);
        delay::point("mutex.unlock: released");
        wakers.wake();
    }

    /// Returns the flags that describe the list.
    fn flags(list: &WaitList<u32>) -> u32 {
        let Some(misses) = list.front() else { return 0 };
        let woken = if list.front_is_woken() { WOKEN } else { 0 };
        let starved = if *misses >= PATIENCE { STARVED } else { 0 };
        QUEUED | woken | starved
    }

    /// Unlocks, for a caller that has the lock: hands it to a starved first waiter, or frees it and wakes the
    /// first.
    fn release(&self, list: &mut WaitList<u32>, wakers: &mut Wakers) {
        let overtaken = self.word.load(Ordering::Relaxed) / UNLOCKED >= OVERTAKERS;
        let starved = overtaken || list.front().is_some_and(|misses| *misses >= PATIENCE);
        let waker = if starved {
            list.grant_front().and_then(|(_, waker)| waker)
        } else {
            list.wake_front()
        };
        wakers.push(waker);
        let locked = if starved { LOCKED } else { 0 };
        // Ordering: Release as in `unlock`. A store is enough: this thread has the lock and the list's lock.
        self.word.store(locked | Self::flags(list), Ordering::Release);
    }

    /// Makes the word describe the list, after a change of the list. If the lock is free and no waiter was
    /// woken, wakes the first waiter.
    fn settle(&self, list: &mut WaitList<u32>, wakers: &mut Wakers) {
        let nobody_comes = !list.is_empty() && !list.front_is_woken();
        let flags = Self::flags(list);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let take = word & LOCKED == 0 && nobody_comes;
            let locked = if take { LOCKED } else { word & LOCKED };
            // The first in line may be the one from before: others that leave do not prolong its wait.
            let count = if flags & WOKEN == 0 { 0 } else { word & COUNT };
            // Ordering: Acquire, because a lock that is taken here may be handed on.
            match self.word.compare_exchange_weak(
                word,
                locked | flags | count,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) if take => return self.release(list, wakers),
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }
}

impl WaitState for WaitList<u32> {
    /// The owner, once a task has waited.
    type Beside = Owner;

    fn empty(_kind: &'static str) -> Self {
        Self::new()
    }

    fn each(&self, owner: &Owner, object: usize, see: &mut dyn FnMut(RawWait)) {
        let owner = owner.get();
        let what = |_: &u32| RawWhat::Lock { kind: "mutex", owner };
        self.each(object, what, see);
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(value) => debug.field("value", &*value).finish(),
            None => debug.finish_non_exhaustive(),
        }
    }
}

struct Locking<'a, T>(&'a Mutex<T>);

impl<'a, T> WaitOp for Locking<'a, T> {
    type State = WaitList<u32>;
    type Item = u32;
    type Output = MutexGuard<'a, T>;
    const OWNER: Option<fn(&Self) -> Who> = Some(|this| this.0.owner.get());

    fn state(&self) -> &sync::Mutex<WaitList<u32>> {
        &self.0.list.node().state
    }

    fn list(list: &mut WaitList<u32>) -> &mut WaitList<u32> {
        list
    }

    #[inline]
    fn try_now(&self, misses: u32) -> Result<MutexGuard<'a, T>, u32> {
        self.0.try_lock().or_else(|| self.0.spin()).ok_or(misses)
    }

    fn recheck(
        &self,
        _line: &mut WaitList<u32>,
        misses: u32,
        _wakers: &mut Wakers,
    ) -> Result<MutexGuard<'a, T>, u32> {
        if let Some(owner) = self.0.list.beside() {
            owner.set_if_unknown(self.0.owner.get());
        }
        let mut word = self.0.word.load(Ordering::Relaxed);
        loop {
            // Either this locks it, or the thread that unlocks it sees in the word that a task waits.
            let wanted = if word & LOCKED == 0 { LOCKED } else { QUEUED };
            match self
                .0
                .word
                .compare_exchange_weak(word, word | wanted, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) if wanted == LOCKED => return Ok(MutexGuard::new(self.0)),
                Ok(_) => return Err(misses),
                Err(now) => word = now,
            }
        }
    }

    fn granted(&self, _misses: u32) -> MutexGuard<'a, T> {
        MutexGuard::new(self.0)
    }

    fn again(&self, list: &mut WaitList<u32>, place: &WaiterId) -> Option<MutexGuard<'a, T>> {
        // Waiters that were not woken are behind others, or the lock is held.
        list.is_woken(place).then(|| self.0.try_lock()).flatten()
    }

    fn waits_on(&self, list: &mut WaitList<u32>, place: &WaiterId, wakers: &mut Wakers) {
        if let Some(misses) = list.item_mut(place) {
            *misses += 1;
        }
        self.0.settle(list, wakers);
    }

    fn left(&self, list: &mut WaitList<u32>, _: u32, granted: bool, wakers: &mut Wakers) -> Option<u32> {
        if granted {
            self.0.release(list, wakers);
        } else {
            self.0.settle(list, wakers);
        }
        None
    }
}

/// The guard of a locked [`Mutex`]; unlocks it when dropped.
#[must_use = "dropping the guard unlocks the mutex"]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// It gives the auto traits of `&mut T`: neither `Send` nor `Sync` by itself.
    value: PhantomData<*mut T>,
}

// SAFETY: the guard is a `&mut T`, and unlocking is not tied to a thread.
unsafe impl<T: Send> Send for MutexGuard<'_, T> {}
// SAFETY: `&MutexGuard` gives `&T`, and `&Mutex<T>`, with which another thread may take the value: hence
// `T: Send`.
unsafe impl<T: Send + Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T> MutexGuard<'a, T> {
    /// Makes the guard for a caller that has locked the mutex.
    #[inline]
    fn new(mutex: &'a Mutex<T>) -> Self {
        let who = current_task();
        mutex.owner.set(who);
        if let Some(owner) = mutex.list.beside() {
            owner.set(who);
        }
        Self {
            mutex,
            value: PhantomData,
        }
    }

    /// Returns the mutex that is locked.
    pub fn mutex(guard: &Self) -> &'a Mutex<T> {
        guard.mutex
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the mutex is locked for as long as the guard lives, and the guard is borrowed.
        self.mutex.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably.
        self.mutex.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
