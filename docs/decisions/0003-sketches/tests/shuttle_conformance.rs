//! Every sketch in whole small pools.
#![cfg(warpweft_shuttle)]

mod sketches;
