#![doc = include_str!("event_count.md")]

use std::fmt;
use std::sync::OnceLock;
use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicU32, AtomicU64, Ordering, spin_loop};
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::delay;
use warpweft_platform::park::Parker;

/// What one searching worker adds to the word. Their number is never negative.
const SEARCHER: u64 = 1 << 32;
/// What one sleeping worker adds to the word. Their number is signed: it may lag below zero for a moment.
const SLEEPER: u64 = 1;
/// A claim on a sleeper: one sleeper fewer, one searcher more.
const CLAIM: u64 = SEARCHER.wrapping_sub(SLEEPER);
/// The word of a pool in which no worker searches and none sleeps. One below zero, so that [`wanted`] is one
/// comparison.
const NEITHER: u64 = 0_u64.wrapping_sub(1);

/// The worker is not in an announcement.
const AWAKE: u32 = 0;
/// The worker announced sleep; whoever holds a claim may choose it.
const SLEEPING: u32 = 1;
/// A waker chose the worker; the token in its parker is there or about to come.
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

/// Whether a push that read `word` has to wake a worker: none searches, and at least one sleeps.
///
/// One comparison, because every push asks. If none searches, the word is the number of sleepers less one. It
/// is beyond `i32::MAX` if a worker searches, if none sleeps, or if the number of sleepers lags below zero.
#[inline]
fn wanted(word: u64) -> bool {
    word < u64::from(i32::MAX.cast_unsigned())
}

/// Where one worker sleeps.
#[derive(Debug, Default)]
struct ParkSlot {
    state: AtomicU32,
    parker: Parker,
}

/// How a worker that sleeps elsewhere is woken there.
#[derive(Default)]
struct UnparkElsewhere(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl fmt::Debug for UnparkElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnparkElsewhere")
            .field(&self.0.get().is_some())
            .finish()
    }
}

