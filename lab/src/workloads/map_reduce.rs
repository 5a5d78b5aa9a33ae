//! *mapreducefib*: a map over remote items, each of which waits, then computes; reduced in pairs.
//!
//! ```text
//!              0..n
//!            ╱      ╲            both halves, down to one item
//!        0..n/2    n/2..n
//!        ╱   ╲     ╱    ╲
//!       ⋯  item: wait ─▶ fib(30), in parallel ─▶ modulo 1 000 000 000
//! ```
//!
//! The limit is *ideal + wait*: ideal is the same work with nothing to wait for, on the same contestant,
//! measured in the same run before and after (the mean of both, because the machine's pace drifts). A
//! contestant whose waits hold a worker needs n × wait ÷ workers more.
//!
//! *Speed-up* is over the classic with one worker, which takes n × wait and the whole work, ideal × workers.
//!
//! The skewed form has a few items that compute as much as all others together. A contestant that cannot
//! split an item (tokio alone) would have that in its own ideal as well. So the limit of that form is the
//! same for all contestants: *T₁ ÷ P + wait + the longest item's span*.
//!
//! - *T₁* is the time for all items in plain calls, without a runtime: their number, times the time of one.
//!   The program measures that time in the same run.
//! - *P* is the number of workers, or of processors if there are fewer.
//! - The *span* of an item is the time of its base case, which cannot be split.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::time::{Duration, Instant};

use harness::cpus;

use crate::kit::fib::{Fib, chosen, fib, serial};
use crate::kit::host;
use crate::kit::wire::{Ends, Server};
use crate::peers::tokio_rayon::TWO_POOLS;
use crate::prelude::*;

const fn fibonacci(name: &'static str, about: &'static str, default: &'static str) -> Param {
    Param::number(name, default, 0, 50, about)
}

const fn wait(default: &'static str) -> Param {
    Param::number(
        "wait",
        default,
        0,
        60_000,
        "milliseconds that each item waits before it computes",
    )
}

const FROM: Param = Param::word(
    "from",
    "timer",
    &["timer", "tcp"],
    "what an item waits for: a timer, or a server on this machine, over a connection of its own",
);

const BASE: Param = fibonacci("base", "which ones are computed in plain calls", "25");
const HEAVY: Param = Param::number(
    "heavy",
    "0",
    0,
    1_000_000,
    "items that compute fib(heavy-fib) instead, shuffled among the others",
);
const HEAVY_FIB: Param = fibonacci("heavy-fib", "what the heavy items compute", "38");

const MODULUS: u64 = 1_000_000_000;

/// Milliseconds that a worker sleeps at most over all items, where sleeping holds it.
const MOST_ASLEEP: u64 = 10_000;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
    workers: u32,
    items: Items,
    /// The wait of each item.
    wait: Duration,
    /// For a server, not for a timer.
    tcp: bool,
}

/// The source of an item's wait.
#[derive(Clone, Copy)]
enum WaitSource {
    Nothing,
    Timer(Duration),
    Answer(Ends),
}

/// The work of the items.
#[derive(Clone, Copy)]
struct Items {
    wait: WaitSource,
    fib: Fib,
    heavy: Fib,
    which: &'static [bool],
}

impl Items {
    /// The result of an item.
    fn work(&self, item: u64) -> Fib {
        if self.which[item as usize] {
            self.heavy
        } else {
            self.fib
        }
    }

    /// The sum over the items of a range.
    fn reduced<V: Remote>(self, api: V, from: u64, to: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
        Box::pin(async move {
            if to - from > 1 {
                let middle = from + (to - from) / 2;
                let halves = (self.reduced(api, from, middle), self.reduced(api, middle, to));
                let (left, right) = api.both(halves.0, halves.1).await;
                return (left + right) % MODULUS;
            }
            match self.wait {
                WaitSource::Nothing => {}
                WaitSource::Timer(wait) => api.wait(wait).await,
                WaitSource::Answer(ends) => ends.ask(api, from).await,
            }
            api.computed(self.work(from)).await % MODULUS
        })
    }
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "mapreducefib",
        about: "map-reduce over remote items: each waits, then computes fib(30) in parallel; ratio to the limit, ideal + wait",
        unit: "items",
        params: params! {
            count("5000", "items", 1_000_000);
            wait("100");
            FROM;
            fibonacci("fib", "which Fibonacci number each item computes", "30");
            BASE;
            HEAVY;
            HEAVY_FIB;
        },
        variants: variants! {
            Variant::new("50ms", &[("wait", "50")], "answers take 50 ms");
            Variant::new("1ms", &[("wait", "1")], "answers take 1 ms");
            Variant::new("tcp", &[("from", "tcp")],
                "the items are behind a TCP server, which answers after 100 ms");
            Variant::new("skewed", &[("heavy", "8"), ("heavy-fib", "38"), ("fib", "22")],
                "8 of 5000 items compute fib(38), the others fib(22)");
        },
        smoke: &[
            ("n", "50"),
            ("wait", "10"),
            ("fib", "15"),
            ("base", "10"),
            ("heavy-fib", "18"),
        ],
        explored: REMOTE,
        speed_up_over: Some("wait"),
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Remote;
    const SIMULATES: bool = true;
    const ALSO: &[&str] = &["go"];

