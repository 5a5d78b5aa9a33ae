//! The event count: one 64-bit word per pool says how many workers search and how many sleep, so that a push
//! wakes one if it must, and never loses the wake-up.
//!
#![doc = include_str!("event_count.md")]

mod rest;

use std::fmt;
use std::sync::OnceLock;
use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicU32, AtomicU64, Ordering, fence, spin_loop};
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::delay;
use warpweft_platform::park::Parker;

/// The share of one searching worker in the word. The number of searchers is never negative.
const SEARCHER: u64 = 1 << 32;
/// The share of one sleeping worker in the word. The number of sleepers is signed: it may be below zero for a
/// moment.
const SLEEPER: u64 = 1;
/// A claim on a sleeper: one sleeper fewer, one searcher more.
const CLAIM: u64 = SEARCHER.wrapping_sub(SLEEPER);
/// The word of a pool in which no worker searches and none sleeps. It is one below zero, so that [`wanted`]
/// is one comparison.
const NEITHER: u64 = 0_u64.wrapping_sub(1);

/// The worker is not in an announcement.
const AWAKE: u32 = 0;
/// The worker announced sleep; the thread that holds a claim may choose it.
const SLEEPING: u32 = 1;
/// A waker chose the worker; the permit in its parker is there or about to come.
const CHOSEN: u32 = 2;

fn searching(word: u64) -> u32 {
    let sum = word.wrapping_sub(NEITHER);
    // Sleepers below zero have borrowed from this half.
    let sleeping = i64::from(sleeping(word)).cast_unsigned();
    (sum.wrapping_sub(sleeping) >> 32) as u32
}

fn sleeping(word: u64) -> i32 {
    // The low half, signed.
    (word.wrapping_sub(NEITHER) as u32).cast_signed()
}

/// Returns true if a push that read `word` must wake a worker: none searches, and at least one sleeps.
///
/// It is one comparison, because every push makes it. If no worker searches, the word is the number of
/// sleepers less one. It is beyond `i32::MAX` if a worker searches, if none sleeps, or if the number of
/// sleepers is below zero.
#[inline]
fn wanted(word: u64) -> bool {
    word < u64::from(i32::MAX.cast_unsigned())
}

/// The state of one worker, and the parker on which it sleeps.
#[derive(Debug, Default)]
struct ParkSlot {
    state: AtomicU32,
    parker: Parker,
}

/// Wakes a worker that sleeps elsewhere.
#[derive(Default)]
struct UnparkElsewhere(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl fmt::Debug for UnparkElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnparkElsewhere")
            .field(&self.0.get().is_some())
            .finish()
    }
}

/// The idle protocol of one pool: which workers search, which sleep, and which to wake. See the
/// [module](self).
///
/// A worker uses it as follows, where `look` may miss work and `scan` may not:
///
/// ```
/// use warpweft_platform::barrier::Asymmetric;
/// use warpweft_queue::EventCount;
///
/// fn next_task(
///     idle: &EventCount,
///     w: usize,
///     look: impl Fn() -> Option<u32>,
///     scan: impl Fn() -> Option<u32>,
/// ) -> u32 {
///     let mut searching = idle.try_search();
///     loop {
///         let task = searching.then(&look).flatten().or_else(|| {
///             idle.prepare(w, searching);
///             let task = scan();
///             match task {
///                 Some(_) => idle.cancel(w),
///                 None => idle.park(w),
///             }
///             searching = true; // after `cancel` and after `park` alike
///             task
///         });
///         if let Some(task) = task {
///             if searching && idle.found() {
///                 idle.notify_one(); // ramp-up: the last searcher leaves a successor
///             }
///             return task;
///         }
///     }
/// }
///
/// let idle = EventCount::new(4, 2, Asymmetric::new());
/// assert_eq!(next_task(&idle, 0, || None, || Some(7)), 7);
/// assert_eq!(idle.snapshot(), (0, 0));
/// ```
#[derive(Debug)]
pub struct EventCount {
    word: CachePadded<AtomicU64>,
    places: Box<[CachePadded<ParkSlot>]>,
    barrier: Asymmetric,
    max_searching: u32,
    unpark_elsewhere: UnparkElsewhere,
}

