//! Atomic integers and pointers whose accesses cost what the machine takes for them. Outside of a simulation
//! they are those of `std`.

use crate::lines::Access;
use crate::simulation::{Simulation, here};
use std::fmt;
use std::panic::Location;
pub use std::sync::atomic::Ordering;
use std::sync::atomic::{self as real, Ordering::SeqCst};

/// Charges an access.
#[inline(always)]
#[track_caller]
fn charge<T>(word: &T, access: Access) {
    let site = Location::caller();
    here(|sim| sim.access(std::ptr::from_ref(word).addr(), access, site));
}

/// A sequentially consistent store is a read-modify-write on the usual processors.
#[inline(always)]
fn store_as(order: Ordering) -> Access {
    if order == SeqCst {
        Access::Rmw
    } else {
        Access::Store
    }
}

/// A fence. It costs time only; the simulation is sequentially consistent.
pub fn fence(order: Ordering) {
    if order == SeqCst {
        here(Simulation::fence);
    }
    real::fence(order);
}

/// Says that the caller spins until another thread proceeds.
pub fn spin_loop() {
    if here(|sim| sim.pay(|model| model.pause)).is_none() {
        std::hint::spin_loop();
    }
}

macro_rules! common {
    ($name:ident, $type:ty $(, $generic:ident)?) => {
        impl$(<$generic>)? $name$(<$generic>)? {
            /// Makes one.
            #[must_use]
            pub const fn new(value: $type) -> Self {
                Self(real::$name::new(value))
            }

            /// Returns the value, which no other thread has.
            pub fn get_mut(&mut self) -> &mut $type {
                self.0.get_mut()
            }

            /// Returns the value, which no other thread has.
            pub fn into_inner(self) -> $type {
                self.0.into_inner()
            }

            /// Makes a reference to one from a pointer to the value.
            ///
            /// # Safety
            ///
            /// As that of `std`: the pointer is valid and aligned, and while the reference lives others
            /// access the value atomically only.
            pub unsafe fn from_ptr<'a>(pointer: *mut $type) -> &'a Self {
                // SAFETY: by contract; the type is a transparent one of `std`'s, which is one of the value's.
                unsafe { &*pointer.cast::<Self>() }
            }

            /// Reads it.
            #[inline(always)]
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $type {
                charge(self, Access::Load);
                self.0.load(order)
            }

            /// Writes it.
            #[inline(always)]
            #[track_caller]
            pub fn store(&self, value: $type, order: Ordering) {
                charge(self, store_as(order));
                self.0.store(value, order);
            }

            /// Exchanges it.
            #[inline(always)]
            #[track_caller]
            pub fn swap(&self, value: $type, order: Ordering) -> $type {
                charge(self, Access::Rmw);
                self.0.swap(value, order)
            }

            /// Exchanges it if it is `current`.
            ///
            /// # Errors
            ///
            /// The value that it has.
            #[inline(always)]
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $type,
                new: $type,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$type, $type> {
                charge(self, Access::Rmw);
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As `compare_exchange`; it does not fail without a reason here.
            ///
            /// # Errors
            ///
            /// The value that it has.
            #[inline(always)]
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $type,
                new: $type,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$type, $type> {
                self.compare_exchange(current, new, success, failure)
            }

            /// Changes it by a function, which is called until no other thread has changed it meanwhile.
            ///
            /// # Errors
            ///
            /// The value for which the function returned `None`.
            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut f: impl FnMut($type) -> Option<$type>,
            ) -> Result<$type, $type> {
                let mut present = self.load(fetch);
                while let Some(next) = f(present) {
                    match self.compare_exchange(present, next, set, fetch) {
                        Ok(before) => return Ok(before),
                        Err(now) => present = now,
                    }
                }
                Err(present)
            }
        }

        impl$(<$generic>)? fmt::Debug for $name$(<$generic>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl$(<$generic>)? Default for $name$(<$generic>)? {
            fn default() -> Self {
                Self(real::$name::default())
            }
        }

        impl$(<$generic>)? From<$type> for $name$(<$generic>)? {
            fn from(value: $type) -> Self {
                Self::new(value)
            }
        }
    };
}

macro_rules! modify {
    ($name:ident, $type:ty: $($method:ident)*) => {
        impl $name {
            $(
                /// As the method of `std`.
                #[inline(always)]
                #[track_caller]
                pub fn $method(&self, value: $type, order: Ordering) -> $type {
                    charge(self, Access::Rmw);
                    self.0.$method(value, order)
                }
            )*
        }
    };
}

/// An atomic flag.
#[repr(transparent)]
pub struct AtomicBool(real::AtomicBool);
common!(AtomicBool, bool);
modify!(AtomicBool, bool: fetch_and fetch_or fetch_xor);

/// An atomic number of 32 bits.
#[repr(transparent)]
pub struct AtomicU32(real::AtomicU32);
common!(AtomicU32, u32);
modify!(AtomicU32, u32: fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);

/// An atomic number of 64 bits.
#[repr(transparent)]
pub struct AtomicU64(real::AtomicU64);
common!(AtomicU64, u64);
modify!(AtomicU64, u64: fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);

/// An atomic number of the size of a pointer.
#[repr(transparent)]
pub struct AtomicUsize(real::AtomicUsize);
common!(AtomicUsize, usize);
modify!(AtomicUsize, usize: fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);

/// An atomic pointer.
#[repr(transparent)]
pub struct AtomicPtr<T>(real::AtomicPtr<T>);
common!(AtomicPtr, *mut T, T);

/// Charges an access to memory that is not atomic: one that reads, or writes, the line at an address.
#[inline(always)]
#[track_caller]
pub fn plain(address: usize, writes: bool) {
    let access = if writes { Access::Store } else { Access::Load };
    let site = Location::caller();
    here(|sim| sim.access(address, access, site));
}
