//! The stacks of a pool's fibers.
//!
//! ```text
//!   mapping  ┌─guard─┬──────── stack ──────┬unused┬─guard─┬──────── stack ──────┬unused┬ …
//!            bottom                       top     bottom                       top
//!            ◀────────── distance ──────────────▶           up to 4096 stacks in each mapping
//! ```
//!
//! The frames of waiting fibers are the same few cache lines at each stack's top. If all tops were a power of
//! two apart, those lines would share a few sets of each cache and evict each other: 100 fibers that took
//! turns ran out of the third-level cache. So the distance is an odd number of pages. This spreads the lines
//! over the sets of the second-level cache and of the translation buffer. Some lines at the top stay unused,
//! a different number on neighbours, which spreads them over the sets of the first level.
//!
//! A stack that is given back keeps its first pages; deeper ones go back to the system.
//!
//! # Invariants
//!
//! - A stack belongs to one `StackMemory` value at a time, which gives it back when it is dropped. The value
//!   keeps its pool alive.
//! - Where stacks are limited, the user of one holds a `StackPermit`. Stacks that threads keep for later are
//!   not in use.
//! - Mappings are freed when the last `StackMemory` and the pool are gone.

use super::memory::{self, Guards, Mapping};
use std::fmt;
use std::io;
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync::Mutex;

/// The least size of a stack, its guard included.
pub(crate) const LEAST_BYTES: usize = 16 << 10;
/// The largest size of a stack.
pub(crate) const MOST_BYTES: usize = 1 << 30;
/// The size of a stack by default.
pub(crate) const USUAL_BYTES: usize = 64 << 10;

/// The number of different positions of stacks' tops in their pages.
const COLORS: usize = 16;
/// The bytes between two of them: two cache lines. All together are less than half a page, so that what waits
/// at the top stays in one page.
const COLOR_BYTES: usize = 128;

/// The bytes of an unused stack that stay resident.
const KEPT_BYTES: usize = 8 << 10;
/// The number of stacks of the first mapping.
const FIRST: usize = 16;
/// The largest number of stacks of a mapping.
const MOST_IN_ONE: usize = 4096;
/// The largest size of a mapping with more than one stack, in bytes.
const MOST_MAPPED: usize = 256 << 20;

/// The reason why there is no stack.
#[derive(Debug)]
pub(crate) enum StackError {
    /// The largest allowed number is in use.
    Limit(usize),
    /// The system's error.
    System(io::Error),
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(most) => write!(f, "{most} stacks of fibers are in use, as many as there may be"),
            Self::System(error) => write!(
                f,
                "no memory or mapping for a fiber's stack: {error}; see `ulimit -v` and vm.max_map_count"
            ),
        }
    }
}

/// The numbers of stacks of a runtime's fibers, and how much of them they use: a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fibers {
    /// Fibers that belong to a thread and have not ended: they have waited at least once, or were spawned
    /// [on the thread](crate::fiber::spawn_here) of such a fiber.
    pub live: usize,
    /// Stacks that were ever made.
    pub stacks: usize,
    /// Free ones among these, for any thread; each thread keeps some more for itself.
    pub free: usize,
    /// The mappings that contain the stacks.
    pub mappings: usize,
    /// The size of a stack in bytes, with its guard.
    pub stack_bytes: usize,
    /// The most bytes of its stack that any fiber has used, in whole pages. 0 where the system does not
    /// report it.
    pub deepest: usize,
    /// Fibers that were unwound because the runtime shut down.
    pub unwound: usize,
}

#[derive(Debug, Default)]
struct StackLists {
    /// The bottoms of stacks that were used and are not in use now.
    free: Vec<usize>,
    /// The stacks of the last mapping that were never used: the first one's bottom, and their number.
    fresh: (usize, usize),
    mappings: Vec<Mapping>,
    made: usize,
    deepest: usize,
    live: usize,
    unwound: usize,
}

/// All stacks of a pool.
#[derive(Debug)]
pub(crate) struct Stacks {
    bytes: usize,
    /// The distance from one stack to the next: an odd number of pages, at least one more than `bytes`.
    distance: usize,
    /// The largest number in use at a time.
    most: usize,
    /// The number of permits, where stacks are limited.
    in_use: AtomicUsize,
    guards: Guards,
    state: Mutex<StackLists>,
}

impl Stacks {
    /// Creates the stacks of a pool: of `bytes` bytes, rounded up to whole pages, with at most `most` in use
    /// at a time. `usize::MAX` means that there is no limit.
    pub(crate) fn new(bytes: usize, most: usize) -> Self {
        Self::with_guards(bytes, most, memory::guards())
    }