impl EventCount {
    /// Makes an event count for workers `0..workers`, all awake. Workers register as searchers by themselves
    /// while fewer than `max_searching` are registered.
    ///
    /// # Panics
    ///
    /// If `workers` or `max_searching` is 0, or `workers` exceeds `i32::MAX`.
    #[must_use]
    pub fn new(workers: usize, max_searching: usize, barrier: Asymmetric) -> Self {
        assert!(workers >= 1, "an event count needs a worker");
        assert!(
            i32::try_from(workers).is_ok(),
            "the word counts sleepers in 31 bits"
        );
        assert!(
            max_searching >= 1,
            "a pool in which nobody may search finds nothing"
        );
        Self {
            word: CachePadded::new(AtomicU64::new(NEITHER)),
            places: (0..workers).map(|_| CachePadded::default()).collect(),
            barrier,
            max_searching: u32::try_from(max_searching).unwrap_or(u32::MAX),
            unpark_elsewhere: UnparkElsewhere::default(),
        }
    }

    /// Registers the caller as a searcher, unless `max_searching` workers search already. Returns true if it
    /// did. Callers at the same moment may all succeed, so the limit is no bound.
    ///
    /// A searcher must later call [`found`](Self::found) or [`prepare`](Self::prepare)`(_, true)`: until then
    /// no push wakes a worker. Costs a load, and one atomic addition if it succeeds. Nothing is repeated, so
    /// each caller takes the word's cache line once.
    pub fn try_search(&self) -> bool {
        // Ordering: Relaxed, also below. The registration publishes nothing: a thread that omits a wake-up
        // because of it relies on the order of the word's modifications alone (lemma 2).
        let enough = searching(self.word.load(Ordering::Relaxed)) >= self.max_searching;
        if !enough {
            delay::point("event_count.try_search");
            self.word.fetch_add(SEARCHER, Ordering::Relaxed);
        }
        !enough
    }

    /// Ends the caller's search, because it found work or stops for another reason without going to sleep.
    ///
    /// Returns true if it was the last searcher. Then it must call [`notify_one`](Self::notify_one), because
    /// pushes woke no other worker while it searched. Costs one atomic subtraction.
    #[must_use = "the last searcher has to leave a successor: call `notify_one` on true"]
    pub fn found(&self) -> bool {
        // Ordering: Release. A searcher that gives up later, and so finds nobody searching, has to see what
        // this one did before, such as leaving the poller. The last one's `notify_one` has the barrier.
        let before = self.word.fetch_sub(SEARCHER, Ordering::Release);
        debug_assert!(
            searching(before) > 0,
            "`found` by a worker that was not searching"
        );
        delay::point("event_count.found");
        searching(before) == 1
    }

    /// Announces that worker `w` is about to sleep. `searching` is true if it is registered as a searcher;
    /// afterwards it no longer is.
    ///
    /// The caller must then look at *every* source of work once more, exhaustively, and call either
    /// [`cancel`](Self::cancel) or [`park`](Self::park). Costs two atomic writes and the heavy half of the
    /// barrier (a system call where that is process-wide).
    pub fn prepare(&self, w: usize, searching: bool) {
        self.announce(w, searching);
        // Pairs with the light half in `notify_one` and `notify_only` (lemma 1).
        self.barrier.heavy();
    }

    /// As [`prepare`](Self::prepare), for a worker that will sleep for a bounded time only, by
    /// [`park_timeout`](Self::park_timeout) or in a poller: a push at the same moment may overlook this
    /// announcement, and then wakes no worker. Costs two atomic writes and a fence.
    pub fn prepare_brief(&self, w: usize, searching: bool) {
        self.announce(w, searching);
        // A fence on this side alone promises nothing; it makes the case rare. The checkers see no fence.
        if !cfg!(any(warpweft_loom, warpweft_shuttle)) {
            fence(Ordering::SeqCst);
        }
    }

    fn announce(&self, w: usize, searching: bool) {
        // The slot comes before the count, so that a thread that claims a counted sleeper finds a slot.
        // Ordering: Relaxed, published by the Release below to a claimer, and by the barrier to
        // `notify_only`.
        self.places[w].state.store(SLEEPING, Ordering::Relaxed);
        delay::point("event_count.prepare: place");
        // One modification for both counts: a push never sees this worker as neither searching nor sleeping.
        // Ordering: Release pairs with the Acquire of a claim (`wake_any`), and Acquire with the Release of
        // `found`.
        self.word.fetch_add(
            SLEEPER.wrapping_sub(SEARCHER * u64::from(searching)),
            Ordering::AcqRel,
        );
        delay::point("event_count.prepare: word");
    }