    fn fit(request: &mut Request) {
        if request.runtime == "rayon" {
            let at_once = MOST_ASLEEP * request.workers as u64;
            let wait = request.params.number("wait").max(1);
            request.bound("n", (at_once / wait).max(1));
        }
    }

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        let (params, is_simulated) = (&request.params, request.simulation.is_some());
        if is_simulated && (params.word("from") == "tcp" || params.number("heavy") > 0) {
            return Err(LabError::Usage(String::from(
                "a simulated machine has no sockets, and its plain calls have one length: from=timer heavy=0",
            )));
        }
        let asks = request.runtime == "go" && request.params.word("from") == "tcp";
        Ok(asks.then_some("its program has no server to ask"))
    }

    fn caveat(request: &Request) -> Option<Caveat> {
        let waits = request.params.number("wait") > 0;
        match request.runtime.as_str() {
            "rayon" if waits => Some(Caveat::other(
                "a worker is held while an item waits; n is bounded",
            )),
            "tokio" => Some(Caveat::same("it has no join: an item is computed in plain calls")),
            "tokio+rayon" => Some(TWO_POOLS),
            _ => None,
        }
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let workers = request.workers;
        let base = params.number("base");
        let n = params.number("n");
        let wait = Duration::from_millis(params.number("wait"));
        let tcp = params.word("from") == "tcp";
        Ok(Self {
            n,
            workers: workers as u32,
            wait,
            tcp,
            items: Items {
                wait: WaitSource::Nothing,
                fib: Fib {
                    n: params.number("fib"),
                    base,
                },
                heavy: Fib {
                    n: params.number("heavy-fib"),
                    base,
                },
                which: chosen(params.number("heavy").min(n), n),
            },
        })
    }

    fn remote<P: RemotePool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let ideal = self.items;
        // A tenth, which is not measured.
        timed(pool, ideal, (self.n / 10).max(1))?;
        if self.wait.is_zero() && !self.tcp {
            let before = pool.counters().unwrap_or_default();
            let elapsed = timed(pool, ideal, self.n)?;
            let mut outcome = Outcome::new(self.n, elapsed);
            outcome.counters = pool.counters().map(|after| after.since(&before));
            return Ok(outcome);
        }
        let server = self.tcp.then(|| Server::start(self.n, self.wait)).transpose()?;
        let wait = match &server {
            Some(server) => WaitSource::Answer(server.ends),
            None => WaitSource::Timer(self.wait),
        };
        let items = Items { wait, ..ideal };
        let earlier = timed(pool, ideal, self.n)?;
        let before = pool.counters().unwrap_or_default();
        let elapsed = timed(pool, items, self.n)?;
        let counters = pool.counters().map(|after| after.since(&before));
        let later = timed(pool, ideal, self.n)?;
        let ideal = (earlier + later) / 2;
        let limit = ideal + self.wait;
        // One worker, which each item holds while it waits.
        let classic = self.wait * self.n as u32 + ideal * self.workers;
        let over = |dividend: Duration, divisor: Duration| dividend.as_secs_f64() / divisor.as_secs_f64();
        let mut outcome = Outcome::new(self.n, elapsed)
            .with_measure("ideal_s", ideal.as_secs_f64())
            .with_measure("ratio_to_limit", over(elapsed, limit))
            .with_measure("speed_up", over(classic, elapsed))
            .with_measure("ideal_speed_up", over(classic, ideal));
        outcome.counters = counters;
        Ok(self.judged(outcome))
    }

    fn judged(&self, outcome: Outcome) -> Outcome {
        let skewed = self.items.which.contains(&true) && self.items.heavy.n != self.items.fib.n;
        if !skewed || (self.wait.is_zero() && !self.tcp) {
            return outcome;
        }
        let limit = self.limit(call());
        let ratio = outcome.seconds / limit;
        outcome
            .with_measure("limit_s", limit)
            .with_measure("ratio_to_limit", ratio)
    }
}

