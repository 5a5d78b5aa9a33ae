//! Reports come within twice the time after which they are due, and a slice of the system's time.
//!
//! That is counted from the moment at which the guilty function begins. Foreign load makes everything late,
//! so each attempt has a control: a thread that sleeps and computes by turns, and knows how late it is. Of
//! several attempts most have to be in time. The tests take turns, so that they are no load for each other.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(warpweft_loom, warpweft_shuttle))
))]

#[path = "support/again.rs"]
#[allow(dead_code, reason = "these children are killed")]
mod again;

use again::child;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use warpweft::{Runtime, TaskKind};

const PATIENCE: Duration = Duration::from_secs(100);
/// A slice of the system's scheduler, and the time in which symbols are looked up that were read before.
const SLICE: Duration = Duration::from_millis(30);

#[inline(never)]
fn guilty_that_computes(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        black_box((0..100_u64).sum::<u64>());
    }
}

/// Sets the flag when it is dropped, so that what spins ends also if the test fails.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits until no other test measures.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that sleeps and computes by turns.
struct Control {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Control {
    fn begin() -> Self {
        const SLEEPS: Duration = Duration::from_millis(5);
        // As long, because symbols are read by computing.
        const COMPUTES: Duration = Duration::from_millis(5);
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut late = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let start = Instant::now();
                thread::sleep(SLEEPS);
                let before = cpu_time();
                while cpu_time() - before < COMPUTES {}
                late += start.elapsed().saturating_sub(SLEEPS + COMPUTES);
            }
            late
        });
        Self { over, thread }
    }

    /// Ends the thread. Returns how late it was, all in all.
    fn end(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}

/// How long the calling thread has had a CPU.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place is valid for a write.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0);
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(i64::cast_unsigned);
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

/// A report that an attempt has got.
#[derive(Debug)]
struct Attempt {
    took: Duration,
    late: Duration,
    is_named: bool,
}

/// Demands that three quarters of the attempts are in time, for reports that are due after `due`.
#[track_caller]
fn most_are_in_time(what: &str, due: Duration, attempts: usize, attempt: impl Fn() -> (Duration, bool)) {
    let made: Vec<Attempt> = (0..attempts)
        .map(|_| {
            let control = Control::begin();
            let (took, is_named) = attempt();
            let late = control.end();
            Attempt { took, late, is_named }
        })
        .collect();
    let is_in_time = |made: &&Attempt| made.is_named && made.took <= 2 * due + SLICE + made.late;
    let in_time = made.iter().filter(is_in_time).count();
    assert!(
        4 * in_time >= 3 * attempts,
        "{what}: {in_time} of {attempts}: {made:#?}"
    );
}

#[test]
fn a_stall_is_reported_in_time() {
    let _alone = alone();
    const STUCK: Duration = Duration::from_millis(100);
    type Spawn = fn(&Runtime, Body);
    type Body = Box<dyn FnOnce() + Send>;
    let kinds: [(TaskKind, Spawn); 3] = [
        (TaskKind::Job, |runtime, body| drop(runtime.spawn_job(body))),
        (TaskKind::Future, |runtime, body| {
            drop(runtime.spawn(async move { body() }));
        }),
        (TaskKind::Fiber, |runtime, body| drop(runtime.spawn_fiber(body))),
    ];
    for (kind, spawn) in kinds {
        let attempt = || {
            let (tell, told) = mpsc::channel();
            let tell = Mutex::new(tell);
            let runtime = Runtime::builder()
                .workers(1)
                .stuck_after(Some(STUCK))
                .on_stall(move |stall| {
                    let report = (Instant::now(), stall.clone());
                    // A second report of an attempt that is over is not heard.
                    drop(tell.lock().expect("no panic").send(report));
                })
                .build()
                .expect("threads");
            let over = Arc::new(AtomicBool::new(false));
            let _over = Over(Arc::clone(&over));
            let begun = Arc::new(Mutex::new(None));
            let begins = Arc::clone(&begun);
            spawn(
                &runtime,
                Box::new(move || {
                    *begins.lock().expect("no panic") = Some(Instant::now());
                    guilty_that_computes(&over);
                }),
            );
            let (heard, stall) = told.recv_timeout(PATIENCE).expect("a report");
            let begun = begun.lock().expect("no panic").expect("it has begun");
            assert_eq!(stall.kind, Some(kind), "{stall}");
            assert!(stall.stuck_for >= STUCK, "{stall}");
            (heard - begun, stall.to_string().contains("guilty_that_computes"))
        };
        most_are_in_time(&format!("{kind:?}"), STUCK, 20, attempt);
    }
}

