//! A small laboratory for the tests of this crate: workloads that do nothing, on contestants that have names
//! only.

use std::sync::LazyLock;
use std::time::Duration;

use crate::error::LabError;
use crate::lab::{Chosen, Lab, Simulator};
use crate::params::{Domain, Param, Variant};
use crate::plan::{Comparison, Figure, Guard, GuardSet, Measurement};
use crate::record::Outcome;
use crate::workload::{About, FileFlag, Files, Peer, PeerInfo, Policies, Request, Workload};

/// The laboratory.
pub(crate) fn lab() -> &'static Lab {
    static LAB: LazyLock<Lab> = LazyLock::new(|| {
        let workloads: Vec<&'static dyn Workload> = vec![&PACKET, &SPAWN, &WAIT, &CHURN];
        let peers: Vec<&'static dyn Peer> =
            vec![&Named("rayon"), &OwnPeer, &Named("tokio"), &Named("sequential")];
        let lab = Lab {
            name: "lab",
            workloads,
            peers,
            usual: "packet",
            comparisons: LINES,
            guards: GUARDS,
            results: &[
                Measurement {
                    name: "packets",
                    line: "packet --runtime home,rayon --workers 1",
                    quick: "n=10",
                    measures: &[],
                },
                Measurement {
                    name: "waits",
                    line: "wait --runtime home,rayon --workers 1",
                    quick: "n=10",
                    measures: &[],
                },
            ],
            allocator: None,
            lock: "name = \"rayon\"\nversion = \"1.2.3\"\n",
            simulator: Simulator::Missing,
        };
        lab.sorted()
    });
    &LAB
}

/// A workload of it with settings.
pub(crate) fn chosen(text: &str, smoke: bool, settings: &[&str]) -> Result<Chosen, LabError> {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    lab().choose(text, smoke, &settings, &Files::default(), Duration::MAX)
}

const fn number(name: &'static str, default: &'static str) -> Param {
    Param {
        name,
        about: "a number",
        domain: Domain::Number {
            least: 0,
            most: 10_000_000,
        },
        default,
    }
}

const fn variant(name: &'static str, set: &'static [(&'static str, &'static str)]) -> Variant {
    Variant {
        name,
        about: "a variant",
        set,
    }
}

const PARAMS: &[Param] = &[
    number("n", "50k"),
    number("window", "1024"),
    number("spin", "1"),
    number("ms", "400"),
    number("wait", "100"),
];

const SMALL: About = About {
    params: PARAMS,
    smoke: &[("n", "2000")],
    ..About::NEW
};

static PACKET: Nothing = Nothing(About {
    name: "packet",
    unit: "packets",
    latency: Some("from spawn to end"),
    variants: &[
        variant("heavier", &[("spin", "500")]),
        variant("10m", &[("n", "10m")]),
    ],
    files: &[FileFlag {
        name: "list",
        about: "a file",
        many: false,
        recorded: true,
    }],
    explored: &["home", "rayon", "tokio"],
    ..SMALL
});
static SPAWN: Nothing = Nothing(About {
    name: "spawn",
    ..SMALL
});
static WAIT: Nothing = Nothing(About {
    name: "wait",
    ..SMALL
});
static CHURN: Nothing = Nothing(About {
    name: "churn",
    variants: &[variant("few", &[("n", "2")])],
    ..SMALL
});

const GUARDS: &[GuardSet] = &[GuardSet {
    name: "ground",
    guards: &[
        Guard {
            name: "churn",
            line: "churn --workers 1,2",
            quick: "n=5",
            figures: &[Figure::RATE, Figure::less("p99")],
        },
        Guard {
            name: "wait",
            line: "wait --runtime home,tokio --workers 1",
            quick: "",
            figures: &[Figure::less("bytes_per_task")],
        },
    ],
}];

const LINES: &[Comparison] = &[
    Comparison {
        name: "churn",
        workload: "churn",
        quick: &["ms=100"],
        runtimes: &["home", "tokio"],
        ..Comparison::NEW
    },
    Comparison {
        name: "churn/few",
        workload: "churn/few",
        runtimes: &["home"],
        policies: &["fifo"],
        ..Comparison::NEW
    },
];

/// Does nothing; `wait` is not for rayon.
struct Nothing(About);

impl Workload for Nothing {
    fn about(&self) -> &About {
        &self.0
    }

    fn run(&self, _: &Request) -> Result<Outcome, LabError> {
        Ok(Outcome::new(1, Duration::from_micros(1)))
    }

    fn refusal(&self, request: &Request) -> Result<Option<String>, LabError> {
        let refused = self.0.name == "wait" && request.runtime == "rayon";
        Ok(refused.then(|| String::from("its jobs cannot wait without holding a worker")))
    }
}

struct Named(&'static str);

impl Peer for Named {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: self.0,
            about: "a name",
            packages: if self.0 == "rayon" {
                &["rayon", "rayon-core"]
            } else {
                &[]
            },
        }
    }
}

/// The contestant with policies.
struct OwnPeer;

impl Peer for OwnPeer {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "home",
            about: "has policies",
            packages: &[],
        }
    }

    fn policies(&self) -> Option<&dyn Policies> {
        Some(self)
    }
}

impl Policies for OwnPeer {
    fn usual(&self) -> &'static str {
        "fifo"
    }

    fn explored(&self) -> &'static [&'static str] {
        &["fifo", "lifo"]
    }

    fn compared(&self, quick: bool) -> &'static [&'static str] {
        if quick { &["fifo"] } else { &["fifo", "lifo"] }
    }

    fn named(&self) -> Vec<(&'static str, String)> {
        self.explored()
            .iter()
            .map(|name| (*name, String::from("a queue")))
            .collect()
    }

    fn grammar(&self) -> Vec<&'static str> {
        vec!["fifo | lifo"]
    }

    fn check(&self, text: &str) -> Result<(), LabError> {
        crate::error::choose("policies", text, self.explored()).map(drop)
    }
}