    fn with_guards(bytes: usize, most: usize, guards: Guards) -> Self {
        let page = memory::page();
        let pages = bytes.div_ceil(page);
        Self {
            bytes: pages * page,
            distance: ((pages + 1) | 1) * page,
            most,
            in_use: AtomicUsize::new(0),
            guards,
            state: Mutex::default(),
        }
    }

    /// Returns true if the use of a stack needs a permit.
    pub(crate) fn are_limited(&self) -> bool {
        self.most != usize::MAX
    }

    /// Takes the right to use a stack.
    ///
    /// # Errors
    ///
    /// The largest allowed number is in use.
    pub(crate) fn permit(self: &Arc<Self>) -> Result<StackPermit, StackError> {
        if !self.are_limited() {
            return Ok(StackPermit::none());
        }
        let more = |in_use: usize| (in_use < self.most).then(|| in_use + 1);
        // Ordering: Relaxed, also when the permit is given up. It is a number and guards nothing: stacks
        // change hands under the lock, or stay with their thread.
        let taken = self
            .in_use
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        match taken {
            Ok(_) => Ok(StackPermit(Some(Arc::clone(self)))),
            Err(most) => Err(StackError::Limit(most)),
        }
    }

    /// Returns a stack, and the right to use it.
    ///
    /// # Errors
    ///
    /// The largest allowed number is in use, or the system gives no more.
    pub(crate) fn reserve(self: &Arc<Self>) -> Result<Reserved, StackError> {
        let permit = self.permit()?;
        let stack = self.take()?;
        Ok(Reserved { stack, permit })
    }

    /// Returns a stack to a caller that has a permit.
    ///
    /// # Errors
    ///
    /// The system gives no more.
    pub(crate) fn take(self: &Arc<Self>) -> Result<StackMemory, StackError> {
        let bottom = self.take_bottom().map_err(StackError::System)?;
        let color = bottom / self.distance % COLORS * COLOR_BYTES;
        Ok(StackMemory {
            bottom,
            top: bottom + self.distance - color,
            stacks: Arc::clone(self),
        })
    }

    fn take_bottom(&self) -> io::Result<usize> {
        let mut state = self.state.lock();
        if let Some(bottom) = state.free.pop() {
            return Ok(bottom);
        }
        if state.fresh.1 == 0 {
            let mut count = state
                .made
                .clamp(FIRST, MOST_IN_ONE)
                .min(MOST_MAPPED / self.distance)
                .min(self.most.saturating_sub(state.made))
                .max(1);
            let mapping = loop {
                match Mapping::new(count * self.distance) {
                    // There may be room for fewer.
                    Err(_) if count > 1 => count /= 2,
                    result => break result?,
                }
            };
            state.fresh = (mapping.start(), count);
            state.mappings.push(mapping);
        }
        let (bottom, left) = state.fresh;
        // SAFETY: it is the lowest page of a stack that was never used.
        unsafe { memory::guard(bottom, self.guards) }?;
        state.fresh = (bottom + self.distance, left - 1);
        state.made += 1;
        Ok(bottom)
    }

    fn put(&self, bottom: usize) {
        let used = self.used(bottom);
        if used > KEPT_BYTES {
            let (from, bytes) = (
                bottom + memory::page(),
                self.distance - memory::page() - KEPT_BYTES,
            );
            // SAFETY: inside the stack, above its guard; no code uses it.
            unsafe { memory::forget(from, bytes) };
        }
        // In a forked child the lock may be lost, and then the stack is lost, too.
        if let Some(mut state) = self.state.lock_unless_lost() {
            state.deepest = state.deepest.max(used);
            state.free.push(bottom);
        }
    }

    /// Returns how many bytes of a stack are in use.
    fn used(&self, bottom: usize) -> usize {
        let guard = memory::page();
        memory::used(bottom + guard, self.distance - guard).unwrap_or(0)
    }

    /// Counts a fiber that waits for the first time (1), or the end of such a fiber (-1).
    pub(crate) fn count_live(&self, change: isize) {
        // In a forked child the lock may be lost, and the number is not needed.
        if let Some(mut state) = self.state.lock_unless_lost() {
            state.live = state.live.wrapping_add_signed(change);
        }
    }

    pub(crate) fn count_unwound(&self) {
        self.state.lock().unwound += 1;
    }

    /// Returns the number of fibers that have waited and not ended.
    pub(crate) fn live(&self) -> usize {
        self.state.lock().live
    }

