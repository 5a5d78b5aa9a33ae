//! Measures this machine for the simulator: what it is made of, and what its steps cost.
//!
//! | cost | how it is measured |
//! |---|---|
//! | hits, fence, pause, clock | the fastest of some loops |
//! | distances | a line that goes to and fro between two CPUs; in the model that takes three transfers and 16 ns |
//! | hold | two CPUs that add to one word, over and over |
//! | memory | loads that depend on each other, all over 128 MiB |
//! | wake-ups | a thread that parks, and another one that unparks it |
//! | the rest | assumed, and the file says so |

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use harness::{LabError, line_round_trip};

/// Of a round trip in the model, besides its transfers: the looks and steps of both sides.
const AROUND_NS: f64 = 16.0;
/// The transfers of a round trip in the model: a store that takes the line, and a load that comes behind it,
/// overlap by a half, on both ways.
const TRANSFERS: f64 = 3.0;

/// A CPU and what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cpu {
    number: usize,
    package: String,
    core: String,
    /// The CPUs of its last-level cache, as the system writes them.
    cache: String,
}

/// Measures this machine, and returns the text of its file.
///
/// # Errors
///
/// The system does not say which CPUs there are, or no line can be passed between two of them.
pub(crate) fn machine() -> Result<String, LabError> {
    let cpus = cpus();
    let unable = || {
        LabError::Usage(String::from(
            "this machine cannot be measured: at least two CPUs are needed, and /sys/devices/system/cpu",
        ))
    };
    let (first, rest) = cpus.split_first().ok_or_else(unable)?;
    let with = |so: &dyn Fn(&Cpu) -> bool| {
        let other = rest.iter().find(|cpu| so(cpu))?;
        Some(((line_round_trip(first.number, other.number)? - AROUND_NS) / TRANSFERS).max(1.0))
    };
    let is_other_core = |cpu: &Cpu| cpu.core != first.core || cpu.package != first.package;
    let near = with(&|cpu| is_other_core(cpu) && cpu.cache == first.cache);
    let middle = with(&|cpu| cpu.package == first.package && cpu.cache != first.cache);
    let far = with(&|cpu| cpu.package != first.package);
    let known = near.or(middle).or(far).ok_or_else(unable)?;
    let is_near = |cpu: &&Cpu| is_other_core(cpu) && cpu.cache == first.cache;
    let other = rest
        .iter()
        .find(is_near)
        .or(rest.iter().find(|cpu| is_other_core(cpu)));
    let other = other.ok_or_else(unable)?;
    let near = near.unwrap_or(known);
    let middle = middle.unwrap_or(near).max(near);
    let distances = [near, middle, far.unwrap_or(middle).max(middle)];
    let mut costs = costs();
    let add_ns = contended_add(first.number, other.number);
    costs.push(match add_ns {
        Some(ns) => hold(ns, distances[0], &costs),
        None => ("hold", 10.0, "assumed: no thread could be put onto a CPU"),
    });
    Ok(text(&cpus, distances, &costs))
}

/// The CPUs of this machine, by number.
fn cpus() -> Vec<Cpu> {
    let read = |number: usize, what: &str| {
        let text = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{number}/{what}"));
        text.map(|text| text.trim().to_owned()).ok()
    };
    let cpu = |number| {
        let package = read(number, "topology/physical_package_id")?;
        let cache = [3, 2].into_iter().find_map(|level| {
            let cache = read(number, &format!("cache/index{level}/shared_cpu_list"));
            cache.filter(|cpus| cpus.contains(['-', ',']))
        });
        Some(Cpu {
            number,
            core: read(number, "topology/core_id")?,
            cache: cache.unwrap_or_else(|| package.clone()),
            package,
        })
    };
    (0..1024).map_while(cpu).collect()
}

/// A cost and where it comes from.
type Cost = (&'static str, f64, &'static str);

