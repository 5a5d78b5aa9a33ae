//! Fork-join: joins and scopes of closures and of futures, parallel streams.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/eventually.rs"]
mod eventually;
#[path = "../support/everywhere.rs"]
mod everywhere;
#[path = "../support/in_time.rs"]
mod in_time;

mod bounded;
mod join_async;
mod join_panics;
mod joins;
mod order;
mod other_work;
mod parts;
mod scoped_futures;
mod scopes;
mod streams;