    /// Returns true if a waker has chosen worker `w`, which has announced sleep: its sleep will end at once.
    /// The answer may be old.
    #[must_use]
    pub fn is_chosen(&self, w: usize) -> bool {
        // Ordering: Relaxed. A hint.
        self.places[w].state.load(Ordering::Relaxed) == CHOSEN
    }

    /// Withdraws the announcement of worker `w`, whose last look found work. It is registered as a searcher
    /// afterwards.
    ///
    /// The caller, with work in hand, then calls [`found`](Self::found). So it wakes a successor for what was
    /// pushed while it was between searching and sleeping. Costs an atomic addition and a compare-and-swap.
    /// If a waker had chosen `w` meanwhile, the caller waits for the rest of that wake-up: a few instructions
    /// of the waker, unless it is preempted there.
    pub fn cancel(&self, w: usize) {
        let place = &self.places[w];
        // The word first: until it no longer counts this worker as a sleeper, its slot must be there for
        // claimers.
        // Ordering: Relaxed. This claim reads only this worker's slot, which this thread wrote.
        self.word.fetch_add(CLAIM, Ordering::Relaxed);
        delay::point("event_count.cancel: claimed");
        // Ordering: Relaxed. The state only decides which thread ends the announcement; the parker carries
        // the data.
        if place
            .state
            .compare_exchange(SLEEPING, AWAKE, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            // A waker was first. Its permit must not wake a later sleep, and its claim has registered this
            // worker, so this thread's claim is surplus. No thread needs to learn of that: a push that
            // omitted its wake-up because of the surplus is covered by the registration that stays.
            self.take_permit(place);
            self.give_back();
        }
    }

    /// Puts worker `w` to sleep until it is chosen, after its last look found nothing. It is registered as a
    /// searcher afterwards (its waker did that).
    ///
    /// Everything before the wake-up happens before the return. There is no time-out.
    pub fn park(&self, w: usize) {
        delay::point("event_count.park");
        self.take_permit(&self.places[w]);
    }

    /// As [`park`](Self::park), but for at most `ns` nanoseconds, for a worker that must look again in any
    /// case. It does not replace a wake-up: a thread that makes work visible calls `notify_one` all the same.
    /// Returns true if a waker chose the worker.
    pub fn park_timeout(&self, w: usize, ns: u64) -> bool {
        let place = &self.places[w];
        let chosen = place.parker.wait_for(ns);
        if chosen {
            self.take_permit(place);
        } else {
            self.cancel(w);
        }
        chosen
    }

    /// Sets the function that wakes a worker in [`park_elsewhere`](Self::park_elsewhere); only the first call
    /// counts. `unpark_elsewhere` must also end a sleep that begins a moment later.
    pub fn unpark_by(&self, unpark_elsewhere: impl Fn() + Send + Sync + 'static) {
        let _ = self.unpark_elsewhere.0.set(Box::new(unpark_elsewhere));
    }

    /// As [`park`](Self::park), but the worker sleeps in `sleep`: in a poller, which may also return for
    /// other reasons. Before, a waker that chooses the worker calls the argument of
    /// [`unpark_by`](Self::unpark_by).
    ///
    /// Afterwards the worker is awake and registered as a searcher, in both cases: it was chosen, or `sleep`
    /// returned by itself. Returns true if it was chosen.
    pub fn park_elsewhere(&self, w: usize, sleep: impl FnOnce()) -> bool {
        let place = &self.places[w];
        let chosen = !place.parker.leave() || {
            delay::point("event_count.park_elsewhere: left");
            sleep();
            place.parker.come_back()
        };
        if chosen {
            self.take_permit(place);
        } else {
            self.cancel(w);
        }
        chosen
    }

