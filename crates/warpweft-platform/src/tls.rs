//! Thread-local words.

use std::cell::Cell;

/// The content of a [`thread_word!`](crate::thread_word): a `Cell` of a `Copy` value.
pub type LocalCell<T> = Cell<T>;

/// Declares a thread-local [`Cell`] with a constant initial value, visible to the model checkers.
///
/// ```
/// warpweft_platform::thread_word!(static DEPTH: u32 = 0);
/// DEPTH.with(|depth| depth.set(depth.get() + 1));
/// assert_eq!(DEPTH.with(std::cell::Cell::get), 1);
/// ```
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
#[macro_export]
macro_rules! thread_word {
    ($vis:vis static $name:ident: $type:ty = $init:expr) => {
        ::std::thread_local! { $vis static $name: $crate::LocalCell<$type> = const { $crate::LocalCell::new($init) }; }
    };
}

/// Declares a thread-local [`Cell`] with a constant initial value, visible to the model checkers.
#[cfg(warpweft_loom)]
#[macro_export]
macro_rules! thread_word {
    ($vis:vis static $name:ident: $type:ty = $init:expr) => {
        $crate::loom::thread_local! { $vis static $name: $crate::LocalCell<$type> = $crate::LocalCell::new($init); }
    };
}

/// Declares a thread-local [`Cell`] with a constant initial value, visible to the model checkers.
#[cfg(warpweft_shuttle)]
#[macro_export]
macro_rules! thread_word {
    ($vis:vis static $name:ident: $type:ty = $init:expr) => {
        $crate::shuttle::thread_local! { $vis static $name: $crate::LocalCell<$type> = $crate::LocalCell::new($init); }
    };
}

/// Declares a thread-local [`Cell`] with a constant initial value, one for each simulated thread.
#[cfg(warpweft_sim)]
#[macro_export]
macro_rules! thread_word {
    ($vis:vis static $name:ident: $type:ty = $init:expr) => {
        $vis static $name: $crate::sim::LocalKey<$crate::LocalCell<$type>> =
            $crate::sim::LocalKey::new(|| $crate::LocalCell::new($init));
    };
}
