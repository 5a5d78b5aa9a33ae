//! Counters and gauges that cost almost nothing.

// Not the checkers' atomics: counters order nothing and decide nothing, and would only multiply the
// executions.
#[cfg(not(warpweft_sim))]
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
// The simulator charges them.
#[cfg(warpweft_sim)]
use warpweft_sim::{AtomicPtr, AtomicU64, Ordering};

/// A count that one thread updates and any thread may read.
///
/// It synchronises nothing: a reader sees some recent value.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Makes a count of 0.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `n`, by a load and a store without a read-modify-write. Only the thread that updates the counter
    /// may call it.
    #[inline]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn add(&self, n: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Adds `n` to a counter that several threads update. Costs one atomic read-modify-write.
    #[inline]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Counts one thing that the caller has done. Any thread may call it. A thread that
    /// [observes](Counter::observe) the count also sees what was done.
    #[inline]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn announce(&self) {
        // Ordering: Release pairs with `observe`.
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Returns a recent value. What was done before each announced count in it is visible from here on.
    #[inline]
    #[must_use]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn observe(&self) -> u64 {
        // Ordering: Acquire pairs with `announce`.
        self.0.load(Ordering::Acquire)
    }

    /// Returns a recent value.
    #[inline]
    #[must_use]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value that is set now and then, and that any thread may read. Like a [`Counter`] it synchronises
/// nothing: it is a hint.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

/// A pointer that is set now and then, and that any thread may read. Like a [`Gauge`] it is a hint: what it
/// leads to is found by other means.
#[derive(Debug)]
pub struct PointerHint(AtomicPtr<()>);

impl PointerHint {
    /// Returns a null pointer.
    #[must_use]
    pub const fn null() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Sets the pointer, by a plain store.
    #[inline]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn set(&self, pointer: *const ()) {
        self.0.store(pointer.cast_mut(), Ordering::Relaxed);
    }

    /// Returns a recent value.
    #[inline]
    #[must_use]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn get(&self) -> *const () {
        self.0.load(Ordering::Relaxed)
    }
}

impl Gauge {
    /// Makes a value of 0.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Sets the value, by a plain store.
    #[inline]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns a recent value.
    #[inline]
    #[must_use]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A reference to a static table that may be exchanged for another one of the same kind while threads use
/// it. A reader sees either.
///
/// A reader sees what was done before the table was set: it may have been filled at run time, and leaked. So
/// a read is an `Acquire` load, which is a plain one on x86.
#[derive(Debug)]
pub struct Replaceable<T: 'static>(AtomicPtr<T>);

impl<T: Sync> Replaceable<T> {
    /// Starts with `table`.
    #[must_use]
    pub const fn new(table: &'static T) -> Self {
        Self(AtomicPtr::new(std::ptr::from_ref(table).cast_mut()))
    }

    /// Returns the present table.
    #[inline]
    #[must_use]
    pub fn get(&self) -> &'static T {
        // SAFETY: `new` and `set` store `'static` references, and nothing writes through the pointer.
        // Ordering: Acquire pairs with the Release of `set`.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    /// Exchanges the table. Other threads see it soon.
    pub fn set(&self, table: &'static T) {
        self.0
            .store(std::ptr::from_ref(table).cast_mut(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::Replaceable;

    #[test]
    fn a_table_is_replaced() {
        let tables = Replaceable::new(&1);
        assert_eq!(*tables.get(), 1);
        tables.set(&2);
        assert_eq!(*tables.get(), 2);
    }
}
