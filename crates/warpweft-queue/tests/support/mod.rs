//! Code that several test files of this crate share.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of it")]

pub mod drops;
pub mod kinds;
pub mod linear;
#[cfg(warpweft_loom)]
pub mod loom;
