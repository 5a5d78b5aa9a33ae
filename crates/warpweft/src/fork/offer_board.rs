//! The offers of a pool, from a thief's side.
//!
//! # When a fork is taken
//!
//! A thief does not take a fork at once. A theft costs a system call here and an interruption there, some
//! microseconds, and a small fork is done by then. A thief takes what it has seen on offer for [`RIPE_NS`].
//! So small trees are never disturbed, and large ones spread within microseconds. If the stolen fork took
//! less time than that, the thief waits longer for the next one, up to [`PARK_TIMEOUT_NS`]. A scope of a
//! million empty jobs is not worth an interruption each. If it took longer than [`LARGE_NS`], the next one
//! need not ripen.
//!
//! A thief remembers since when each worker has offered the same fork. So one look is enough for all offers,
//! and a worker whose small forks come and go does not hide the large forks of others: see
//! `docs/decisions/0079-forks-ripen-side-by-side.md`.
//!
//! # Which worker notices an offer
//!
//! A worker that searches notices it, or the *watcher*. The watcher is one worker without work that parks
//! with a time-out instead of sleeping while it sees an offer that is not ripe, or while many came since its
//! last look. So an owner whose small forks come and go wakes no worker, unless there is no watcher.
//!
//! ```text
//!   owner:    offer; light barrier; is there a watcher? no: wake a sleeper, unless a worker searches
//!   watcher:  clears `watched`; then it announces sleep and looks once more, or it has found work and
//!             leaves a successor among the searchers, which announces sleep and looks once more
//! ```

use super::offer::Offer;
use super::stealable::{Stealable, Stolen};
use std::cell::{Cell, OnceCell};
use std::ptr;
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::{CachePadded, clock};

/// The time that a fork is on offer before a thief takes it, in nanoseconds. Under the checkers, where no
/// clock runs, a thief takes it at once.
const RIPE_NS: Option<u64> = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    None
} else {
    Some(10_000)
};

/// The length of a timed park where nothing ripens, or small forks come and go, in nanoseconds.
const PARK_TIMEOUT_NS: u64 = 40_000;

/// A fork that took this many nanoseconds is large: its thief takes the next one at once. Forks that come one
/// after the other are mostly alike.
const LARGE_NS: u64 = 30_000;

/// The number of forks between two looks, for each worker that offers one, above which the watcher does not
/// wait for one to ripen. A watcher that sees no offer stays if more than this many came.
const FEW: u64 = 4;

/// By victim, a turn and the time since when it is known.
type Ripening = Box<[Cell<(u64, u64)>]>;

/// What a thief remembers from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct OfferView {
    /// How much longer than [`RIPE_NS`] it lets forks ripen, in nanoseconds.
    reluctance: Cell<u64>,
    /// For each victim the turn that is ripening, and the time since when. Made at the first offer.
    ripening: OnceCell<Ripening>,
    /// The sum of all turns of the pool at this worker's last look.
    turns: Cell<u64>,
    watches: Cell<bool>,
    /// The worker from which it took the last fork.
    victim: Cell<usize>,
    /// The last fork that it took was a large one: the next one need not ripen.
    eager: Cell<bool>,
    /// True from a wake-up to the first offer that it sees.
    woken: Cell<bool>,
}

impl OfferView {
    /// Notes that the thief was woken: the first offer that it sees has been there for as long as that took.
    pub(crate) fn woken(&self) {
        self.woken.set(true);
    }

    /// Returns the worker from which it took the last fork.
    pub(crate) fn victim(&self) -> usize {
        self.victim.get()
    }

    /// Returns the first of these offers, of `workers` workers, that this worker saw at least `ripe_ns`
    /// ago. It remembers the others.
    fn first_ripe(
        &self,
        offers: impl Iterator<Item = (usize, u64)>,
        workers: usize,
        ripe_ns: u64,
    ) -> Option<(usize, u64)> {
        let mut offers = offers.peekable();
        let first = *offers.peek()?;
        let was_woken = self.woken.replace(false) && self.reluctance.get() == 0;
        if was_woken || self.eager.get() {
            return Some(first);
        }
        let ripening = self
            .ripening
            .get_or_init(|| (0..workers).map(|_| Cell::new((0, 0))).collect());
        let now = clock::now_ns();
        offers.find(|&(victim, turn)| {
            let (which, since) = ripening[victim].get();
            if which != turn {
                ripening[victim].set((turn, now));
                return false;
            }
            now.saturating_sub(since) >= ripe_ns + self.reluctance.get()
        })
    }

    /// Learns from a stolen fork that began at `start_ns` and is done: the thief becomes more or less
    /// reluctant.
    pub(crate) fn learn(&self, start_ns: u64) {
        if let Some(ripe_ns) = RIPE_NS {
            let took = clock::now_ns().saturating_sub(start_ns);
            let small = took < ripe_ns;
            self.eager.set(took >= LARGE_NS);
            let more = (self.reluctance.get() + ripe_ns).min(PARK_TIMEOUT_NS - ripe_ns);
            self.reluctance.set(if small { more } else { 0 });
        }
    }
}