    /// Wakes a sleeper, unless a worker searches already or none sleeps. Call it after work was made visible.
    ///
    /// Returns true if it woke one. If there is nothing to do it costs the light half of the barrier and one
    /// load. Otherwise it costs a compare-and-swap on the word, a search for a slot in O(workers), and the
    /// system call of the wake-up. The search begins at the lowest index, so that the same few workers stay
    /// warm.
    #[inline]
    pub fn notify_one(&self) -> bool {
        let word = self.look();
        wanted(word) && self.wake_any(word)
    }

    /// Returns true if [`notify_one`](Self::notify_one) has something to do. Call it after work was made
    /// visible. For a caller that keeps the wake-up out of line; after `false` no call is necessary.
    #[inline]
    #[must_use = "on true somebody has to be woken: call `notify_one`"]
    pub fn is_wanted(&self) -> bool {
        wanted(self.look())
    }

    /// Returns the word. Call it after work was made visible.
    #[inline]
    fn look(&self) -> u64 {
        // Pairs with the heavy half in `prepare` (lemma 1).
        self.barrier.light();
        // Ordering: Relaxed. The barrier gives the order after the push; a claim acquires by itself.
        self.word.load(Ordering::Relaxed)
    }

    /// Wakes worker `w` if it sleeps and no worker searches; otherwise does what
    /// [`notify_one`](Self::notify_one) does. Call it after work for worker `w` was made visible.
    ///
    /// Returns true if it woke a worker.
    #[inline]
    pub fn notify(&self, w: usize) -> bool {
        self.notify_only(w) || self.notify_one()
    }

    /// Wakes worker `w` if it sleeps. Call it after work that only `w` can do was made visible.
    ///
    /// Returns true if it woke a worker. If `w` is awake it costs the light half of the barrier and one load.
    /// Otherwise it costs an atomic addition, a compare-and-swap, and the system call of the wake-up.
    #[inline]
    pub fn notify_only(&self, w: usize) -> bool {
        // Pairs with the heavy half in `prepare` (lemma 1, with the slot instead of the word).
        self.barrier.light();
        // Ordering: Relaxed. The barrier gives the order after the push.
        self.places[w].state.load(Ordering::Relaxed) == SLEEPING && self.wake_worker(w)
    }

    /// Wakes every sleeper, for shutdown. Call it after the news was made visible.
    ///
    /// A worker that announces sleep at the same time sees the news in its last look. Costs O(workers).
    pub fn notify_all(&self) {
        for w in 0..self.places.len() {
            self.notify_only(w);
        }
    }

    /// Returns true if worker `w` has not announced sleep, or its wake-up is over. The answer may be old.
    #[must_use]
    pub fn is_awake(&self, w: usize) -> bool {
        // Ordering: Relaxed. The caller looks again.
        self.places[w].state.load(Ordering::Relaxed) == AWAKE
    }

    /// Returns how many workers search and how many sleep, for counters and tests.
    ///
    /// The answer is exact only when no worker changes it.
    #[must_use]
    pub fn snapshot(&self) -> (usize, usize) {
        // Ordering: Relaxed. For reports only.
        let word = self.word.load(Ordering::Relaxed);
        (searching(word) as usize, sleeping(word).max(0) as usize)
    }

    /// Claims sleepers and chooses a slot for the claim, for as long as a wake-up is wanted.
    #[cold]
    fn wake_any(&self, mut word: u64) -> bool {
        while wanted(word) {
            // Ordering: Acquire pairs with the Release of `prepare`: the slots of all counted sleepers are
            // visible. (Any modifications between the two are RMWs and continue the release sequence.)
            let claim = word.wrapping_add(CLAIM);
            match self
                .word
                .compare_exchange_weak(word, claim, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => {
                    delay::point("event_count.wake_any: claimed");
                    if (0..self.places.len()).any(|w| self.choose(w)) {
                        return true;
                    }
                    // All sleepers that the claim counted left by themselves or were chosen by others. If
                    // this claim was the only registration, pushes may have relied on it: look again.
                    word = self.give_back();
                }
                Err(now) => word = now,
            }
            spin_loop();
        }
        false
    }

    /// Claims and chooses worker `w`, which was seen sleeping.
    #[cold]
    fn wake_worker(&self, w: usize) -> bool {
        // The count may fall below zero here, when others have claimed all sleepers but not chosen yet. One
        // of them will find no slot and give its claim back.
        // Ordering: Relaxed. The claim is for one slot, and `choose` decides about that.
        self.word.fetch_add(CLAIM, Ordering::Relaxed);
        delay::point("event_count.wake_worker: claimed");
        if self.choose(w) {
            return true;
        }
        // It no longer sleeps. If this claim was the only registration, pushes may have relied on it.
        let word = self.give_back();
        self.wake_any(word)
    }

