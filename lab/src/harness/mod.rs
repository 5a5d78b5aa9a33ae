//! Measuring: clocks and buckets inside a run, statistics over runs, and the machine they ran on.

pub(crate) mod isolate;
pub(crate) mod latency;
pub(crate) mod machine;
pub(crate) mod probe;
pub(crate) mod record;
pub(crate) mod session;
pub(crate) mod stats;
pub(crate) mod summary;