impl Plan {
    /// The limit of the skewed form in seconds, if a plain call takes so long.
    fn limit(&self, call: f64) -> f64 {
        let items = || (0..self.n).map(|item| self.items.work(item));
        let work: f64 = items().map(|item| calls(item.n)).sum();
        let span = items()
            .map(|item| calls(item.n.min(item.base)))
            .fold(0.0, f64::max);
        let processors = (self.workers as usize).min(cpus()) as f64;
        self.wait.as_secs_f64() + call * (work / processors + span)
    }
}

/// The calls of fib(n) in plain calls.
fn calls(n: u64) -> f64 {
    (2 * fib(n + 1) - 1) as f64
}

/// Seconds that a plain call takes: the fastest of some tries.
fn call() -> f64 {
    const N: u64 = 24;
    let tries = (0..50).map(|_| {
        let start = Instant::now();
        black_box(serial(black_box(N)));
        start.elapsed().as_secs_f64()
    });
    tries.fold(f64::MAX, f64::min) / calls(N)
}

/// Measures how long `n` items take, on a worker.
fn timed<P: RemotePool>(pool: &P, items: Items, n: u64) -> Result<Duration, LabError> {
    let api = pool.remote();
    let (sum, elapsed) = pool.run(async move {
        let start = host::now();
        let sum = items.reduced(api, 0, n).await;
        (sum, host::since(start))
    });
    let expected = (0..n).fold(0, |sum, item| (sum + fib(items.work(item).n)) % MODULUS);
    check("the sum of the items", &sum, &expected)?;
    Ok(elapsed.max(Duration::from_nanos(1)))
}

/// The cost of latency hiding where there is nothing to hide: the same program with other defaults.
pub(crate) struct Overhead(Plan);

impl Program for Overhead {
    const ABOUT: About = About {
        name: "overhead",
        about: "mapreducefib with nothing to wait for: what the means of waiting cost where there is nothing to hide",
        unit: "items",
        params: params! {
            count("200", "items", 1_000_000);
            wait("0");
            FROM;
            fibonacci("fib", "which Fibonacci number each item computes", "30");
            BASE;
            HEAVY;
            HEAVY_FIB;
        },
        variants: variants! {
            Variant::new("large", &[("n", "150"), ("fib", "35")], "150 items of fib(35)");
        },
        smoke: &[("n", "20"), ("fib", "15"), ("base", "10"), ("heavy-fib", "18")],
        explored: REMOTE,
        speed_up_over: Some("wait"),
        ..About::NEW
    };

    const IDIOM: Idiom = Plan::IDIOM;
    const ALSO: &[&str] = Plan::ALSO;

    fn fit(request: &mut Request) {
        request.kind = String::from(Plan::ABOUT.name);
        Plan::fit(request);
    }

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        Plan::refusal(request)
    }

    fn caveat(request: &Request) -> Option<Caveat> {
        Plan::caveat(request)
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        Plan::load(request).map(Self)
    }

    fn remote<P: RemotePool>(&self, pool: &P) -> Result<Outcome, LabError> {
        self.0.remote(pool)
    }

    fn judged(&self, outcome: Outcome) -> Outcome {
        self.0.judged(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_as_they_are_made() {
        fn count(n: u64) -> u64 {
            if n < 2 { 1 } else { 1 + count(n - 1) + count(n - 2) }
        }
        for n in 0..20 {
            assert!((calls(n) - count(n) as f64).abs() < 0.5, "{n}");
        }
    }

    #[test]
    fn the_limit_of_the_skewed_form_is_work_over_workers_and_wait_and_span() {
        let plan = |settings: &[&str], workers| {
            let request = crate::kit::request("mapreducefib/skewed", settings);
            Plan::load(&Request { workers, ..request }).unwrap()
        };
        let settings = ["n=10", "heavy=2", "fib=5", "heavy-fib=9", "base=4", "wait=100"];
        // 8 items of 15 calls, 2 of 109; what is left of either is fib(4), 9 calls.
        let limit = plan(&settings, 1).limit(0.001);
        assert!((limit - (0.1 + 0.338 + 0.009)).abs() < 1e-9, "{limit}");
        let outcome = || Outcome::new(10, Duration::from_secs(3)).with_measure("ratio_to_limit", 7.0);
        let judged = plan(&settings, 1).judged(outcome());
        let ratio = judged.measures["ratio_to_limit"] * judged.measures["limit_s"];
        assert!((ratio - 3.0).abs() < 1e-9, "{judged:?}");
        // Where all items are the same, each is compared with its own ideal.
        let even = plan(&["n=10", "heavy=0"], 1).judged(outcome());
        assert!((even.measures["ratio_to_limit"] - 7.0).abs() < 1e-9);
    }
}
