//! Every sketch passes the kit.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod sketches;
