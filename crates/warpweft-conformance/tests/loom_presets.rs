//! The presets of `warpweft-policy` and their options in every interleaving of owner, thieves and outsiders.
#![cfg(warpweft_loom)]

mod policies;