/// The costs that do not depend on where CPUs are.
fn costs() -> Vec<Cost> {
    const LOOP: &str = "measured: the fastest of some loops";
    const PARK: &str = "measured: a thread that parks and is unparked, the median";
    let word = AtomicU64::new(0);
    // Fences without a store between them would be one.
    let stored = || {
        word.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    };
    // The compiler does not know that nobody else reads them.
    let words = black_box(Box::new([const { AtomicU64::new(0) }; 32]));
    let mut next = 0;
    let store_in_turn = || {
        next = (next + 8) % words.len();
        words[next].store(1, Ordering::Relaxed);
    };
    let (wake, total) = wake();
    vec![
        (
            "step",
            1.5,
            "assumed: some five instructions between two accesses",
        ),
        (
            "block",
            0.05,
            "fitted on another machine to one worker of cycle with fifo",
        ),
        (
            "wrong_guess",
            8.0,
            "fitted on another machine to one worker of cycle with negele",
        ),
        ("load_hit", chase(512, 2_000_000), LOOP),
        (
            "store_hit",
            fastest(store_in_turn),
            "measured: stores to four lines in turn, since two of one line may be one for the cache",
        ),
        (
            "rmw_hit",
            fastest(|| black_box(word.fetch_add(1, Ordering::AcqRel))),
            LOOP,
        ),
        ("fence", fastest(stored), LOOP),
        ("pause", fastest(spin_loop), LOOP),
        (
            "memory",
            chase(1 << 24, 1_000_000),
            "measured: loads that depend on each other, over 128 MiB",
        ),
        (
            "occupancy",
            4.0,
            "assumed: a directory takes a request in some ten cycles of its clock",
        ),
        ("link", 1.8, "assumed: 64 bytes at some 35 GB/s in each direction"),
        (
            "stream",
            4.0,
            "assumed: 64 bytes at some 16 GB/s from one cache to another",
        ),
        ("clock", fastest(|| black_box(Instant::now())), LOOP),
        ("yield_cpu", fastest(thread::yield_now), LOOP),
        ("switch", 1500.0, "assumed: a switch of threads by the kernel"),
        (
            "futex_wait",
            1000.0,
            "assumed: the way into the kernel until the CPU is free",
        ),
        ("futex_wake", wake, PARK),
        ("wake_latency", (total - wake).max(100.0), PARK),
        (
            "thread_start",
            start(),
            "measured: the call that starts a thread, the median",
        ),
        (
            "barrier",
            1500.0,
            "assumed: membarrier until all interrupts are acknowledged",
        ),
        ("interrupt", 700.0, "assumed: an interrupt that runs a fence"),
        ("slice", 3e6, "the base slice of Linux's scheduler"),
        (
            "smt",
            1.6,
            "assumed: two threads together do 1.25 times the work of one",
        ),
        ("jitter", 0.05, "assumed"),
    ]
}

/// Nanoseconds of an addition while two CPUs add to one word, over those of both; `None` if no thread can be
/// put onto a CPU. The median of some runs.
fn contended_add(first: usize, second: usize) -> Option<f64> {
    const ADDITIONS: u64 = 300_000;
    let run = || {
        // With room around it: its line holds nothing else.
        let words = Arc::new([const { AtomicU64::new(0) }; 32]);
        let sides = [first, second].map(|cpu| {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let is_there = core_affinity::set_for_current(CoreId { id: cpu });
                words[31].fetch_add(1, Ordering::AcqRel);
                while words[31].load(Ordering::Acquire) < 2 {
                    spin_loop();
                }
                let start = Instant::now();
                for _ in 0..ADDITIONS {
                    words[15].fetch_add(1, Ordering::Relaxed);
                }
                is_there.then(|| start.elapsed().as_nanos() as f64)
            })
        });
        let times = sides.map(|side| side.join().ok().flatten());
        Some((times[0]? + times[1]?) / 2.0 / (2 * ADDITIONS) as f64)
    };
    let times: Option<Vec<f64>> = (0..9).map(|_| run()).collect();
    times.map(median)
}

/// How long a contended line stays with a core. While it does, the core adds `hold / rmw_hit` times, and then
/// the line is on its way: so an addition takes `(hold + way) / (hold / rmw_hit)`.
fn hold(add_ns: f64, way_ns: f64, costs: &[Cost]) -> Cost {
    let rmw_ns = costs
        .iter()
        .find(|(name, ..)| *name == "rmw_hit")
        .map_or(5.0, |cost| cost.1);
    let most = 10.0 * way_ns;
    let ns = if add_ns > rmw_ns {
        way_ns * rmw_ns / (add_ns - rmw_ns)
    } else {
        most
    };
    (
        "hold",
        ns.min(most),
        "measured: two CPUs that add to one word, the median",
    )
}

/// Nanoseconds of a call, in the fastest of some loops.
fn fastest<T>(mut call: impl FnMut() -> T) -> f64 {
    const CALLS: u32 = 20_000;
    let times = (0..20).map(|_| {
        let start = Instant::now();
        for _ in 0..CALLS {
            call();
        }
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    });
    times.fold(f64::MAX, f64::min)
}

