//! An `UnsafeCell` whose accesses loom can watch, and the simulator charges.

/// Interior mutability with loom's closure interface: loom reports an access that races with another.
///
/// The closures receive a raw pointer. The caller's `unsafe` code is responsible for its use.
#[derive(Debug)]
#[repr(transparent)]
pub struct UnsafeCell<T>(Inner<T>);

#[cfg(warpweft_loom)]
type Inner<T> = loom::cell::UnsafeCell<T>;
#[cfg(not(warpweft_loom))]
type Inner<T> = std::cell::UnsafeCell<T>;

impl<T> UnsafeCell<T> {
    /// Wraps `value`.
    #[inline]
    pub fn new(value: T) -> Self {
        Self(Inner::new(value))
    }

    /// Returns the value.
    #[inline]
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }

    /// Calls `f` with a pointer for reading.
    #[inline]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        #[cfg(warpweft_loom)]
        return self.0.with(f);
        #[cfg(warpweft_sim)]
        warpweft_sim::plain(std::ptr::from_ref(self).addr(), false);
        #[cfg(not(warpweft_loom))]
        f(self.0.get())
    }

    /// Calls `f` with a pointer for reading and writing.
    #[inline]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(warpweft_loom)]
        return self.0.with_mut(f);
        #[cfg(warpweft_sim)]
        warpweft_sim::plain(std::ptr::from_ref(self).addr(), true);
        #[cfg(not(warpweft_loom))]
        f(self.0.get())
    }
}