/// The idle protocol of one pool: who searches, who sleeps, and whom to wake. See the [module](self).
///
/// A worker's way through it, where `look` may miss work and `scan` may not:
///
/// ```
/// use warpweft_platform::barrier::Asymmetric;
/// use warpweft_queue::EventCount;
///
/// fn next_task(idle: &EventCount, w: usize, look: impl Fn() -> Option<u32>, scan: impl Fn() -> Option<u32>) -> u32 {
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
    /// An event count for workers `0..workers`, all awake, of which at most `max_searching` register as
    /// searchers by themselves.
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

    /// Registers the caller as a searcher, unless `max_searching` are at it already.
    ///
    /// A searcher owes one of [`found`](Self::found) and [`prepare`](Self::prepare)`(_, true)`: until then no
    /// push wakes anybody. Costs a load, and a compare-and-swap if it succeeds.
    pub fn try_search(&self) -> bool {
        // Ordering: Relaxed, also below. The registration publishes nothing: whoever skips a wake-up because
        // of it relies on the order of the word's modifications alone (lemma 2).
        let mut word = self.word.load(Ordering::Relaxed);
        while searching(word) < self.max_searching {
            match self.word.compare_exchange_weak(
                word,
                word.wrapping_add(SEARCHER),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
            spin_loop();
        }
        false
    }

    /// The searching caller has found work, or stops searching for another reason without going to sleep.
    ///
    /// Returns `true` if it was the last searcher: then it must call [`notify_one`](Self::notify_one),
    /// because pushes were not announced to anybody else while it searched. Costs one atomic subtraction.
    #[must_use = "the last searcher has to leave a successor: call `notify_one` on true"]
    pub fn found(&self) -> bool {
        // Ordering: Relaxed. The caller publishes nothing here; its `notify_one` has the barrier.
        let before = self.word.fetch_sub(SEARCHER, Ordering::Relaxed);
        debug_assert!(
            searching(before) > 0,
            "`found` by a worker that was not searching"
        );
        delay::point("event_count.found");
        searching(before) == 1
    }

    /// Announces that worker `w` is about to sleep; `searching` says whether it is registered as a searcher,
    /// which it is no longer afterwards.
    ///
    /// The caller must then look at *every* source of work once more, exhaustively, and call either
    /// [`cancel`](Self::cancel) or [`park`](Self::park). Costs two atomic writes and the heavy half of the
    /// barrier (a system call where that is process-wide).
    pub fn prepare(&self, w: usize, searching: bool) {
        // The place comes before the count, so that whoever claims a counted sleeper finds a place. Ordering:
        // Relaxed, published by the Release below to a claimer, and by the barrier to `notify_only`.
        self.places[w].state.store(SLEEPING, Ordering::Relaxed);
        delay::point("event_count.prepare: place");
        // One modification for both counts: a push never sees this worker as neither searching nor sleeping.
        // Ordering: Release pairs with the Acquire of a claim (`wake_any`).
        self.word.fetch_add(
            SLEEPER.wrapping_sub(SEARCHER * u64::from(searching)),
            Ordering::Release,
        );
        delay::point("event_count.prepare: word");
        // Pairs with the light half in `notify_one` and `notify_only` (lemma 1).
        self.barrier.heavy();
    }

    /// The last look found work: worker `w` takes its announcement back. It is registered as a searcher
    /// afterwards.
    ///
    /// The caller, with work in hand, goes on to [`found`](Self::found), which makes it wake a successor for
    /// what was pushed while it stood between searching and sleeping. Costs an atomic addition and a
    /// compare-and-swap. If a waker had chosen `w` in the meantime, the caller waits for the rest of that
    /// wake-up: a few instructions of the waker, unless it is preempted just there.
    pub fn cancel(&self, w: usize) {
        let place = &self.places[w];
        // The word first: until it says that this worker is no sleeper, its place has to be there for
        // claimers.
        // Ordering: Relaxed. This claim looks at its own place only, which this thread wrote.
        self.word.fetch_add(CLAIM, Ordering::Relaxed);
        delay::point("event_count.cancel: claimed");
        // Ordering: Relaxed. The state only decides who ends the announcement; the parker carries the data.
        if place
            .state
            .compare_exchange(SLEEPING, AWAKE, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            // A waker was first. Its token must not wake a later sleep, and its claim has registered this
            // worker, so one's own is surplus. Nobody needs to hear of that: a push that skipped its wake-up
            // because of the surplus is covered by the registration that stays.
            self.take_token(place);
            self.give_back();
        }
    }

    /// The last look found nothing: worker `w` sleeps until it is chosen. It is registered as a searcher
    /// afterwards (its waker did that).
    ///
    /// What happened before the wake-up happens before the return. There is no time-out.
    pub fn park(&self, w: usize) {
        delay::point("event_count.park");
        self.take_token(&self.places[w]);
    }

    /// As [`park`](Self::park), but not for longer than `ns` nanoseconds: for a worker that has to look again
    /// whether or not somebody wakes it. No substitute for a wake-up: who makes work visible calls
    /// `notify_one` all the same.
    pub fn park_timeout(&self, w: usize, ns: u64) {
        let place = &self.places[w];
        if !place.parker.wait_for(ns) {
            self.cancel(w);
        } else {
            self.take_token(place);
        }
    }

    /// Says how a worker in [`park_elsewhere`](Self::park_elsewhere) is woken; only the first call counts.
    /// `unpark_elsewhere` must also end a sleep that begins a moment later.
    pub fn unpark_by(&self, unpark_elsewhere: impl Fn() + Send + Sync + 'static) {
        let _ = self.unpark_elsewhere.0.set(Box::new(unpark_elsewhere));
    }

    /// As [`park`](Self::park), but the worker sleeps in `sleep`: in a poller, which has its own reasons to
    /// return. A waker that chooses the worker calls what [`unpark_by`](Self::rouse_by) was given, before.
    ///
    /// Afterwards the worker is awake and registered as a searcher, whether it was chosen or `sleep` returned
    /// by itself.
    pub fn park_elsewhere(&self, w: usize, sleep: impl FnOnce()) {
        let place = &self.places[w];
        let chosen = !place.parker.leave() || {
            delay::point("event_count.park_elsewhere: left");
            sleep();
            place.parker.come_back()
        };
        if chosen {
            self.take_token(place);
        } else {
            self.cancel(w);
        }
    }

    /// Call after work was made visible: wakes a sleeper, unless somebody searches already or nobody sleeps.
    ///
    /// Returns whether it woke one. Costs the light half of the barrier and one load if there is nothing to
    /// do; otherwise a compare-and-swap on the word, a search for a place in O(workers) from the lowest index
    /// (so that the same few workers stay warm), and the system call of the wake-up.
    #[inline]
    pub fn notify_one(&self) -> bool {
        let word = self.look();
        wanted(word) && self.wake_any(word)
    }

    /// Call after work was made visible: whether [`notify_one`](Self::notify_one) has anything to do. For who
    /// wants to have that out of line; the answer `false` is all that is owed.
    #[inline]
    #[must_use = "on true somebody has to be woken: call `notify_one`"]
    pub fn is_wanted(&self) -> bool {
        wanted(self.look())
    }

    /// The word, after work was made visible.
    #[inline]
    fn look(&self) -> u64 {
        // Pairs with the heavy half in `prepare` (lemma 1).
        self.barrier.light();
        // Ordering: Relaxed. The barrier gives the order after the push; a claim acquires by itself.
        self.word.load(Ordering::Relaxed)
    }

    /// Call after work for worker `w` was made visible: wakes `w` if it sleeps, whoever else is searching;
    /// otherwise does what [`notify_one`](Self::notify_one) does.
    ///
    /// Returns whether it woke a worker.
    #[inline]
    pub fn notify(&self, w: usize) -> bool {
        self.notify_only(w) || self.notify_one()
    }

    /// Call after work that only worker `w` can do was made visible: wakes `w` if it sleeps.
    ///
    /// Returns whether it woke a worker. Costs the light half of the barrier and one load of `w`'s place if
    /// `w` is awake; otherwise an atomic addition, a compare-and-swap, and the system call of the wake-up.
    #[inline]
    pub fn notify_only(&self, w: usize) -> bool {
        // Pairs with the heavy half in `prepare` (lemma 1, with the place instead of the word).
        self.barrier.light();
        // Ordering: Relaxed. The barrier gives the order after the push.
        self.places[w].state.load(Ordering::Relaxed) == SLEEPING && self.wake_worker(w)
    }

    /// Wakes every sleeper, for shutdown: call after what they shall see was made visible.
    ///
    /// A worker that announces sleep at the same time sees it in its last look. Costs O(workers).
    pub fn notify_all(&self) {
        for w in 0..self.places.len() {
            self.notify_only(w);
        }
    }

    /// Whether worker `w` has not announced sleep, or its wake-up is over: one moment's view of what others
    /// change.
    #[must_use]
    pub fn is_awake(&self, w: usize) -> bool {
        // Ordering: Relaxed. For who looks again.
        self.places[w].state.load(Ordering::Relaxed) == AWAKE
    }

    /// How many workers are searching and how many sleep, for counters and tests.
    ///
    /// One moment's view of a word that others change: exact when nothing moves.
    #[must_use]
    pub fn snapshot(&self) -> (usize, usize) {
        // Ordering: Relaxed. For human eyes.
        let word = self.word.load(Ordering::Relaxed);
        (searching(word) as usize, sleeping(word).max(0) as usize)
    }

    /// Claims sleepers and chooses a place for the claim, for as long as a wake-up is wanted.
    #[cold]
    fn wake_any(&self, mut word: u64) -> bool {
        while wanted(word) {
            // Ordering: Acquire pairs with the Release of `prepare`: the places of all counted sleepers are
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
                    // Those whom the claim could have meant left by themselves or were chosen by others. If
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
        // The count may go below zero here, when others have claimed all sleepers but not chosen yet: one of
        // them will find no place and give its claim back.
        // Ordering: Relaxed. The claim is for one place, and `choose` decides about that.
        self.word.fetch_add(CLAIM, Ordering::Relaxed);
        delay::point("event_count.wake_worker: claimed");
        if self.choose(w) {
            return true;
        }
        // Not asleep any more. If this claim was the only registration, pushes may have relied on it.
        let word = self.give_back();
        self.wake_any(word)
    }

    /// The one function that wakes: turns the caller's claim and a sleeping place into a searching worker.
    ///
    /// Nothing of the place is touched after the token is left, and the token itself lives as long as `self`.
    /// A worker that sleeps elsewhere finds the token whether it returns because it was woken or by itself.
    fn choose(&self, w: usize) -> bool {
        let place = &self.places[w];
        // Ordering: Relaxed, both. The state only decides who ends the announcement; `unpark` publishes.
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

    /// Undoes a claim that found no place; returns the word after that.
    fn give_back(&self) -> u64 {
        delay::point("event_count.give_back");
        // Ordering: Relaxed. It publishes nothing; what the caller decides on is the value itself (lemma 2).
        self.word.fetch_sub(CLAIM, Ordering::Relaxed).wrapping_sub(CLAIM)
    }

    /// Waits for the token of the waker that chose this place, and ends the announcement.
    fn take_token(&self, place: &ParkSlot) {
        place.parker.park();
        // Ordering: Relaxed. `park` acquired what the waker wrote before the token.
        let state = place.state.load(Ordering::Relaxed);
        // A token without a choice would be a wake-up that the word does not know of, and the next one is
        // lost.
        assert_eq!(state, CHOSEN, "a worker was woken without being chosen");
        // Ordering: Relaxed. No waker touches a chosen place, and the next announcement publishes anew.
        place.state.store(AWAKE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{CLAIM, NEITHER, SEARCHER, SLEEPER, searching, sleeping, wanted};

    /// Claims, announcements and their undoing in any order: neither half touches the other, also below zero
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
