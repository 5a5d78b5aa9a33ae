//! The presets of `warpweft-policy` and their options pass the kit.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod policies;