    /// Returns the numbers of stacks; 0 in a forked child where the lock is lost.
    pub(crate) fn snapshot(&self) -> Fibers {
        let stacks = |mapping: &Mapping| {
            let (start, bytes) = (mapping.start(), mapping.bytes());
            (start..start + bytes).step_by(self.distance)
        };
        let made: Vec<_> = self.state.lock_unless_lost().map_or(Vec::new(), |state| {
            state.mappings.iter().flat_map(stacks).take(state.made).collect()
        });
        // Without the lock: fibers start and end meanwhile, but mappings stay.
        let deepest = made.into_iter().map(|bottom| self.used(bottom)).max();
        let Some(mut state) = self.state.lock_unless_lost() else {
            return Fibers {
                stack_bytes: self.bytes,
                ..Fibers::default()
            };
        };
        state.deepest = state.deepest.max(deepest.unwrap_or(0));
        Fibers {
            live: state.live,
            stacks: state.made,
            free: state.free.len(),
            mappings: state.mappings.len(),
            stack_bytes: self.bytes,
            deepest: state.deepest,
            unwound: state.unwound,
        }
    }
}

/// The right to use a stack, where they are limited. Dropping it gives the right up.
#[derive(Debug)]
pub(crate) struct StackPermit(Option<Arc<Stacks>>);

impl StackPermit {
    /// Creates the permit of a thread that uses no stack, or needs no permit.
    pub(crate) const fn none() -> Self {
        Self(None)
    }
}

impl Drop for StackPermit {
    fn drop(&mut self) {
        if let Some(stacks) = &self.0 {
            stacks.in_use.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A stack that is about to be used.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) stack: StackMemory,
    pub(crate) permit: StackPermit,
}

/// A stack. No other code uses it.
#[derive(Debug)]
pub(crate) struct StackMemory {
    bottom: usize,
    /// Kept here because each switch reads it.
    top: usize,
    stacks: Arc<Stacks>,
}

impl StackMemory {
    /// Returns its lowest address, that of its guard.
    pub(crate) fn bottom(&self) -> usize {
        self.bottom
    }

    /// Returns its size as requested, with its guard.
    pub(crate) fn bytes(&self) -> usize {
        self.stacks.bytes
    }

    /// Returns the address after its highest usable one.
    #[inline]
    pub(crate) fn top(&self) -> usize {
        self.top
    }
}

impl Drop for StackMemory {
    fn drop(&mut self) {
        self.stacks.put(self.bottom);
    }
}

#[cfg(all(test, unix, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn stacks_come_back_and_mappings_are_few() {
        for guards in [memory::guards(), Guards::Protect] {
            let stacks = Arc::new(Stacks::with_guards(USUAL_BYTES, 1000, guards));
            let taken: Vec<_> = (0..1000).map(|_| stacks.take().expect("memory")).collect();
            let mut bottoms: Vec<_> = taken.iter().map(StackMemory::bottom).collect();
            bottoms.sort_unstable();
            bottoms.dedup();
            assert_eq!(bottoms.len(), 1000);
            drop(taken);
            let told = stacks.snapshot();
            assert_eq!((told.stacks, told.free), (1000, 1000));
            assert!(told.mappings <= 8, "{told:?}");
            let room = stacks.take().map(|stack| stack.top() - stack.bottom());
            assert!(
                room.is_ok_and(|bytes| bytes >= USUAL_BYTES),
                "no less than was asked for"
            );
            assert_eq!(stacks.snapshot().free, 1000);
        }
    }

    #[test]
    fn as_many_are_in_use_as_may_be() {
        let stacks = Arc::new(Stacks::new(USUAL_BYTES, 2));
        let two = [(); 2].map(|()| stacks.reserve().expect("none is in use"));
        let error = stacks.reserve().expect_err("two may be in use").to_string();
        assert!(error.contains("2 stacks"), "{error}");
        // The stacks are kept for later.
        let kept = two.map(|reserved| reserved.stack);
        let other = stacks.reserve().expect("none is in use");
        let permit = stacks.permit().expect("one is in use");
        assert!(stacks.permit().is_err());
        drop((kept, other, permit));
        assert_eq!(stacks.in_use.load(Ordering::Relaxed), 0);
        assert_eq!(stacks.snapshot().free, 3);
    }

    #[test]
    fn what_a_stack_used_is_remembered_and_given_back() {
        let stacks = Arc::new(Stacks::new(USUAL_BYTES, 10));
        let stack = stacks.take().expect("memory");
        let deep = std::ptr::with_exposed_provenance_mut::<u8>(stack.top() - 30_000);
        // SAFETY: inside the stack.
        unsafe { deep.write(1) };
        let bottom = stack.bottom();
        drop(stack);
        assert!(stacks.snapshot().deepest >= 30_000);
        assert!(stacks.used(bottom) <= KEPT_BYTES);
    }

    #[test]
    fn a_stack_that_no_memory_can_hold_is_an_error() {
        let stacks = Arc::new(Stacks::new(usize::MAX / 4, 10));
        let error = stacks
            .reserve()
            .expect_err("half of the address space")
            .to_string();
        assert!(error.contains("no memory or mapping"), "{error}");
        assert_eq!(stacks.in_use.load(Ordering::Relaxed), 0);
    }
}