#[derive(Debug)]
pub(crate) struct OfferBoard {
    offers: Box<[CachePadded<Offer<Stealable>>]>,
    /// True if another worker can take what a worker offers.
    has_takers: bool,
    /// A worker parks with a time-out and watches the offers.
    watched: CachePadded<AtomicBool>,
    barrier: Asymmetric,
}

impl OfferBoard {
    /// For `workers` workers, of which the first `takers` take forks.
    pub(crate) fn new(workers: usize, takers: usize) -> Self {
        Self {
            offers: (0..workers).map(|_| CachePadded::new(Offer::new())).collect(),
            has_takers: takers > 1,
            watched: CachePadded::new(AtomicBool::new(false)),
            barrier: Asymmetric::new(),
        }
    }

    /// Returns the slot in which `worker` offers its forks; null if no thief can exist.
    pub(crate) fn of(&self, worker: usize) -> *const Offer<Stealable> {
        if !self.has_takers {
            ptr::null()
        } else {
            &*self.offers[worker]
        }
    }

    /// Returns true if an owner that has just made an offer must wake a worker for it.
    #[inline]
    pub(crate) fn is_unwatched(&self) -> bool {
        self.barrier.light();
        // Ordering: Relaxed; the barrier orders it after the offer.
        !self.watched.load(Ordering::Relaxed)
    }

