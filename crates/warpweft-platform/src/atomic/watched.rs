//! Loom's atomics, with loads that loom cannot overlook.
//!
//! For each atomic loom 0.7 remembers one last access, and tests whether the next one races with *it*. Two
//! loads do not race, so in
//!
//! ```text
//!   thread A:  load x
//!   thread B:  load x; compare-and-swap x
//! ```
//!
//! B's load hides A's: the compare-and-swap is compared with B's load only, and the order in which it comes
//! before A's load is never tried (loom's open issues 166 and 392). Here each load first stores to a
//! companion atomic that no thread reads. So loads of one atomic are ordered against each other, and the last
//! access represents all. The companion is never read, so it synchronises nothing: all weak-memory outcomes
//! of the load remain.
//!
//! The price is more executions: loads that commute are now tried in both orders.

use loom::sync::atomic as loom_atomic;
use loom_atomic::Ordering;
use std::ops::Deref;

/// An atomic of loom's and its companion. Everything but `load` is loom's own.
#[derive(Debug)]
pub struct Watched<A> {
    atomic: A,
    companion: loom_atomic::AtomicBool,
}

/// `AtomicBool` of the loom build.
pub type AtomicBool = Watched<loom_atomic::AtomicBool>;
/// `AtomicPtr<T>` of the loom build.
pub type AtomicPtr<T> = Watched<loom_atomic::AtomicPtr<T>>;
/// `AtomicU32` of the loom build.
pub type AtomicU32 = Watched<loom_atomic::AtomicU32>;
/// `AtomicU64` of the loom build.
pub type AtomicU64 = Watched<loom_atomic::AtomicU64>;
/// `AtomicUsize` of the loom build.
pub type AtomicUsize = Watched<loom_atomic::AtomicUsize>;

/// The methods that loom's atomics share, for which loom has no trait.
pub trait Atomic {
    type Value;

    fn make(value: Self::Value) -> Self;
    fn read(&self, order: Ordering) -> Self::Value;
}

macro_rules! atomic {
    ($atomic:ty, $value:ty $(, $T:ident)?) => {
        impl $(<$T>)? Atomic for $atomic {
            type Value = $value;

            #[track_caller]
            fn make(value: $value) -> Self {
                Self::new(value)
            }

            #[track_caller]
            fn read(&self, order: Ordering) -> $value {
                self.load(order)
            }
        }
    };
}

atomic!(loom_atomic::AtomicBool, bool);
atomic!(loom_atomic::AtomicPtr<T>, *mut T, T);
atomic!(loom_atomic::AtomicU32, u32);
atomic!(loom_atomic::AtomicU64, u64);
atomic!(loom_atomic::AtomicUsize, usize);

impl<A: Atomic> Watched<A> {
    #[track_caller]
    pub fn new(value: A::Value) -> Self {
        Self {
            atomic: A::make(value),
            companion: loom_atomic::AtomicBool::new(false),
        }
    }

    #[track_caller]
    pub fn load(&self, order: Ordering) -> A::Value {
        // No thread reads it, so its ordering orders nothing but loom's exploration.
        self.companion.store(true, Ordering::Relaxed);
        self.atomic.read(order)
    }
}

impl<A> Deref for Watched<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.atomic
    }
}

impl<A: Atomic> Default for Watched<A>
where
    A::Value: Default,
{
    fn default() -> Self {
        Self::new(A::Value::default())
    }
}
