//! The price of the policy trait: `Runtime` with `Fifo` against the same policy written into the loop by
//! hand.
//!
//! ```text
//! cargo bench -p warpweft --bench by_hand        paired, interleaved runs; median and quartiles of the ratio
//! valgrind --tool=callgrind … by_hand count hand|trait|steps|times batch|one
//!     one run of 200 000 spawns on one worker, for instruction counts; `steps` records the steps,
//!     `times` measures them
//! ```

mod pool;

use pool::HandPool;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use warpweft::{Fifo, JoinHandle, Runtime};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Who runs the tasks.
trait Contestant: Clone + Send + Sync + 'static {
    fn job<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T>;
    fn root<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T;
}

#[derive(Clone)]
struct ByHand(Arc<HandPool>);

impl Contestant for ByHand {
    #[inline]
    fn job<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.0.spawn_job(job)
    }

    fn root<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.0.spawn(future).wait().expect("no panic")
    }
}

#[derive(Clone)]
struct ByTrait(Arc<Runtime>);

impl Contestant for ByTrait {
    #[inline]
    fn job<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        warpweft::spawn_job(job)
    }

    fn root<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.0.spawn(future).wait().expect("no panic")
    }
}

/// Nanoseconds per task: `tasks` closures spawned, then joined.
fn batch(who: &impl Contestant, tasks: usize) -> f64 {
    let pool = who.clone();
    who.root(async move {
        let start = Instant::now();
        let handles: Vec<_> = (0..tasks).map(|n| pool.job(move || n)).collect();
        let mut sum = 0;
        for handle in handles {
            sum += handle.await.expect("no panic");
        }
        assert_eq!(sum, tasks * (tasks - 1) / 2);
        start.elapsed().as_nanos() as f64 / tasks as f64
    })
}

/// Nanoseconds per task: each closure is joined before the next is spawned.
fn one_by_one(who: &impl Contestant, tasks: usize) -> f64 {
    let pool = who.clone();
    who.root(async move {
        let start = Instant::now();
        for n in 0..tasks {
            assert_eq!(pool.job(move || n).await.expect("no panic"), n);
        }
        start.elapsed().as_nanos() as f64 / tasks as f64
    })
}

/// Nanoseconds per packet: copies of 2.5 KiB packets, each scanned for newlines by a task; 256 in flight.
fn packets(who: &impl Contestant, tasks: usize) -> f64 {
    let pool = who.clone();
    who.root(async move {
        let packet: Vec<u8> = (0..2560)
            .map(|n| if n < 300 && n % 30 == 0 { b'\n' } else { b'x' })
            .collect();
        let start = Instant::now();
        let mut in_flight = std::collections::VecDeque::with_capacity(256);
        for _ in 0..tasks {
            if in_flight.len() == 256 {
                let oldest: JoinHandle<usize> = in_flight.pop_front().expect("the window is full");
                assert_eq!(oldest.await.expect("no panic"), 10);
            }
            let copy = black_box(packet.clone());
            in_flight.push_back(pool.job(move || copy.iter().filter(|&&byte| byte == b'\n').count()));
        }
        for handle in in_flight {
            assert_eq!(handle.await.expect("no panic"), 10);
        }
        start.elapsed().as_nanos() as f64 / tasks as f64
    })
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

fn compare(workers: usize, repeats: usize) {
    let (pool, threads) = HandPool::start(workers);
    let by_hand = ByHand(Arc::clone(&pool));
    let runtime = Runtime::builder()
        .workers(workers)
        // The loop by hand has no monitor either.
        .stuck_after(None)
        .policy(Fifo::new())
        .build()
        .expect("a pool");
    let by_trait = ByTrait(Arc::new(runtime));
    type Workload<C> = fn(&C, usize) -> f64;
    let workloads: [(&str, usize, Workload<ByHand>, Workload<ByTrait>); 3] = [
        ("spawn batch", 200_000, batch, batch),
        ("spawn one by one", 200_000, one_by_one, one_by_one),
        ("packets", 100_000, packets, packets),
    ];
    for (name, tasks, hand_run, trait_run) in workloads {
        let mut ratios = Vec::new();
        let mut times = [Vec::new(), Vec::new()];
        for repeat in 0..=repeats {
            // The order alternates, and the first pair warms up.
            let (by_hand, by_trait) = if repeat % 2 == 0 {
                let first = hand_run(&by_hand, tasks);
                (first, trait_run(&by_trait, tasks))
            } else {
                let first = trait_run(&by_trait, tasks);
                (hand_run(&by_hand, tasks), first)
            };
            if repeat > 0 {
                ratios.push(by_trait / by_hand);
                times[0].push(by_hand);
                times[1].push(by_trait);
            }
        }
        let [low, median, high] = quartiles(ratios);
        let [by_hand, by_trait] = times.map(|times| quartiles(times)[1]);
        println!(
            "{workers} workers  {name:<17} by hand {by_hand:7.1} ns  trait {by_trait:7.1} ns  ratio {median:.3} [{low:.3}, {high:.3}]"
        );
    }
    pool.stop(threads);
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["count", "hand", workload] => {
            let (pool, threads) = HandPool::start(1);
            count(&ByHand(Arc::clone(&pool)), workload);
            pool.stop(threads);
        }
        ["count", mode @ ("trait" | "steps" | "times"), workload] => {
            let runtime = Runtime::builder()
                .workers(1)
                .stuck_after(None)
                .policy(Fifo::new())
                .build()
                .expect("a pool");
            runtime.recorder().record_steps(mode == "steps");
            runtime.recorder().measure_steps(mode == "times");
            count(&ByTrait(Arc::new(runtime)), workload);
        }
        [] => [1, 2].into_iter().for_each(|workers| compare(workers, 31)),
        _ => eprintln!("usage: by_hand [count hand|trait|steps|times batch|one]"),
    }
}

/// One run, for a tool that counts instructions.
fn count(who: &impl Contestant, workload: &str) {
    match workload {
        "batch" => batch(who, 200_000),
        "one" => one_by_one(who, 200_000),
        other => panic!("`{other}` is neither `batch` nor `one`"),
    };
}
