//! Workers that take no part in the idle protocol for a while, because their pool has become smaller.

use super::{AWAKE, EventCount};
use warpweft_platform::atomic::Ordering;
use warpweft_platform::delay;

/// The worker rests: it takes no part, no push relies on it, and no claim chooses it.
const RESTING: u32 = 3;

impl EventCount {
    /// Lets worker `w`, which is neither searching nor announced, rest: until [`end_rest`](Self::end_rest) it
    /// takes no part in the protocol, and is neither awake nor asleep. At least one worker does not rest.
    ///
    /// Call it after its own places of work are empty. The caller must then look again at what only `w` can
    /// do, and at whether it may rest at all. If it must not, it calls `end_rest`. Then it calls
    /// [`notify_one`](Self::notify_one): `w` may have promised with a push to look for the task itself. Costs
    /// a store and the heavy half of the barrier.
    ///
    /// ```
    /// use warpweft_platform::barrier::Asymmetric;
    /// use warpweft_queue::EventCount;
    /// let idle = EventCount::new(2, 1, Asymmetric::new());
    /// idle.rest(1);
    /// assert!(idle.is_resting(1) && !idle.is_awake(1));
    /// assert!(idle.end_rest(1), "the caller has to find a thread for it");
    /// assert!(!idle.end_rest(1), "once");
    /// ```
    pub fn rest(&self, w: usize) {
        // Ordering: Release pairs with the Acquire in `end_rest`, whose caller continues the worker.
        self.places[w].state.store(RESTING, Ordering::Release);
        delay::point("event_count.rest: place");
        // Pairs with the light half in `end_rest` (lemma 1, with the slot instead of the word).
        self.barrier.heavy();
    }

    /// Ends the rest of worker `w`. Call it after what ends the rest was made visible: work that only `w` can
    /// do, or a larger number of workers.
    ///
    /// Returns true to one caller for each rest. That caller must have the worker continued. If `w` does not
    /// rest it costs the light half of the barrier and one load.
    #[must_use = "on true the worker must be continued"]
    pub fn end_rest(&self, w: usize) -> bool {
        self.barrier.light();
        let state = &self.places[w].state;
        // Ordering: Relaxed for the look, ordered by the barrier. Acquire hands over what the worker's last
        // thread did with it.
        state.load(Ordering::Relaxed) == RESTING
            && state
                .compare_exchange(RESTING, AWAKE, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Returns true if worker `w` rests. The answer may be old.
    #[must_use]
    pub fn is_resting(&self, w: usize) -> bool {
        // Ordering: Acquire, for a caller that knows that no other thread ends the rest.
        self.places[w].state.load(Ordering::Acquire) == RESTING
    }
}
