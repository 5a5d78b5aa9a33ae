//! Every sketch in every interleaving of owner, thieves and outsiders.
#![cfg(warpweft_loom)]

mod sketches;
