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
use crate::observe::json::Writer;
use crate::observe::recorder::times::Distribution;
use crate::pool::dyn_pool::DynPool;
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
        line(|json| {
            json.value("runtime", Some(self.number));
            json.text("pool", Some(pool.name()));
            json.text("policy", Some(pool.policy()));
            json.text("policy_from", Some(sources.policy.word()));
            json.value("workers", Some(pool.workers()));
            json.text("workers_from", Some(sources.workers.word()));
            json.value("max_workers", Some(pool.max_workers()));
            json.text("written", Some(written));
            json.value("seconds", Some(life.as_secs_f64()));
            json.value("threads", Some(threads.most));
            json.value("stalls", Some(pool.stalls()));
            json.name("counters");
            json.object(|json| {
                for (name, count) in pool.counters().total().fields() {
                    json.value(name, Some(count));
                }
            });
            let classes = pool.any().core().recorder.times();
            for (at, name) in ["queue_delay", "wake_to_run", "run_time"].into_iter().enumerate() {
                let sum = classes
                    .iter()
                    .fold(Distribution::default(), |sum, class| sum.plus(&class[at]));
                if sum.count() > 0 {
                    quantiles(json, name, &sum);
                }
            }
        })
    }
}

/// Appends the reason why a runtime was not built.
pub(crate) fn write_error(file: &File, error: &BuildError) {
    append(file, &line(|json| json.text("error", Some(&error.to_string()))));
}

fn append(mut file: &File, line: &str) {
    // See the invariants: it is lost.
    let _lost = file.write_all(line.as_bytes());
}

/// An object of JSON with what each line has and these members, and the end of its line.
fn line(members: impl FnOnce(&mut Writer)) -> String {
    let mut json = Writer::default();
    json.object(|json| {
        json.value("warpweft", Some(FORMAT));
        json.value("pid", Some(std::process::id()));
        members(json);
    });
    json.0 + "\n"
}

/// The figures of a distribution as an object, with its buckets: the upper end of each, in nanoseconds, and
/// the number of values.
fn quantiles(json: &mut Writer, name: &str, times: &Distribution) {
    let ns = |q| Some(times.quantile(q).as_nanos());
    json.name(name);
    json.object(|json| {
        json.value("count", Some(times.count()));
        json.value("p50_ns", ns(0.5));
        json.value("p99_ns", ns(0.99));
        json.list("buckets", times.buckets(), |json, (end, count)| {
            json.item(format_args!("[{},{count}]", end.as_nanos()));
        });
    });
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::line;

    #[test]
    fn an_object_is_a_line() {
        let pid = std::process::id();
        assert_eq!(
            line(|json| json.text("name", Some("x"))),
            format!("{{\"warpweft\":1,\"pid\":{pid},\"name\":\"x\"}}\n")
        );
    }
}
