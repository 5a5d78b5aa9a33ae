//! The metrics of a [Warpweft](warpweft) runtime for the facade of the crate [`metrics`].
//!
//! A [`Publisher`] gives what [`Runtime::metrics`] says to the program's recorder: an exporter for
//! Prometheus, for OpenTelemetry, or another one. A program calls [`publish`](Publisher::publish) when it
//! wants to, such as before it answers a scrape, or lets a task [do it](Publisher::every) again and again.
//!
//! ```
//! use warpweft::Runtime;
//! use warpweft_metrics::Publisher;
//!
//! // A program installs the recorder of its exporter first.
//! let recorder = metrics_util::debugging::DebuggingRecorder::new();
//! let seen = recorder.snapshotter();
//! recorder.install()?;
//!
//! let runtime = Runtime::builder().workers(1).name("web").build()?;
//! // Without it there are no histograms. A step costs about 10 ns more with it.
//! runtime.recorder().measure_steps(true);
//! let mut publisher = Publisher::new(&runtime);
//! runtime.spawn_job(|| ()).wait()?;
//! publisher.publish();
//!
//! let seen = seen.snapshot().into_vec();
//! assert!(seen.iter().any(|(key, ..)| key.key().name() == "warpweft_tasks"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Names
//!
//! Each has the label `pool`, the name of the pool.
//!
//! | name | kind | further labels | what |
//! |---|---|---|---|
//! | `warpweft_tasks` | gauge | `kind`: `runnable`, `future`, `fiber`, `job`, `fork`, `blocking` | [`TaskCounts`] |
//! | `warpweft_queue_length` | gauge | `queue`: `injector`, or the number of a worker | tasks in queues of the policy, if it says |
//! | `warpweft_waiting` | gauge | `on`: `timer`, `socket`, `blocking_thread`, `thief` | the other [`Depths`] |
//! | `warpweft_threads` | gauge | `state`: `all`, `blocked`, `spare`, `blocking` | [`ThreadCounts`] |
//! | `warpweft_workers` | gauge | `state`: `all`, `searching`, `sleeping` | workers |
//! | `warpweft_stalls_total` | counter | | [`PoolMetrics::stalls`] |
//! | `warpweft_busy_microseconds_total` | counter | `worker` | [`PoolMetrics::busy`] |
//! | `warpweft_spawned_total`, and so on | counter | | one for each [`Count`](warpweft::policy::Count), summed over workers |
//! | `warpweft_run_time_seconds` | histogram | `class` | how long steps took |
//! | `warpweft_queue_delay_seconds` | histogram | `class` | from the push of a new task to its first step |
//! | `warpweft_wake_to_run_seconds` | histogram | `class` | from a wake to the step that follows |
//! | `warpweft_measured_total` | counter | `class`, `what`: `run_time`, `queue_delay`, `wake_to_run` | how many values these had |
//!
//! A `class` is a [priority](warpweft::Priority), or `none`.
//!
//! # Histograms are sampled
//!
//! The facade takes values one by one, and a busy pool has millions of steps a second. So a publication
//! records at most [`MOST`] values for each histogram. They are spread evenly over the sorted values since
//! the last publication, so that quantiles down to one in `MOST` are kept. `warpweft_measured_total` has the
//! true number. A value is the upper end of its bucket, at most 1/16 too large.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod publisher;

pub use publisher::{MOST, Publisher, describe};

#[cfg(doc)]
use warpweft::{Depths, PoolMetrics, Runtime, TaskCounts, ThreadCounts};
