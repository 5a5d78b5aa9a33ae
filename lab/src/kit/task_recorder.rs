//! A recorder of tasks: what one spawner has under way, and what its tasks leave behind.
//!
//! ```text
//!  spawner ── launches ──▶ tasks ── finish() ──▶ shard of the thread it ran on
//!     ▲                                            ├ done      how many ended
//!     └──── window: spawned - done < limit ────────┤ last end  when the last one ended
//!                                                  ├ counts   what they counted (checked after the run)
//!                                                  └ buckets   how long they took; heavy ones apart
//! ```
//!
//! Every contestant pays the same for it: two clock readings per task and four stores on lines that no other
//! thread writes. The end of a run is the time of the last end, not the time at which a thread noticed it.
//! No thread has to spin for it, and the thread that waits for the end sleeps.
//!
//! Invariants
//! - A thread below [`OWNED`] is the only one that ever writes its shard, so a plain load and store counts;
//!   all later threads share one shard and count with read-modify-writes.
//! - `done` is stored last, with release: a thread that has seen all of them done sees the counts and the
//!   buckets.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use harness::{BUCKETS, add_bucket, bucket_of, empty_histogram};

use super::host::{self, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Threads that have their own shard.
const OWNED: usize = if cfg!(warpweft_sim) { 320 } else { 64 };
/// The number of things that a workload can count.
pub(crate) const COUNTS: usize = 4;
/// The counts of one task.
pub(crate) type Counts = [u64; COUNTS];

/// The number of threads that have a number.
static NUMBERED: AtomicUsize = AtomicUsize::new(0);

/// The number of this thread, in the order in which threads first asked.
pub(crate) fn thread_number() -> usize {
    host::thread_slot(|number| {
        if number.get() == usize::MAX {
            // Relaxed: the number only has to be unique.
            number.set(NUMBERED.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

/// The figures of the tasks of one thread. 128 bytes: neighbours must not share a line, nor a pair of
/// lines.
#[repr(align(128))]
#[derive(Default)]
struct Shard {
    done: AtomicU64,
    last_end: AtomicU64,
    counts: [AtomicU64; COUNTS],
    buckets: Buckets,
    heavy: Buckets,
}

/// The histogram of their latencies; made when the first one ends.
type Buckets = OnceLock<Box<[AtomicU32]>>;

/// The tasks that one spawner has under way; see the module.
pub(crate) struct TaskRecorder {
    base: Instant,
    window: u64,
    start: AtomicU64,
    waits: AtomicU64,
    shards: Box<[Shard]>,
}

impl TaskRecorder {
    /// A recorder that allows `window` tasks under way, or any number if it is 0. `base` is the run's time
    /// zero.
    ///
    /// It lives as long as the process: tasks hold a plain reference to it, so that no contestant pays for
    /// the traffic of a reference count. A process makes a few recorders only.
    pub(crate) fn leaked(base: Instant, window: u64) -> &'static Self {
        Box::leak(Box::new(Self {
            base,
            window: if window == 0 { u64::MAX } else { window },
            start: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            shards: (0..=OWNED).map(|_| Shard::default()).collect(),
        }))
    }

    /// Nanoseconds since the base.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        host::since(self.base).as_nanos() as u64
    }

    /// Notes that the spawner begins; returns the time.
    pub(crate) fn begin(&self) -> u64 {
        let now = self.now();
        self.start.store(now, Ordering::Relaxed);
        now
    }

    /// A task ends that was launched at `started` and counted `counts`.
    #[inline]
    pub(crate) fn finish(&self, started: u64, counts: Counts) {
        self.finish_at(self.now(), started, counts);
    }

    /// The same for one that ended at `end`, which is now or was a moment ago.
    #[inline]
    pub(crate) fn finish_at(&self, end: u64, started: u64, counts: Counts) {
        self.finish_in(|shard| &shard.buckets, end, started, counts);
    }

    /// The same for a task that is much heavier than most: how long those took is reported apart.
    pub(crate) fn finish_heavy(&self, started: u64, counts: Counts) {
        self.finish_in(|shard| &shard.heavy, self.now(), started, counts);
    }

    #[inline]
    fn finish_in(&self, buckets: impl Fn(&Shard) -> &Buckets, end: u64, started: u64, counts: Counts) {
        let number = thread_number();
        let shard = &self.shards[number.min(OWNED)];
        let buckets = buckets(shard).get_or_init(|| (0..BUCKETS).map(|_| AtomicU32::new(0)).collect());
        let bucket = &buckets[bucket_of(end.saturating_sub(started))];
        // Relaxed throughout: `done` publishes the others.
        if number < OWNED {
            bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.leave(shard, number, end, counts, 1);
    }

    /// `count` pieces of work ended that are neither timed nor counted.
    #[inline]
    pub(crate) fn finish_untimed(&self, counts: Counts, count: u64) {
        let number = thread_number();
        self.leave(&self.shards[number.min(OWNED)], number, self.now(), counts, count);
    }

    /// A task ends that is only counted: without a clock reading.
    #[inline]
    pub(crate) fn count(&self) {
        let number = thread_number();
        self.leave(&self.shards[number.min(OWNED)], number, 0, [0; COUNTS], 1);
    }

    #[inline]
    fn leave(&self, shard: &Shard, number: usize, end: u64, counts: Counts, count: u64) {
        for (sum, counted) in shard.counts.iter().zip(counts) {
            if counted != 0 {
                if number < OWNED {
                    sum.store(
                        sum.load(Ordering::Relaxed).wrapping_add(counted),
                        Ordering::Relaxed,
                    );
                } else {
                    sum.fetch_add(counted, Ordering::Relaxed);
                }
            }
        }
        // Release, partner of `done`'s acquire: a thread that sees this task done sees what it left.
        if number < OWNED {
            shard.last_end.store(end, Ordering::Relaxed);
            shard
                .done
                .store(shard.done.load(Ordering::Relaxed) + count, Ordering::Release);
        } else {
            shard.last_end.fetch_max(end, Ordering::Relaxed);
            shard.done.fetch_add(count, Ordering::Release);
        }
    }

    /// Returns the number of tasks that ended. Their writes are visible to the caller.
    pub(crate) fn done(&self) -> u64 {
        // Acquire, partner of the release in `leave`. Relaxed for the number of threads: a thread that is
        // missed now is seen by a later look.
        let used = NUMBERED.load(Ordering::Relaxed).min(OWNED + 1);
        self.shards[..used]
            .iter()
            .map(|shard| shard.done.load(Ordering::Acquire))
            .sum()
    }

    /// The spawner's view of the window.
    pub(crate) fn spawn_window(&'static self) -> SpawnWindow {
        SpawnWindow {
            recorder: self,
            done: 0,
            waits: 0,
        }
    }
}

/// The spawner's end of a recorder's window. It remembers how many were done when it last looked, so that it
/// reads other threads' lines only when the window seems full.
pub(crate) struct SpawnWindow {
    recorder: &'static TaskRecorder,
    done: u64,
    waits: u64,
}

impl SpawnWindow {
    /// Returns true if the spawner, having launched `spawned`, must let others run before it launches the
    /// next.
    #[inline]
    pub(crate) fn is_full(&mut self, spawned: u64) -> bool {
        if spawned - self.done < self.recorder.window {
            return false;
        }
        self.done = self.recorder.done();
        let full = spawned - self.done >= self.recorder.window;
        if full {
            self.waits += 1;
            // Relaxed, by the spawner alone: a figure, not a signal.
            self.recorder.waits.store(self.waits, Ordering::Relaxed);
        }
        full
    }
}

/// The sums over all recorders of a run.
pub(crate) struct Recorded {
    /// From the first spawner's start to the last task's end.
    pub(crate) elapsed: Duration,
    /// The sums of all counts.
    pub(crate) counts: Counts,
    /// All latencies but those of heavy tasks.
    pub(crate) histogram: Histogram<u64>,
    /// Those.
    pub(crate) heavy: Histogram<u64>,
    /// Returns how often spawners found their window full.
    pub(crate) waits: u64,
}

/// Sleeps until each recorder has seen `each` tasks end, and adds up what they left.
///
/// It waits for ever if they do not; the run's time limit is kept by the process that started this one.
pub(crate) fn record(recorders: &[&'static TaskRecorder], each: u64) -> Recorded {
    while recorders.iter().any(|recorder| recorder.done() < each) {
        host::sleep(Duration::from_micros(200));
    }
    let mut recorded = Recorded {
        elapsed: Duration::ZERO,
        counts: [0; COUNTS],
        histogram: empty_histogram(),
        heavy: empty_histogram(),
        waits: 0,
    };
    let mut end = 0;
    for recorder in recorders {
        recorded.waits += recorder.waits.load(Ordering::Relaxed);
        for shard in &recorder.shards {
            end = end.max(shard.last_end.load(Ordering::Relaxed));
            for (sum, counted) in recorded.counts.iter_mut().zip(&shard.counts) {
                *sum = sum.wrapping_add(counted.load(Ordering::Relaxed));
            }
            for (buckets, histogram) in [
                (&shard.buckets, &mut recorded.histogram),
                (&shard.heavy, &mut recorded.heavy),
            ] {
                for (bucket, count) in buckets.get().into_iter().flatten().enumerate() {
                    let count = count.load(Ordering::Relaxed);
                    if count > 0 {
                        add_bucket(histogram, bucket, u64::from(count));
                    }
                }
            }
        }
    }
    let start = recorders
        .iter()
        .map(|recorder| recorder.start.load(Ordering::Relaxed))
        .min()
        .unwrap_or(0);
    recorded.elapsed = Duration::from_nanos(end.saturating_sub(start).max(1));
    recorded
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn what_tasks_leave_on_many_threads_adds_up() {
        let recorder = TaskRecorder::leaked(Instant::now(), 0);
        recorder.begin();
        // More threads than owned shards: the shared one is used as well.
        thread::scope(|scope| {
            for number in 0..OWNED as u64 + 20 {
                scope.spawn(move || {
                    for _ in 0..100 {
                        recorder.finish(recorder.now(), [1, number, 0, u64::MAX]);
                    }
                });
            }
        });
        let threads = OWNED as u64 + 20;
        let recorded = record(&[recorder], threads * 100);
        assert_eq!(recorded.counts[0], threads * 100);
        assert_eq!(recorded.counts[1], 100 * threads * (threads - 1) / 2);
        assert_eq!(
            recorded.counts[3],
            0_u64.wrapping_sub(threads * 100),
            "counts wrap"
        );
        assert_eq!(recorded.histogram.len(), threads * 100);
    }

    #[test]
    fn the_window_is_full_until_tasks_end() {
        let recorder = TaskRecorder::leaked(Instant::now(), 3);
        let mut window = recorder.spawn_window();
        assert!(!window.is_full(2));
        assert!(window.is_full(3));
        recorder.finish_untimed([0; COUNTS], 1);
        assert!(!window.is_full(3));
        assert!(window.is_full(4));
        assert_eq!(record(&[recorder], 1).waits, 2);
    }

    #[test]
    fn heavy_tasks_count_as_done_and_are_timed_apart() {
        let recorder = TaskRecorder::leaked(Instant::now(), 2);
        recorder.finish(recorder.now(), [1, 0, 0, 0]);
        recorder.finish_heavy(recorder.now(), [2, 0, 0, 0]);
        assert!(!recorder.spawn_window().is_full(3), "both are done");
        let recorded = record(&[recorder], 2);
        assert_eq!(
            (recorded.histogram.len(), recorded.heavy.len(), recorded.counts[0]),
            (1, 1, 3)
        );
    }

    #[test]
    fn no_window_is_never_full() {
        let mut window = TaskRecorder::leaked(Instant::now(), 0).spawn_window();
        assert!(!window.is_full(1 << 40));
    }
}
