//! *mixed*: a server that computes. Tasks wait for sockets while fork-join work wants all of the workers.
//!
//! ```text
//!  beside    clients ──▶ echo tasks ──▶ clients      at a set rate, whatever the answers do
//!            sorts ▶ sorts ▶ sorts ▶ …               on the same workers, always `chains` of them under way
//!
//!  request   clients ──▶ task: read ─▶ sort in parallel ─▶ write ──▶ clients   each client asks again
//! ```
//!
//! `beside` goes through phases of the same length: sorts alone, sorts beside echoes, echoes alone. Its
//! figures are how much of the sorting is left (`cpu_kept`), and how long it is from when bytes are sent to
//! when the task that waits for them runs (the latency), beside the same figure without sorts
//! (`wake_alone_p99_us`). What the clients and the kernel take of the machine, they take from the sorts of
//! every contestant alike; `io_cpu_share` is how much that is when nothing else runs. `sorts_cpu_share` is
//! how much of the machine the sorts had when they were alone: if it is well below 1, others ran as well, and
//! `cpu_kept` says nothing.
//!
//! The clients are threads of the system that mostly sleep, see `clients`. In `request` each answer is
//! compared with its question. In `beside` the sum of a phase's messages is compared on either side with that
//! of what was sent. Each sort is checked, and all of them are counted.

mod clients;
mod echo;
mod request;
mod server;

use std::net::SocketAddr;
use std::time::Duration;

use crate::prelude::*;
use crate::program::not_for;

pub(crate) use clients::{broken, connect};

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) enum Plan {
    /// See `beside`.
    Beside(echo::Plan),
    /// See `request`.
    Request(request::Plan),
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "mixed",
        about: "sockets and fork-join on one machine: echoes beside sorts that saturate it, or a sort for each request",
        unit: "sorts",
        latency: Some(
            "beside: from sending to when the task that reads runs; request: from question to answer",
        ),
        params: params! {
            Param::word("form", "beside", &["beside", "request"],
                "beside: echoes at a set rate while sorts saturate the workers; request: each request is sorted \
                 for");
            Param::number("n", "1000", 1, 100_000_000, "requests, in the form request");
            Param::number("numbers", "100k", 1, 10_000_000, "numbers that each sort sorts");
            Param::number("connections", "16", 1, 2000,
                "connections; in the form request as many requests are under way");
            Param::number("rate", "5000", 1, 1_000_000,
                "echoes per second over all connections, in the form beside");
            Param::number("chains", "4", 1, 4096,
                "sorts under way, in the form beside: when one ends, the next begins");
            Param::number("millis", "1000", 10, 60_000, "length of each phase, in the form beside");
            IO;
        },
        variants: variants! {
            Variant::new("small", &[("numbers", "10k")],
                "sorts of 10k numbers: tasks that compute for less than a millisecond");
            Variant::new("request", &[("form", "request"), ("connections", "64")],
                "64 clients, and a sort for each of their requests");
            Variant::new("request1000", &[("form", "request"), ("connections", "1000"), ("n", "4000")],
                "1000 clients");
            IO_THREAD;
        },
        smoke: &[
            ("n", "20"),
            ("numbers", "2000"),
            ("connections", "4"),
            ("rate", "1000"),
            ("millis", "50"),
        ],
        explored: &["warpweft", "tokio+rayon", "go"],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Mixed;
    const ALSO: &[&str] = &["go"];
    const CAVEATS: &[(&str, Caveat)] = &[(
        "go",
        Caveat::same("in a process of its own; a goroutine and a wait group stand for a join"),
    )];

    fn settle(asked: &mut Asked<'_>) -> Result<(), LabError> {
        if asks_for_sorts(asked.params) {
            *asked.unit = "requests";
        }
        Ok(())
    }

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        let clock = request.runtime == "go" && !asks_for_sorts(&request.params);
        Ok(clock.then_some("its clock is that of another process: see mixed/request"))
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let connections = params.number("connections") as usize;
        let input = server::input(params.number("numbers") as usize);
        if asks_for_sorts(params) {
            return Ok(Self::Request(request::Plan {
                n: params.number("n"),
                connections,
                input,
            }));
        }
        Ok(Self::Beside(echo::Plan {
            connections,
            input,
            rate: params.number("rate"),
            chains: params.number("chains"),
            phase: Duration::from_millis(params.number("millis")),
        }))
    }

    fn mixed<P: MixedPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let mut outcome = match self {
            Self::Beside(plan) => plan.run(pool),
            Self::Request(plan) => plan.run(pool),
        }?;
        outcome.counters = pool.counters();
        Ok(outcome)
    }

    fn at(&self, address: SocketAddr) -> Result<Outcome, LabError> {
        match self {
            Self::Request(plan) => plan.run_at(address),
            Self::Beside(_) => Err(not_for("a server of another process")),
        }
    }
}

/// Returns true if each request is sorted for.
fn asks_for_sorts(params: &Params) -> bool {
    params.word("form") == "request"
}
