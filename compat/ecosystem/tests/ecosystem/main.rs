//! Unmodified crates of tokio's ecosystem on Warpweft's workers: each test checks its answers, the threads on
//! which they were computed, and that no other pool came to be.

mod axum;
mod clients;
mod streams;
mod tonic;
mod tower;