/// Computes, and says before that it begins.
fn computes_in_a_child(builder: warpweft::Builder) {
    let runtime = builder.workers(1).build().expect("threads");
    let over = Arc::new(AtomicBool::new(false));
    let over_soon = Over(Arc::clone(&over));
    let job = runtime.spawn_job(move || {
        eprintln!("begun");
        guilty_that_computes(&over);
    });
    // It is killed when its report was read.
    thread::sleep(Duration::from_secs(20));
    drop(over_soon);
    job.wait().expect("no panic");
}

/// Reads until a line has the last text. Returns what was read, and how long it took from the line `begun` to
/// the one that is timed.
fn read_until(child: &mut Child, timed: &str, last: &str) -> (String, Option<Duration>) {
    let stderr = child.stderr.take().expect("it is piped");
    let (mut all, mut begun) = (String::new(), None);
    let mut took = None;
    for line in BufReader::new(stderr).lines() {
        let line = line.expect("it is text");
        if line == "begun" {
            begun = Some(Instant::now());
        }
        all.push_str(&line);
        all.push('\n');
        if took.is_none() && line.contains(timed) {
            took = Some(begun.expect("it has begun").elapsed());
        }
        if took.is_some() && line.contains(last) {
            break;
        }
    }
    child.kill().expect("it is a child");
    child.wait().expect("it ends");
    (all, took)
}

/// Nothing is set. The symbols of the program have not been read before: the report comes in time, with
/// addresses if they take longer, and the names follow.
#[test]
fn the_first_report_of_a_process_is_in_time() {
    let _alone = alone();
    let test = "the_first_report_of_a_process_is_in_time";
    let body = || computes_in_a_child(Runtime::builder());
    if std::env::var_os("WARPWEFT_CHILD_TEST").is_some() {
        drop(child(test, body));
        return;
    }
    most_are_in_time("the first", Duration::from_millis(200), 8, || {
        let mut child = child(test, body).expect("this is the parent");
        let (text, took) = read_until(&mut child, "its stack:", "guilty_that_computes");
        assert!(text.contains("guilty_that_computes"), "no names: {text}");
        (took.unwrap_or_else(|| panic!("no report: {text}")), true)
    });
}

/// The report is due long before the symbols are read: it comes with addresses, and the names follow.
#[test]
fn a_report_does_not_wait_long_for_names() {
    let _alone = alone();
    let body = || {
        let soon = Some(Duration::from_millis(20));
        computes_in_a_child(Runtime::builder().report_stalls_after(soon));
    };
    let test = "a_report_does_not_wait_long_for_names";
    let Some(mut child) = child(test, body) else {
        return;
    };
    let (text, took) = read_until(&mut child, "guilty_that_computes", "guilty_that_computes");
    assert!(took.is_some(), "no names: {text}");
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no `{part}`: {text}"));
    let parts = [
        "warpweft: worker 0 of `warpweft` has been for",
        "its stack:",
        "the names follow",
        "warpweft: the stack of worker 0 of `warpweft`, reported before:",
    ];
    assert!(parts.map(place).is_sorted(), "{text}");
    assert!(!text.contains("no names"), "they follow: {text}");
    assert_eq!(text.matches("has been for").count(), 1, "{text}");
}