    /// The one function that wakes: turns the caller's claim and a sleeping slot into a searching worker.
    ///
    /// It does not touch the slot after leaving the permit; the permit itself lives as long as `self`. A
    /// worker that sleeps elsewhere finds the permit in both cases: it was woken, or it returned by itself.
    fn choose(&self, w: usize) -> bool {
        let place = &self.places[w];
        // Ordering: Relaxed, both. The state only decides which thread ends the announcement; `unpark`
        // publishes.
        let chosen = place.state.load(Ordering::Relaxed) == SLEEPING
            && place
                .state
                .compare_exchange(SLEEPING, CHOSEN, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if chosen {
            delay::point("event_count.choose: chosen");
            place.parker.unpark_or(|| {
                if let Some(unpark_elsewhere) = self.unpark_elsewhere.0.get() {
                    unpark_elsewhere();
                }
            });
        }
        chosen
    }

    /// Undoes a claim that found no slot, and returns the word after that.
    fn give_back(&self) -> u64 {
        delay::point("event_count.give_back");
        // Ordering: Relaxed. It publishes nothing; the caller decides on the value itself (lemma 2).
        self.word.fetch_sub(CLAIM, Ordering::Relaxed).wrapping_sub(CLAIM)
    }

    /// Waits for the permit of the waker that chose this slot, and ends the announcement.
    fn take_permit(&self, place: &ParkSlot) {
        place.parker.park();
        // Ordering: Relaxed. `park` acquired what the waker wrote before the permit.
        let state = place.state.load(Ordering::Relaxed);
        // A permit without a choice would be a wake-up that the word does not count, and then the next one is
        // lost.
        assert_eq!(state, CHOSEN, "a worker was woken without being chosen");
        // Ordering: Relaxed. No waker touches a chosen slot, and the next announcement publishes anew.
        place.state.store(AWAKE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{CLAIM, NEITHER, SEARCHER, SLEEPER, searching, sleeping, wanted};

    /// Claims, announcements and their undoing in any order: neither half changes the other, also below zero
    /// sleepers and with more threads than there can be.
    #[test]
    fn halves_do_not_borrow() {
        let steps = [
            CLAIM,
            CLAIM,
            0_u64.wrapping_sub(CLAIM),
            0_u64.wrapping_sub(CLAIM),
            SLEEPER,
            SEARCHER,
            0_u64.wrapping_sub(SEARCHER),
        ];
        let counts = [(1, -1), (1, -1), (-1, 1), (-1, 1), (0, 1), (1, 0), (-1, 0)];
        for (searchers, sleepers) in [
            (1, 0),
            (2, -2),
            (1 << 31, i32::MAX - 8),
            (u32::MAX - 8, i32::MIN + 8),
        ] {
            let sleeping_part = i64::from(sleepers).cast_unsigned();
            let start = NEITHER
                .wrapping_add(u64::from(searchers) << 32)
                .wrapping_add(sleeping_part);
            let (mut word, mut want) = (start, (i64::from(searchers), i64::from(sleepers)));
            for (step, count) in steps.into_iter().zip(counts) {
                word = word.wrapping_add(step);
                want = (want.0 + count.0, want.1 + count.1);
                assert_eq!((i64::from(searching(word)), i64::from(sleeping(word))), want);
            }
        }
    }

    #[test]
    fn a_wake_up_is_wanted_when_somebody_sleeps_and_nobody_searches() {
        let wanted = |counts: u64| wanted(NEITHER.wrapping_add(counts));
        assert!(!wanted(0));
        assert!(wanted(SLEEPER));
        assert!(wanted(2 * SLEEPER));
        assert!(
            wanted(u64::from(i32::MAX.cast_unsigned())),
            "as many as there can be"
        );
        assert!(!wanted(SLEEPER + SEARCHER));
        assert!(!wanted(CLAIM), "more claims than sleepers");
        assert!(!wanted(0_u64.wrapping_sub(SLEEPER)), "never below zero sleepers");
    }
}
