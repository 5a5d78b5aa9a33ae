//! Policies with more places pass the kit. They take as long as the presets, so `cargo test` leaves them out:
//! `cargo test -p warpweft-conformance --test presets_wide`, and `cargo xtask ci`.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod wide;
