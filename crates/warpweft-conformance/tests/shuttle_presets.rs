//! The presets of `warpweft-policy` and their options in whole small pools.
#![cfg(warpweft_shuttle)]

mod policies;
mod wide;
