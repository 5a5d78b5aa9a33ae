//! Lines of figures, appended to a file when a runtime or the process ends.
//!
//! The environment asks for them: see [`Builder`](crate::Builder#environment), which has their fields.
//!
//! # Invariants
//!
//! - A runtime whose figures are wanted is in [`LIVE`] until they are written. The thread that takes it out
//!   of the list writes them, so they are written once. The end of the process waits for that thread.
//! - A line is one write to a file that is opened for appending. So processes may share the file.
//! - Nothing is written for a runtime of a process from which this one was forked.
//! - No failure here reaches the program. A line that cannot be written is lost.

use super::build_error::BuildError;
use super::pool::Pool;
use crate::observe::json::Text;
use crate::observe::recorder::times::Distribution;
use crate::pool::dyn_pool::DynPool;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::mem;
use std::panic::catch_unwind;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use warpweft_platform::clock::now_ns;
use warpweft_platform::process;
use warpweft_platform::sync::StaticMutex;
use warpweft_platform::thread::yield_now;

/// The version of the lines' format.
const FORMAT: u32 = 1;

/// How often the end of the process tries to take the list, while another thread has it or writes. It must
/// not wait without end: in a forked child that thread does not exist.
const TRIES: u32 = 10_000;

/// The runtimes whose figures are to be written, and how many there have been.
struct Live {
    ever: u64,
    runtimes: Vec<ListedRuntime>,
    /// How many that were taken out of the list are being written.
    writing: usize,
}

static LIVE: StaticMutex<Live> = StaticMutex::new(Live {
    ever: 0,
    runtimes: Vec::new(),
    writing: 0,
});

struct ListedRuntime {
    number: u64,
    file: File,
    since_ns: u64,
    pools: Vec<Weak<dyn DynPool>>,
}

/// The number under which a runtime is listed.
#[derive(Debug)]
pub(crate) struct Stats(u64);

impl Stats {
    /// Lists a runtime with these pools, whose figures go to `file`.
    pub(crate) fn list(file: File, pools: &[Pool]) -> Self {
        static AT_EXIT: OnceLock<bool> = OnceLock::new();
        AT_EXIT.get_or_init(|| process::at_exit(at_exit));
        let pools = pools.iter().map(|pool| Arc::downgrade(pool.any())).collect();
        LIVE.with(|live| {
            live.ever += 1;
            live.runtimes.push(ListedRuntime {
                number: live.ever,
                file,
                since_ns: now_ns(),
                pools,
            });
            Self(live.ever)
        })
    }

    /// Writes the figures of the runtime, which has shut down.
    pub(crate) fn write(&self) {
        let listed = LIVE.with(|live| {
            let at = live.runtimes.iter().position(|listed| listed.number == self.0)?;
            live.writing += 1;
            Some((EndDelay, live.runtimes.swap_remove(at)))
        });
        // Outside of the lock: the end of a pool may run destructors of the program.
        if let Some((_writing, listed)) = listed {
            listed.write("shutdown");
        }
    }
}

/// Lets the end of the process wait for a thread that writes, until it is dropped.
struct EndDelay;

impl Drop for EndDelay {
    fn drop(&mut self) {
        LIVE.with(|live| live.writing -= 1);
    }
}

/// Writes the figures of the runtimes that the process has at its end.
extern "C" fn at_exit() {
    // Unwind: nothing may unwind into the system's code.
    let written = catch_unwind(|| {
        for left in (0..TRIES).rev() {
            let take = |live: &mut Live| {
                let is_over = live.writing == 0 || left == 0;
                is_over.then(|| mem::take(&mut live.runtimes))
            };
            if let Some(Some(runtimes)) = LIVE.try_with(take) {
                for listed in &runtimes {
                    // These shares stay, so that no destructor runs here.
                    listed
                        .pools
                        .iter()
                        .filter_map(Weak::upgrade)
                        .for_each(mem::forget);
                    listed.write("exit");
                }
                return;
            }
            yield_now();
        }
    });
    // A panic has been reported.
    drop(written);
}

impl ListedRuntime {
    fn write(&self, written: &str) {
        for pool in &self.pools {
            let Some(pool) = pool.upgrade() else { continue };
            if pool.is_in_forked_child() {
                continue;
            }
            let pool = Pool::new(pool);
            append(&self.file, &self.line(&pool, written));
        }
    }

    fn line(&self, pool: &Pool, written: &str) -> String {
        let (threads, sources) = (pool.threads(), pool.sources());
        let life = Duration::from_nanos(now_ns().saturating_sub(self.since_ns));
        let mut object = Object::new();
        object.field("runtime", self.number);
        object.field("pool", Text(pool.name()));
        object.field("policy", Text(pool.policy()));
        object.field("policy_from", Text(sources.policy.word()));
        object.field("workers", pool.workers());
        object.field("workers_from", Text(sources.workers.word()));
        object.field("max_workers", pool.max_workers());
        object.field("written", Text(written));
        object.field("seconds", life.as_secs_f64());
        object.field("threads", threads.most);
        object.field("stalls", pool.stalls());
        object.field("counters", CountersJson(pool));
        let classes = pool.any().core().recorder.times();
        for (at, name) in ["queue_delay", "wake_to_run", "run_time"].into_iter().enumerate() {
            let sum = classes
                .iter()
                .fold(Distribution::default(), |sum, class| sum.plus(&class[at]));
            if sum.count() > 0 {
                object.field(name, Quantiles(&sum));
            }
        }
        object.end()
    }
}

/// Appends the reason why a runtime was not built.
pub(crate) fn write_error(file: &File, error: &BuildError) {
    let mut object = Object::new();
    object.field("error", Text(&error.to_string()));
    append(file, &object.end());
}

fn append(mut file: &File, line: &str) {
    // See the invariants: it is lost.
    let _lost = file.write_all(line.as_bytes());
}

/// An object of JSON, and the end of its line.
struct Object(String);

impl Object {
    fn new() -> Self {
        let mut object = Self(String::from("{"));
        object.field("warpweft", FORMAT);
        object.field("pid", std::process::id());
        object
    }

    fn field(&mut self, name: &str, value: impl fmt::Display) {
        let comma = if self.0.len() > 1 { "," } else { "" };
        // A string takes everything.
        let _ = write!(self.0, "{comma}\"{name}\":{value}");
    }

    fn end(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }
}

/// The figures of a distribution as an object, with its buckets: the upper end of each, in nanoseconds, and
/// the number of values.
struct Quantiles<'a>(&'a Distribution);

impl fmt::Display for Quantiles<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = |q| self.0.quantile(q).as_nanos();
        let (count, p50, p99) = (self.0.count(), ns(0.5), ns(0.99));
        write!(
            f,
            "{{\"count\":{count},\"p50_ns\":{p50},\"p99_ns\":{p99},\"buckets\":["
        )?;
        for (place, (end, count)) in self.0.buckets().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}[{},{count}]", end.as_nanos())?;
        }
        f.write_str("]}")
    }
}

/// The counters of a pool as an object.
struct CountersJson<'a>(&'a Pool);

impl fmt::Display for CountersJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (place, (name, count)) in self.0.counters().total().fields().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}\"{name}\":{count}")?;
        }
        f.write_char('}')
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{Object, Text};

    #[test]
    fn an_object_is_a_line() {
        let mut object = Object::new();
        object.field("name", Text("x"));
        let pid = std::process::id();
        assert_eq!(
            object.end(),
            format!("{{\"warpweft\":1,\"pid\":{pid},\"name\":\"x\"}}\n")
        );
    }
}
