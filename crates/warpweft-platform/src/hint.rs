//! Hints to the compiler.

/// Says that the branch which calls this is rare, so that its code is placed out of the way.
///
/// `std::hint::cold_path` says the same from Rust 1.95 on.
#[cold]
#[inline(always)]
pub fn cold_path() {}
