//! *http*: a server on the runtime under test, hyper 1.x with the same handler for all runtimes, and clients
//! that keep their connections: each sends its next request when it has the answer to the last.
//!
//! ```text
//!  client threads (poll, blocking sockets) ──▶ loopback ──▶ the pool: accept, a task per connection
//!   `connections` in all, a closed loop each                   GET /            ──▶ "Hello, World!"
//!                                                              GET /compute/N   ──▶ N rounds of arithmetic
//!                                                              GET /fan-out     ──▶ adds up three backends
//!  backend threads, see `backend` ◀──────────── loopback ───────────────────────────┘
//! ```
//!
//! The clients take processor time from the server, as `wrk` on the same machine does, and the same amount
//! from every contestant. Which requests compute is an exact, shuffled count. Every answer is checked. A
//! latency is from the first byte sent to the last one received; requests that do not compute are reported on
//! their own, too: theirs is the tail that the others can spoil.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::empty_histogram;
use hdrhistogram::Histogram;

use crate::kit::answer::{HELLO, digest, fanned_out};
use crate::kit::backends::Backends;
use crate::prelude::*;

mod client;

/// The workload, ready to run.
pub(crate) struct Plan {
    /// True if each request computes, in the order in which they are sent.
    computes: Vec<bool>,
    connections: usize,
    clients: usize,
    /// Rounds of arithmetic per computing request.
    rounds: u64,
    /// The time that a backend takes, if each of the other requests asks some.
    backends: Option<Duration>,
}

/// A question, and the right answer.
struct Question {
    request: String,
    answer: String,
}

impl Question {
    fn new(path: &str, answer: String) -> Self {
        Self {
            request: format!("GET {path} HTTP/1.1\r\nhost: lab\r\n\r\n"),
            answer,
        }
    }
}

/// The prefix of messages of the clients.
struct Script {
    light: Question,
    heavy: Question,
}

impl Script {
    fn line(&self, computes: bool) -> &Question {
        if computes { &self.heavy } else { &self.light }
    }
}

/// The figures of one client, or of all of them.
pub(super) struct Measured {
    light: Histogram<u64>,
    heavy: Histogram<u64>,
}

impl Measured {
    fn new() -> Self {
        Self {
            light: empty_histogram(),
            heavy: empty_histogram(),
        }
    }

    fn add(&mut self, other: &Self) {
        // The bounds are the same constants everywhere.
        self.light.add(&other.light).expect("the same bounds");
        self.heavy.add(&other.heavy).expect("the same bounds");
    }
}

/// The state that the clients share: the number of the next request.
pub(super) struct Requests<'a> {
    computes: &'a [bool],
    next: AtomicUsize,
}

impl Requests<'_> {
    /// Returns true if the next request computes; `None` after the last.
    fn take(&self) -> Option<bool> {
        self.computes
            .get(self.next.fetch_add(1, Ordering::Relaxed))
            .copied()
    }
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "http",
        about: "an HTTP server (hyper) and clients that keep their connections, on the same processors",
        unit: "requests",
        latency: Some("from sending a request to the end of its answer"),
        params: params! {
            count("200k", "requests", 1 << 28);
            Param::number("connections", "50", 1, 10_000, "connections, a request under way on each");
            Param::number("clients", "2", 1, 64, "threads that share the connections");
            Param::number("heavy", "0", 0, 100, "percent of the requests that compute");
            Param::number("compute", "200", 1, 1_000_000, "microseconds for which such a request computes");
            Param::word("light", "hello", &["hello", "fan-out"],
                "hello: the others are answered at once; fan-out: each of them asks three backends first");
            Param::number("delay", "5000", 0, 1_000_000, "microseconds that a backend takes");
        },
        variants: variants! {
            Variant::new("hello", &[], "thirteen bytes for each request (the default)");
            Variant::new("compute", &[("heavy", "5")], "one request in twenty computes for 200 us");
            Variant::new("fan-out", &[("light", "fan-out"), ("connections", "100"), ("n", "40k")],
                "each request asks three backends that take 5 ms");
        },
        smoke: &[("n", "1000")],
        explored: &["warpweft", "tokio", "tokio+rayon", "monoio", "go"],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Http;
    const ALSO: &[&str] = &["go"];
    const CAVEATS: &[(&str, Caveat)] = &[(
        "go",
        Caveat::same("net/http in a process of its own, for hyper in that of the clients"),
    )];

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let n = params.number("n") as usize;
        let heavy = n * params.number("heavy") as usize / 100;
        let mut computes = vec![false; n];
        computes[..heavy].fill(true);
        fastrand::Rng::with_seed(14).shuffle(&mut computes);
        let rounds = match heavy {
            0 => 0,
            _ => rounds_in(Duration::from_micros(params.number("compute"))),
        };
        let connections = params.number("connections") as usize;
        Ok(Self {
            computes,
            connections,
            clients: (params.number("clients") as usize).min(connections),
            rounds,
            backends: params
                .is("light", "fan-out")
                .then(|| Duration::from_micros(params.number("delay"))),
        })
    }

    fn http<P: HttpPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let broken = |error: std::io::Error| LabError::Wrong(format!("the server: {error}"));
        let backends = self.backends.map(Backends::start).transpose().map_err(broken)?;
        let address = pool
            .serve(backends.as_ref().map(Backends::addresses))
            .map_err(broken)?;
        self.requests(address, &self.computes[..self.computes.len().div_ceil(10)])?;
        let before = pool.counters().unwrap_or_default();
        let mut outcome = self.requests(address, &self.computes)?;
        outcome.counters = pool.counters().map(|after| after.since(&before));
        Ok(outcome)
    }
}

