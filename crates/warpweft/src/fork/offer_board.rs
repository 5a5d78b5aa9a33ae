//! The offers of a pool, from a thief's side.
//!
//! # When a fork is taken
//!
//! Not at once: to take one costs a system call here and an interruption there, some microseconds, and a
//! small fork is done by then. A thief takes what it has seen on offer for [`RIPE_NS`]. Small trees are never
//! disturbed, large ones spread within microseconds. If what it took was done sooner than that, it waits
//! longer for the next, up to
//! [`PARK_TIMEOUT_NS`]: a scope of a million empty jobs is not worth an interruption each.
//!
//! # Who notices an offer
//!
//! A worker that searches, or the *watcher*: one worker without work that takes timed park instead of a sleep
//! as long as forks come and go. So an owner that offers a fork wakes nobody, unless there is no watcher.
//!
//! ```text
//!   owner:    offer; light barrier; is there a watcher? no: wake a sleeper, unless somebody searches
//!   watcher:  no watcher; then it announces sleep and looks once more, or it has found work and leaves a successor
//!             among the searchers, who will announce sleep and look once more
//! ```

use super::offer::Offer;
use super::stealable_job::{StealableJob, Stolen};
use std::cell::Cell;
use std::ptr;
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::{CachePadded, clock};

/// How long a fork is on offer before a thief takes it, in nanoseconds. Under the checkers, where no clock
/// runs, it is taken at once.
const RIPE_NS: Option<u64> = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    None
} else {
    Some(10_000)
};

/// The length of a timed park where nothing ripens, or small forks come and go, in nanoseconds.
const PARK_TIMEOUT_NS: u64 = 40_000;

/// After so many timed park in which nothing was forked, the watcher sleeps.
const TIMED_PARKS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    1
} else {
    25
};

/// More forks than that between two looks come and go.
const FEW: u64 = 4;

/// What a thief remembers from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct OfferView {
    /// How much longer than [`RIPE_NS`] it lets forks ripen, in nanoseconds.
    reluctance: Cell<u64>,
    /// The victim whose offer is ripening, the turn, and since when.
    ripening: Cell<Option<(usize, u64, u64)>>,
    /// All turns of the pool, when this worker looked last.
    turns: Cell<u64>,
    timed_parks: Cell<u32>,
    watches: Cell<bool>,
}

impl OfferView {
    /// Whether this worker saw that offer at least so long ago. If not, it remembers it.
    fn has_ripened(&self, victim: usize, turn: u64, ripe_ns: u64) -> bool {
        let now = clock::now_ns();
        match self.ripening.get() {
            Some((who, which, since)) if (who, which) == (victim, turn) => {
                now.saturating_sub(since) >= ripe_ns + self.reluctance.get()
            }
            _ => {
                self.ripening.set(Some((victim, turn, now)));
                false
            }
        }
    }

    /// What was taken at `start` is done: whether it was worth it.
    pub(crate) fn learn(&self, start_ns: u64) {
        if let Some(ripe_ns) = RIPE_NS {
            let small = clock::now_ns() - start_ns < ripe_ns;
            let more = (self.reluctance.get() + ripe_ns).min(PARK_TIMEOUT_NS - ripe_ns);
            self.reluctance.set(if small { more } else { 0 });
        }
    }
}

#[derive(Debug)]
pub(crate) struct OfferBoard {
    offers: Box<[CachePadded<Offer<StealableJob>>]>,
    /// Whether there is somebody to take what another worker offers.
    has_takers: bool,
    /// Somebody takes timed park.
    watched: CachePadded<AtomicBool>,
    barrier: Asymmetric,
}

impl OfferBoard {
    /// For so many workers, of which the first `takers` take forks.
    pub(crate) fn new(workers: usize, takers: usize) -> Self {
        let barrier = Asymmetric::new();
        Self {
            offers: (0..workers)
                .map(|_| CachePadded::new(Offer::new(barrier)))
                .collect(),
            has_takers: takers > 1,
            watched: CachePadded::new(AtomicBool::new(false)),
            barrier,
        }
    }

    /// Where `worker` offers its forks; null if nobody could take them.
    pub(crate) fn of(&self, worker: usize) -> *const Offer<StealableJob> {
        if !self.has_takers {
            ptr::null()
        } else {
            &*self.offers[worker]
        }
    }

    /// After an offer: whether somebody has to be woken for it.
    #[inline]
    pub(crate) fn is_unwatched(&self) -> bool {
        self.barrier.light();
        // Ordering: Relaxed; the barrier orders it after the offer.
        !self.watched.load(Ordering::Relaxed)
    }

    /// From now on no offer wakes anybody: this is a forked child, and all who could take it stayed in the
    /// parent.
    pub(crate) fn wake_nobody(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// Takes a ripe fork of somebody else's.
    pub(crate) fn steal(&self, me: usize, seen: &OfferView) -> Option<Stolen> {
        let count = self.offers.len();
        let (victim, turn) = (1..count)
            .map(|distance| (me + distance) % count)
            .find_map(|victim| self.offers[victim].look().map(|turn| (victim, turn)))?;
        if RIPE_NS.is_some_and(|ripe_ns| !seen.has_ripened(victim, turn, ripe_ns)) {
            return None;
        }
        let taken = self.offers[victim].take(turn)?;
        // SAFETY: the offer gave it to us alone.
        Some(unsafe { Stolen::new(taken) })
    }

    /// Worker `me` found nothing anywhere and has announced that it sleeps: for how long it should, in
    /// nanoseconds. `None`: until it is woken.
    pub(crate) fn park_timeout_ns(&self, seen: &OfferView) -> Option<u64> {
        if !self.has_takers {
            return None;
        }
        let turns = self
            .offers
            .iter()
            .fold(0, |sum: u64, offer| sum.wrapping_add(offer.turns()));
        let ripening = self.any();
        let come = turns.wrapping_sub(seen.turns.replace(turns));
        let forked = come != 0 || ripening;
        seen.timed_parks
            .set(if forked { 0 } else { seen.timed_parks.get() + 1 });
        let timed_park = RIPE_NS
            .filter(|_| ripening && come <= FEW)
            .unwrap_or(PARK_TIMEOUT_NS);
        if seen.watches.get() {
            if seen.timed_parks.get() > TIMED_PARKS {
                self.stop_watching(seen);
                // Not asleep yet: the next announcement orders a last look after this.
                return Some(0);
            }
            return Some(timed_park);
        }
        // Ordering: Relaxed; who reads it true relies on the next look of the watcher, which is after it.
        let watches = forked && !self.watched.swap(true, Ordering::Relaxed);
        seen.watches.set(watches);
        watches.then_some(timed_park)
    }

    /// The worker has found work, and does not watch any more. To be called before it ceases to be a
    /// searcher: the successor that it leaves looks at all offers.
    pub(crate) fn stop_watching(&self, seen: &OfferView) {
        if seen.watches.replace(false) {
            // Ordering: Relaxed; what follows, leaving the searchers or announcing sleep, orders it before
            // somebody's look.
            self.watched.store(false, Ordering::Relaxed);
        }
    }

    /// Whether a thief looks again at once: under the checkers, where no clock lets a fork ripen.
    pub(crate) fn insists(&self) -> bool {
        RIPE_NS.is_none() && self.any()
    }

    /// Whether somebody offers something.
    pub(crate) fn any(&self) -> bool {
        self.offers.iter().any(|offer| offer.look().is_some())
    }
}