/// Nanoseconds of a load that depends on the one before, over so many words, in a random circle.
fn chase(words: usize, loads: usize) -> f64 {
    let mut order: Vec<usize> = (1..words).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut order);
    let mut next = vec![0; words];
    let mut at = 0;
    for word in order {
        next[at] = word;
        at = word;
    }
    // Of a circle each word is loaded once in a round, and the first round makes the pages present.
    let mut place = 0;
    let times = (0..3).map(|_| {
        let start = Instant::now();
        for _ in 0..loads {
            place = next[place];
        }
        black_box(place);
        start.elapsed().as_nanos() as f64 / loads as f64
    });
    times.fold(f64::MAX, f64::min)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The call that wakes a parked thread, and the time from before it until that thread runs.
fn wake() -> (f64, f64) {
    const TIMES: usize = 300;
    let zero = Instant::now();
    let (ran, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let sleeper = thread::spawn({
        let (ran, over) = (Arc::clone(&ran), Arc::clone(&over));
        move || {
            while !over.load(Ordering::Acquire) {
                thread::park();
                ran.store(zero.elapsed().as_nanos() as u64, Ordering::Release);
            }
        }
    });
    let (mut calls, mut totals) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        // Long enough to be asleep.
        thread::sleep(Duration::from_micros(200));
        ran.store(0, Ordering::Release);
        let before = zero.elapsed().as_nanos() as u64;
        sleeper.thread().unpark();
        calls.push((zero.elapsed().as_nanos() as u64 - before) as f64);
        let woken = loop {
            match ran.load(Ordering::Acquire) {
                0 => spin_loop(),
                woken => break woken,
            }
        };
        totals.push(woken.saturating_sub(before) as f64);
    }
    over.store(true, Ordering::Release);
    sleeper.thread().unpark();
    // It has nothing to say.
    drop(sleeper.join());
    (median(calls), median(totals))
}

/// The call that starts a thread.
fn start() -> f64 {
    let times = (0..100).map(|_| {
        let start = Instant::now();
        let thread = thread::spawn(|| ());
        let took = start.elapsed().as_nanos() as f64;
        drop(thread.join());
        took
    });
    median(times.collect())
}

/// The machine's file.
fn text(cpus: &[Cpu], distances: [f64; 3], costs: &[Cost]) -> String {
    let count = |of: &dyn Fn(&Cpu) -> String| cpus.iter().map(of).collect::<BTreeSet<_>>().len().max(1);
    let sockets = count(&|cpu| cpu.package.clone());
    let caches = count(&|cpu| format!("{} {}", cpu.package, cpu.cache));
    let cores = count(&|cpu| format!("{} {}", cpu.package, cpu.core));
    let mut text = format!(
        "# Measured by `warpweft simulate --calibrate`.\nname = \"this machine\"\n\n[shape]\nsockets = {sockets}\n\
         caches = {}\ncores = {}\nthreads = {}\nsource = \"the system\"\n",
        (caches / sockets).max(1),
        (cores / caches).max(1),
        (cpus.len() / cores).clamp(1, 2),
    );
    let source = "measured: a line between two CPUs and back, by loads and stores, or as the next nearer one";
    let names = ["same_cache", "same_socket", "other_socket"];
    let distances = names
        .into_iter()
        .zip(distances)
        .map(|(name, ns)| (name, ns, source));
    for (name, value, source) in distances.chain(costs.iter().copied()) {
        // Writing into a string cannot fail.
        let _ = write!(
            text,
            "\n[cost.{name}]\nvalue = {value:.2}\nsource = \"{source}\"\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_counted_from_the_cpus() {
        let cpu = |number: usize, package: usize, core: usize| Cpu {
            number,
            package: package.to_string(),
            core: core.to_string(),
            cache: (core / 2).to_string(),
        };
        // Two sockets with two caches of two cores each, and two threads a core.
        let cpus: Vec<Cpu> = (0..16)
            .map(|number| cpu(number, number / 4 % 2, number % 4))
            .collect();
        let text = text(&cpus, [20.0, 90.0, 180.0], &[("step", 1.5, "assumed")]);
        assert!(
            text.contains("sockets = 2\ncaches = 2\ncores = 2\nthreads = 2\n"),
            "{text}"
        );
        assert!(text.contains("[cost.same_socket]\nvalue = 90.00"), "{text}");
    }

    #[test]
    fn a_line_is_held_for_as_long_as_the_additions_say() {
        let costs = [("rmw_hit", 2.0, "measured")];
        // Five additions in 10 ns, and 15 ns on the way: 5 ns for each.
        assert_eq!(hold(5.0, 15.0, &costs).1, 10.0);
        assert_eq!(hold(1.0, 15.0, &costs).1, 150.0, "it never seems to leave");
    }

    #[test]
    fn times_are_measured() {
        assert!(fastest(spin_loop) > 0.0 && chase(64, 1_000) > 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