impl Plan {
    fn script(&self) -> Script {
        Script {
            light: match self.backends {
                None => Question::new("/", HELLO.to_owned()),
                Some(_) => Question::new("/fan-out", fanned_out().to_string()),
            },
            heavy: Question::new(
                &format!("/compute/{}", self.rounds),
                digest(self.rounds).to_string(),
            ),
        }
    }

    /// Sends all of these requests, and waits for the answers.
    fn requests(&self, address: SocketAddr, computes: &[bool]) -> Result<Outcome, LabError> {
        let requests = Requests {
            computes,
            next: AtomicUsize::new(0),
        };
        let script = self.script();
        let mut clients = (0..self.clients)
            .map(|at| {
                // As even as it gets.
                let share =
                    self.connections / self.clients + usize::from(at < self.connections % self.clients);
                client::Client::connect(address, share, &script)
            })
            .collect::<Result<Vec<_>, LabError>>()?;
        let start = Instant::now();
        let parts: Vec<Result<Measured, LabError>> = thread::scope(|scope| {
            let threads: Vec<_> = clients
                .iter_mut()
                .map(|client| scope.spawn(|| client.run(&requests)))
                .collect();
            let ended = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(LabError::Wrong(String::from("a client panicked"))))
            };
            threads.into_iter().map(ended).collect()
        });
        let elapsed = start.elapsed();
        let mut all = Measured::new();
        for part in parts {
            all.add(&part?);
        }
        let heavy = computes.iter().filter(|computes| **computes).count() as u64;
        check("computed answers", &all.heavy.len(), &heavy)?;
        check(
            "other answers",
            &all.light.len(),
            &(computes.len() as u64 - heavy),
        )?;
        Ok(Outcome::new(computes.len() as u64, elapsed).with_latencies_apart(&all.light, &all.heavy))
    }
}

/// The number of rounds that take this long on a processor that does nothing else: the fastest of some tries.
fn rounds_in(time: Duration) -> u64 {
    const SAMPLE: u64 = 20_000;
    let fastest = (0..50)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(digest(std::hint::black_box(SAMPLE)));
            start.elapsed()
        })
        .min()
        .unwrap_or(time);
    let rounds = time.as_nanos() * u128::from(SAMPLE) / fastest.as_nanos().max(1);
    u64::try_from(rounds).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heavy_ones_are_an_exact_count_and_spread() {
        let plan = Plan::load(&crate::kit::request("http/compute", &["n=1000"])).unwrap();
        assert_eq!(plan.computes.iter().filter(|computes| **computes).count(), 50);
        let first_half = plan.computes[..500].iter().filter(|computes| **computes).count();
        assert!((10..40).contains(&first_half), "{first_half}");
        assert!(plan.rounds > 0);
    }
}