    /// Lets offers wake no worker from now on. This is a forked child: all threads that could take a fork
    /// stayed in the parent.
    pub(crate) fn stop_wakes(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// Takes a ripe fork of another worker.
    pub(crate) fn steal(&self, me: usize, seen: &OfferView) -> Option<Stolen> {
        let count = self.offers.len();
        let offers = (1..count)
            .map(|distance| (me + distance) % count)
            .filter_map(|victim| self.offers[victim].look().map(|turn| (victim, turn)));
        self.take(offers, seen)
    }

    /// Takes a ripe fork that is a part of `ancestor`, for the owner of `ancestor`, which waits until it is
    /// done.
    ///
    /// The source is leapfrogging (Wagner and Calder, 1993): the frame that waits runs what it waits for.
    pub(crate) fn steal_below(&self, ancestor: *const Stealable, seen: &OfferView) -> Option<Stolen> {
        let offers = self
            .offers
            .iter()
            .enumerate()
            .filter_map(|(victim, offer)| Some((victim, offer.look_below(ancestor)?)));
        self.take(offers, seen)
    }

    /// Takes the first of these forks that is ripe.
    fn take(&self, mut offers: impl Iterator<Item = (usize, u64)>, seen: &OfferView) -> Option<Stolen> {
        let (victim, turn) = match RIPE_NS {
            Some(ripe_ns) => seen.first_ripe(offers, self.offers.len(), ripe_ns),
            None => offers.next(),
        }?;
        let taken = self.offers[victim].take(turn)?;
        seen.victim.set(victim);
        // SAFETY: the offer gave it to this thread alone.
        Some(unsafe { Stolen::new(taken) })
    }

    /// Returns for how many nanoseconds worker `me` should sleep. `me` found nothing anywhere and has
    /// announced its sleep. `None` means until it is woken.
    pub(crate) fn park_timeout_ns(&self, seen: &OfferView) -> Option<u64> {
        if !self.has_takers {
            return None;
        }
        let turns = self
            .offers
            .iter()
            .fold(0, |sum: u64, offer| sum.wrapping_add(offer.turns()));
        let offered = self.offers.iter().filter(|offer| offer.look().is_some()).count();
        let come = turns.wrapping_sub(seen.turns.replace(turns));
        let watched = seen.watches.get();
        // An owner of tiny trees has nothing on offer half of the time. A watcher that left it then would be
        // woken by the next offer.
        let come_and_go = watched && come > FEW && RIPE_NS.is_some();
        if offered == 0 && !come_and_go {
            self.stop_watching(seen);
            // Not asleep yet: the next announcement orders a last look after this.
            return watched.then_some(0);
        }
        let few = FEW * offered as u64;
        let timed_park = RIPE_NS.filter(|_| come <= few).unwrap_or(PARK_TIMEOUT_NS);
        // Ordering: Relaxed; an owner that reads true relies on the next look of the watcher, which comes
        // later.
        let watches = watched || !self.watched.swap(true, Ordering::Relaxed);
        seen.watches.set(watches);
        watches.then_some(timed_park)
    }

    /// Returns true if that thief, which has been waiting since `since_ns`, will take an offer as soon as it
    /// is ripe, unless its owner takes it back.
    ///
    /// Where small forks come and go, it ends after twice the time in which one ripens.
    pub(crate) fn is_ripening(&self, seen: &OfferView, since_ns: u64) -> bool {
        let waits = |ripe_ns: u64| clock::now_ns() - since_ns < 2 * ripe_ns;
        seen.reluctance.get() == 0 && RIPE_NS.is_some_and(waits) && self.any()
    }

    /// Ends the watch of a worker that has found work. The caller does this before it leaves the searchers:
    /// the successor that it leaves looks at all offers.
    pub(crate) fn stop_watching(&self, seen: &OfferView) {
        seen.woken.set(false);
        if seen.watches.replace(false) {
            // Ordering: Relaxed; the next step, leaving the searchers or announcing sleep, orders it before
            // another worker's look.
            self.watched.store(false, Ordering::Relaxed);
        }
    }

    /// Returns true if a thief must look again at once. This is so under the checkers only, where no clock
    /// lets a fork ripen.
    pub(crate) fn insists(&self) -> bool {
        RIPE_NS.is_none() && self.any()
    }

    /// Returns true if that worker offers something.
    pub(crate) fn offers(&self, worker: usize) -> bool {
        self.offers
            .get(worker)
            .is_some_and(|offer| offer.look().is_some())
    }

    /// Returns true if a worker offers something that is no part of `ancestor`.
    pub(crate) fn any_but(&self, ancestor: *const Stealable) -> bool {
        self.offers
            .iter()
            .any(|offer| offer.look().is_some() && offer.look_below(ancestor).is_none())
    }

    /// Takes a fork of another worker, ripe or not.
    pub(crate) fn steal_unripe(&self, me: usize) -> Option<Stolen> {
        let seen = OfferView::default();
        seen.woken();
        self.steal(me, &seen)
    }

    /// Returns true if a worker other than `me` offers something.
    pub(crate) fn any_of_others(&self, me: usize) -> bool {
        (0..self.offers.len()).any(|worker| worker != me && self.offers(worker))
    }

    /// Returns true if any worker offers something.
    pub(crate) fn any(&self) -> bool {
        self.offers.iter().any(|offer| offer.look().is_some())
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{FEW, LARGE_NS, OfferBoard, OfferView, PARK_TIMEOUT_NS};
    use std::ptr::{self, NonNull};
    use warpweft_platform::clock::now_ns;

    #[test]
    fn a_large_fork_ripens_behind_small_ones_that_come_and_go() {
        let thief = OfferView::default();
        let look = |small: u64| thief.first_ripe([(1, small), (2, 9)].into_iter(), 3, 0);
        assert_eq!(look(4), None, "both are new");
        assert_eq!(look(5), Some((2, 9)), "it has been there since the last look");
        assert_eq!(look(5), Some((1, 5)), "now the small one has, too");
    }

    #[test]
    fn a_thief_that_was_woken_takes_the_first_offer() {
        let thief = OfferView::default();
        thief.woken();
        assert_eq!(thief.first_ripe([(1, 4)].into_iter(), 2, u64::MAX), Some((1, 4)));
        assert_eq!(thief.first_ripe([(1, 5)].into_iter(), 2, u64::MAX), None);
        assert_eq!(thief.first_ripe([].into_iter(), 2, 0), None);
    }

    #[test]
    fn a_thief_of_a_large_fork_takes_the_next_at_once_until_one_is_small() {
        let thief = OfferView::default();
        let now = now_ns();
        let look = |turn| thief.first_ripe([(1, turn)].into_iter(), 2, u64::MAX / 2);
        assert_eq!(look(1), None, "it has taken none");
        thief.learn(now.saturating_sub(LARGE_NS));
        assert_eq!(look(2), Some((1, 2)));
        assert_eq!(look(3), Some((1, 3)));
        // It ends before it begins, so that no pause of this thread makes it a large one.
        thief.learn(now_ns() + LARGE_NS);
        assert_eq!(look(4), None);
    }

    #[test]
    fn a_watcher_stays_while_forks_come_and_go() {
        let (board, watcher) = (OfferBoard::new(2, 2), OfferView::default());
        let come_and_go = |forks: u64| {
            for _ in 0..forks {
                board.offers[0].publish(NonNull::dangling(), ptr::null());
                assert!(board.offers[0].withdraw());
            }
        };
        come_and_go(FEW + 1);
        assert_eq!(
            board.park_timeout_ns(&watcher),
            None,
            "who does not watch sees no offer"
        );
        board.offers[0].publish(NonNull::dangling(), ptr::null());
        assert!(board.park_timeout_ns(&watcher).is_some());
        assert!(board.offers[0].withdraw());
        come_and_go(FEW + 1);
        assert_eq!(board.park_timeout_ns(&watcher), Some(PARK_TIMEOUT_NS));
        assert!(!board.is_unwatched());
        come_and_go(FEW);
        assert_eq!(board.park_timeout_ns(&watcher), Some(0), "too few came");
        assert!(board.is_unwatched());
    }
}
