//! *mixed*: a server that computes. Tasks wait for sockets while fork-join work wants all of the workers.
//!
//! ```text
//!  beside    clients ──▶ echo tasks ──▶ clients      at a set rate, whatever the answers do
//!            sorts ▶ sorts ▶ sorts ▶ …               on the same workers, always `chains` of them under way
//!
//!  request   clients ──▶ task: read ─▶ sort in parallel ─▶ write ──▶ clients     each client asks again when it is answered
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
//! The clients are threads of the system that mostly sleep, see `clients`. Each answer is compared with its
//! question, each sort is checked, and all of them are counted.

mod beside;
mod clients;
mod request;
mod server;

use std::net::SocketAddr;
use std::time::Duration;

use super::params::{Domain, Param, Params, Variant};
use super::spec::{Kind, Workload};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::mixed::MixedPool;

pub(super) use clients::{broken, connect};

/// The workload as users see it.
pub(super) const WORKLOAD: Workload = Workload {
    name: "mixed",
    kind: Kind::Mixed,
    about: "sockets and fork-join on one machine: echoes beside sorts that saturate it, or a sort for each request",
    unit: "sorts",
    latency: Some("beside: from sending to when the task that reads runs; request: from question to answer"),
    params: &[
        Param {
            name: "form",
            about: "beside: echoes at a set rate while sorts saturate the workers; request: each request is sorted for",
            domain: Domain::Word(&["beside", "request"]),
            default: "beside",
        },
        Param {
            name: "n",
            about: "requests, in the form request",
            domain: Domain::Number {
                least: 1,
                most: 100_000_000,
            },
            default: "1000",
        },
        Param {
            name: "numbers",
            about: "numbers that each sort sorts",
            domain: Domain::Number {
                least: 1,
                most: 10_000_000,
            },
            default: "100k",
        },
        Param {
            name: "connections",
            about: "connections; in the form request as many requests are under way",
            domain: Domain::Number { least: 1, most: 2000 },
            default: "16",
        },
        Param {
            name: "rate",
            about: "echoes per second over all connections, in the form beside",
            domain: Domain::Number {
                least: 1,
                most: 1_000_000,
            },
            default: "5000",
        },
        Param {
            name: "chains",
            about: "sorts under way, in the form beside: when one ends, the next begins",
            domain: Domain::Number { least: 1, most: 4096 },
            default: "4",
        },
        Param {
            name: "millis",
            about: "length of each phase, in the form beside",
            domain: Domain::Number {
                least: 10,
                most: 60_000,
            },
            default: "1000",
        },
        super::IO,
    ],
    variants: &[
        Variant {
            name: "small",
            about: "sorts of 10k numbers: tasks that compute for less than a millisecond",
            set: &[("numbers", "10k")],
        },
        Variant {
            name: "request",
            about: "64 clients, and a sort for each of their requests",
            set: &[("form", "request"), ("connections", "64")],
        },
        Variant {
            name: "request1000",
            about: "1000 clients",
            set: &[("form", "request"), ("connections", "1000"), ("n", "4000")],
        },
        super::IO_THREAD,
    ],
    smoke: &[
        ("n", "20"),
        ("numbers", "2000"),
        ("connections", "4"),
        ("rate", "1000"),
        ("millis", "50"),
    ],
};

/// What an operation is.
pub(super) fn unit(params: &Params) -> &'static str {
    if asks_for_sorts(params) {
        "requests"
    } else {
        "sorts"
    }
}

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) enum Plan {
    /// See `beside`.
    Beside(beside::Plan),
    /// See `request`.
    Request(request::Plan),
}

impl Plan {
    /// Reads the parameters.
    pub(super) fn new(params: &Params) -> Self {
        let connections = params.number("connections") as usize;
        let input = server::input(params.number("numbers") as usize);
        if asks_for_sorts(params) {
            return Self::Request(request::Plan {
                n: params.number("n"),
                connections,
                input,
            });
        }
        Self::Beside(beside::Plan {
            connections,
            input,
            rate: params.number("rate"),
            chains: params.number("chains"),
            phase: Duration::from_millis(params.number("millis")),
        })
    }

    /// Runs it.
    pub(super) fn run<P: MixedPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let mut outcome = match self {
            Self::Beside(plan) => plan.run(pool),
            Self::Request(plan) => plan.run(pool),
        }?;
        outcome.counters = pool.counters();
        Ok(outcome)
    }
    /// Runs it with a server of another process, which answers requests.
    pub(super) fn run_at(&self, address: SocketAddr) -> Result<Outcome, LabError> {
        match self {
            Self::Request(plan) => plan.run_at(address),
            Self::Beside(_) => Err(super::not_for("a server of another process")),
        }
    }
}

/// Whether each request is sorted for.
pub(super) fn asks_for_sorts(params: &Params) -> bool {
    params.word("form") == "request"
}
