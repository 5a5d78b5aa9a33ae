//! The list of a stack on which a token counts.
//!
//! A join without a token looks at nothing of all this. Where a token counts, the list pretends that its
//! offer is free: then each join comes to [`offer_unusually`](List::offer_unusually), behind a look at the
//! token.
//!
//! # Invariants
//!
//! - The list is checked while one of its frames has a token.
//! - The frames are a list from the youngest to the oldest. The nodes of all are there.
//! - A fork of a frame that could not unwind if the other half did not run has no token: in a destructor
//!   while the thread panics, or in uncooperative code. `sheltered` is the oldest of these forks.

use super::{CLOSED, FREE, List};
use crate::cancel_tree::node::Node;
use crate::fork::record::ForkRecord;
use crate::fork::token_frame::TokenFrame;
use std::ptr::{self, NonNull};
use warpweft_platform::atomic::Ordering;

/// The most looks at a token between two looks at the clock, which take as long as a join.
const LOOKS_PER_CLOCK: u32 = 64;
/// The most time between two looks at the clock, in nanoseconds, as far as it can be foreseen.
const CLOCK_NS: u64 = 20_000;

impl List {
    /// Returns true while a token counts on this stack, or below a frame on which none counts.
    #[inline]
    pub(crate) fn is_checked(&self) -> bool {
        self.checked.get()
    }

    /// Returns the token that counts here; null if there is none.
    #[inline]
    pub(crate) fn token(&self) -> *const Node {
        // SAFETY: null, or a frame that was entered and not left.
        unsafe { self.frame.get().as_ref() }.map_or(ptr::null(), |frame| frame.node)
    }

    /// Counts a look at a token with a deadline. Returns the time if it is time to look at the clock, and 0
    /// otherwise. Looks that are far apart look at the clock each.
    pub(crate) fn now_and_then_ns(&self, now_ns: impl FnOnce() -> u64) -> u64 {
        let (looks, pause) = self.looks.get();
        if looks + 1 < pause {
            self.looks.set((looks + 1, pause));
            return 0;
        }
        let now_ns = now_ns();
        let past_ns = now_ns.saturating_sub(self.looked_ns.replace(now_ns));
        let pause = match past_ns {
            0..CLOCK_NS => (pause * 2).clamp(1, LOOKS_PER_CLOCK),
            _ => pause / 2,
        };
        self.looks.set((0, pause));
        now_ns
    }

    /// Returns the frame that decides which token counts here; null if there is none.
    pub(crate) fn token_frame(&self) -> *const TokenFrame {
        self.frame.get()
    }

    /// Lets the token of `frame` count from now on.
    ///
    /// # Safety
    ///
    /// The frame stays where it is, and its node is there, until it is left: the youngest first.
    pub(crate) unsafe fn enter_token(&self, frame: &TokenFrame) {
        frame.before.set(self.frame.replace(frame));
        frame.found.set(self.tail.get());
        frame.was_checked.set(self.checked.get());
        if !frame.node.is_null() && !self.checked.replace(true) {
            self.unusual.set(self.unusual.get() + 1);
            self.pretend_free();
        }
    }

    /// Ends the youngest frame.
    pub(crate) fn leave_token(&self, frame: &TokenFrame) {
        debug_assert!(ptr::eq(self.frame.get(), frame));
        self.frame.set(frame.before.get());
        // SAFETY: null, or a frame that was entered and not left.
        if let Some(before) = unsafe { frame.before.get().as_ref() }.filter(|_| frame.listens.get()) {
            before.listens.set(true);
        }
        if self.checked.replace(frame.was_checked.get()) && !frame.was_checked.get() {
            self.unusual.set(self.unusual.get() - 1);
            if !self.offered.get().is_null() {
                let (watch, expect) = self.decision.get();
                self.watch.set(watch);
                self.expect.set(expect);
            } else if self.offer.get().is_null() {
                self.expect.set(CLOSED);
            }
        }
    }

    /// Makes the offer seem free, and remembers what is to be watched.
    fn pretend_free(&self) {
        self.decision.set((self.watch.get(), self.expect.get()));
        self.watch.set(&self.always);
        self.expect.set(FREE);
    }

    /// Puts the oldest latent fork or job on offer, if the offer is free and there is one. Returns true if it
    /// did.
    ///
    /// `may_unwind` is false if the frame that has forked last could not unwind for its token.
    pub(crate) fn offer_unusually(&self, may_unwind: bool) -> bool {
        self.shelter(may_unwind);
        // SAFETY: null, or valid by the contract of `attach`.
        let Some(offer) = (unsafe { self.offer.get().as_ref() }) else {
            return false;
        };
        if !self.offered.get().is_null() {
            // A list that is not checked comes here only if the offer is free.
            let (watch, taken) = self.decision.get();
            // SAFETY: something is on offer, so this is the decision of the offer.
            // Ordering: Relaxed, as in `is_free`.
            if self.checked.get() && unsafe { &*watch }.load(Ordering::Relaxed) != taken {
                return false;
            }
            offer.clear();
            self.nothing_on_offer();
        }
        let published = if self.scopes.borrow().is_empty() {
            let what = self.oldest_latent();
            let what = what.map(|record| self.make_public(record, self.token_of(record)));
            what.inspect(|&what| self.publish(offer, what, self.ancestor.get()))
                .is_some()
        } else {
            self.offer_with_scopes(offer)
        };
        if published && self.checked.get() {
            self.pretend_free();
        }
        published
    }

    /// Notes the oldest fork of frames that could not unwind. Each fork of a checked list comes here as the
    /// youngest one.
    #[inline]
    fn shelter(&self, may_unwind: bool) {
        if !may_unwind {
            self.shelter_youngest();
        } else if !self.sheltered.get().is_null() {
            self.sheltered.set(ptr::null());
        }
    }

    #[cold]
    fn shelter_youngest(&self) {
        if !self.is_behind(&raw const self.foot, self.sheltered.get()) {
            self.sheltered.set(self.tail.get());
        }
    }

    /// Returns true if the record has no token. What `sheltered` points to may have been removed, but no
    /// other record has its address: each that is made there comes to [`shelter`](Self::shelter).
    fn is_sheltered(&self, record: *const ForkRecord) -> bool {
        let oldest = self.sheltered.get();
        !oldest.is_null()
            && self.is_behind(&raw const self.foot, oldest)
            && (ptr::eq(oldest, record) || self.is_behind(oldest, record))
    }

    /// Returns the token under which the oldest latent record was made; null if there was none.
    pub(super) fn token_of(&self, oldest: NonNull<ForkRecord>) -> *const Node {
        debug_assert_eq!(self.oldest_latent(), Some(oldest));
        if self.is_sheltered(oldest.as_ptr()) {
            return ptr::null();
        }
        // SAFETY: null, or a frame that was entered and not left.
        let frames = std::iter::successors(unsafe { self.frame.get().as_ref() }, |frame| {
            // SAFETY: as above.
            unsafe { frame.before.get().as_ref() }
        });
        // Frames are entered between records. A frame is older than a record if what it found is.
        let older = |frame: &&TokenFrame| !self.is_in_latent_part(frame.found.get());
        let mut frames = frames.filter(older);
        frames.next().map_or(ptr::null(), |frame| frame.node)
    }
}
