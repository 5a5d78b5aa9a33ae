#![doc = include_str!("README.md")]

pub(crate) mod handle;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod run_blocking;

#[cfg(warpweft_shuttle)]
#[doc(hidden)]
pub mod model;

pub use crate::driver::Io;
pub use handle::Async;
