//! The presets of `warpweft-policy` and their options in every interleaving of owner, thieves and external
//! threads.
#![cfg(warpweft_loom)]

mod policies;
mod wide;
