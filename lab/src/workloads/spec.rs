//! Which workloads there are: names, parameters, variants. The list, the errors and the parsing read these
//! tables.

use serde::{Deserialize, Serialize};

use super::apps::{self, city, create, eratosthenes, mandelbrot, matrix, news, producer, switch, token_ring};
use super::params::{Domain, Param, Params, Variant};
use super::remote::{map_reduce, sweep};
use super::{fork_join, http, lock, micro, mixed, mixer, options, packet_bimodal, parked, pingpong, timers};
use crate::error::{LabError, choose};

/// The programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// A capture, replayed and really parsed.
    Pcap,
    /// Made-up packets, scanned for newlines.
    Packet,
    /// Chains of tasks over one packet each.
    PacketCache,
    /// The same, and a few packets take long.
    PacketBimodal,
    /// Prices on lattices, whose steps are tasks.
    Options,
    /// Recursion through promises.
    FibPromise,
    /// Empty tasks.
    Spawn,
    /// Tasks that wait, and what each costs in memory.
    Parked,
    /// Tasks that wait for each other's messages.
    Pingpong,
    /// Tasks that lock.
    Lock,
    /// Tasks that sleep.
    Timers,
    /// Sockets and fork-join work together.
    Mixed,
    /// Programs that split in two and wait for both.
    ForkJoin,
    /// A server and its clients.
    Http,
    /// Items that wait, then compute.
    Mapreducefib,
    /// Leaves that wait or compute.
    Sweep,
    /// Conference calls.
    Mixer,
    /// Rings of tasks that unpark each other.
    Cycle,
    /// Tasks that give way.
    Yield,
    /// Tasks that push each other out of random spots.
    Churn,
    /// The same, with an array that each works on.
    Locality,
    /// Leaders that spin until they are seen.
    Transfer,
    /// A concurrent program, known by its own name.
    #[serde(untagged)]
    App(apps::Name),
}

/// A workload as users see it.
pub(crate) struct Workload {
    /// Its name.
    pub(crate) name: &'static str,
    /// The program.
    pub(crate) kind: Kind,
    /// One line.
    pub(crate) about: &'static str,
    /// What an operation is: "packets".
    pub(crate) unit: &'static str,
    /// What a latency is, if there are any.
    pub(crate) latency: Option<&'static str>,
    /// Its parameters.
    pub(crate) params: &'static [Param],
    /// Its variants.
    pub(crate) variants: &'static [Variant],
    /// Parameters for a run of a few milliseconds that still shows that everything works.
    pub(crate) smoke: &'static [(&'static str, &'static str)],
}

/// Tasks of a workload: a number with a name that says "n".
pub(super) const fn count(default: &'static str, about: &'static str, most: u64) -> Param {
    Param {
        name: "n",
        about,
        domain: Domain::Number { least: 1, most },
        default,
    }
}

/// How many packets may be under way.
pub(super) const fn window(default: &'static str) -> Param {
    Param {
        name: "window",
        about: "packets or options under way at most, over all spawners; 0 is no bound",
        domain: Domain::Number {
            least: 0,
            most: 1 << 32,
        },
        default,
    }
}

const WINDOW: Param = window("1024");

/// Whether there are handlers at all.
pub(super) const HANDLERS: Param = Param {
    name: "handlers",
    about: "spawn: as described; none: the null run, packets are copied and dropped",
    domain: Domain::Word(&["spawn", "none"]),
    default: "spawn",
};

/// Without them.
pub(super) const NULL: Variant = Variant {
    name: "null",
    about: "the spawner alone: the bound of the others",
    set: &[("handlers", "none")],
};

/// How many tasks spawn packets.
pub(super) const fn spawners(default: &'static str) -> Param {
    Param {
        name: "spawners",
        about: "tasks that spawn the others",
        domain: Domain::Number { least: 1, most: 64 },
        default,
    }
}

/// The workloads, the default one first.
pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "pcap",
        kind: Kind::Pcap,
        about: "a capture is replayed; the handler of each packet parses Ethernet, IP, TCP and HTTP (--pcap FILE)",
        unit: "packets",
        latency: Some("from spawn to the end of the handler"),
        params: &[
            count(
                "300k",
                "packets, the capture repeated as often as needed",
                1 << 32,
            ),
            WINDOW,
            spawners("1"),
            HANDLERS,
        ],
        variants: &[NULL],
        smoke: &[("n", "2000")],
    },
    Workload {
        name: "packet",
        kind: Kind::Packet,
        about: "a listener copies one of 100 packets (2-3 KiB) and spawns a handler that scans it for newlines",
        unit: "packets",
        latency: Some("from spawn to the end of the handler"),
        params: &[
            count("50k", "packets", 1 << 32),
            WINDOW,
            spawners("1"),
            Param {
                name: "spin",
                about: "nanoseconds of further work in each handler",
                domain: Domain::Number {
                    least: 0,
                    most: 1_000_000_000,
                },
                default: "0",
            },
            HANDLERS,
        ],
        variants: &[
            Variant {
                name: "burst",
                about: "as fast as it can, 50k packets (the default)",
                set: &[],
            },
            Variant {
                name: "heavier",
                about: "500 ns more in each handler",
                set: &[("spin", "500")],
            },
            Variant {
                name: "spawners4",
                about: "four listeners",
                set: &[("spawners", "4"), ("n", "200k")],
            },
            Variant {
                name: "1m",
                about: "a million packets",
                set: &[("n", "1m")],
            },
            Variant {
                name: "10m",
                about: "ten million packets",
                set: &[("n", "10m")],
            },
            NULL,
        ],
        smoke: &[("n", "2000")],
    },
    Workload {
        name: "packet-cache",
        kind: Kind::PacketCache,
        about: "each packet goes through a chain of tasks that read 20 bytes of it or sum it up: locality pays",
        unit: "packets",
        latency: Some("from spawn to the end of the chain"),
        params: &[
            count("50k", "packets", 1 << 32),
            WINDOW,
            spawners("5"),
            Param {
                name: "chain",
                about: "tasks per packet",
                domain: Domain::Number {
                    least: 1,
                    most: 10_000,
                },
                default: "10",
            },
            HANDLERS,
        ],
        variants: &[
            Variant {
                name: "spawners10",
                about: "ten spawners",
                set: &[("spawners", "10")],
            },
            NULL,
        ],
        smoke: &[("n", "500")],
    },
    packet_bimodal::WORKLOAD,
    options::WORKLOAD,
    Workload {
        name: "fib-promise",
        kind: Kind::FibPromise,
        about: "fib(n) awaits fib(n-1) and fib(n-2), each a task with a promise; no cut-off",
        unit: "tasks",
        latency: None,
        params: &[count("22", "which Fibonacci number", 32)],
        variants: &[],
        smoke: &[("n", "12")],
    },
    Workload {
        name: "spawn",
        kind: Kind::Spawn,
        about: "empty tasks: created, run, joined",
        unit: "tasks",
        latency: None,
        params: &[
            count("1m", "tasks", 100_000_000),
            Param {
                name: "mode",
                about: "batch: all with handles, then all joined; one: spawned and awaited one by one; \
                        fire: no handles, a counter; backlog: the same with 32 bytes each, and what they take; \
                        scope: no handles, into one scope that waits",
                domain: Domain::Word(&["batch", "one", "fire", "backlog", "scope"]),
                default: "batch",
            },
            Param {
                name: "from",
                about: "who spawns: a task of the pool, or a foreign thread",
                domain: Domain::Word(&["inside", "outside"]),
                default: "inside",
            },
        ],
        variants: &[
            Variant {
                name: "batch",
                about: "all with handles, then all joined (the default)",
                set: &[],
            },
            Variant {
                name: "one",
                about: "spawned and awaited one by one",
                set: &[("mode", "one")],
            },
            Variant {
                name: "fire",
                about: "without handles",
                set: &[("mode", "fire")],
            },
            Variant {
                name: "backlog",
                about: "closures of 32 bytes, all outstanding at once: time and bytes for each",
                set: &[("mode", "backlog")],
            },
            Variant {
                name: "scope",
                about: "closures into one scope, which waits for all",
                set: &[("mode", "scope")],
            },
            Variant {
                name: "outside",
                about: "the batch, from a foreign thread",
                set: &[("from", "outside")],
            },
            Variant {
                name: "one-outside",
                about: "one by one, from a foreign thread",
                set: &[("mode", "one"), ("from", "outside"), ("n", "100k")],
            },
            Variant {
                name: "fire-outside",
                about: "without handles, from a foreign thread",
                set: &[("mode", "fire"), ("from", "outside")],
            },
        ],
        smoke: &[("n", "1000")],
    },
    parked::WORKLOAD,
    pingpong::WORKLOAD,
    lock::WORKLOAD,
    timers::WORKLOAD,
    mixed::WORKLOAD,
    Workload {
        name: "fork-join",
        kind: Kind::ForkJoin,
        about: "programs that split in two and go on when both halves have ended; no tasks, no handles",
        unit: "joins",
        latency: None,
        params: fork_join::PARAMS,
        variants: fork_join::VARIANTS,
        smoke: &[("sums", "5")],
    },
    http::WORKLOAD,
    map_reduce::WORKLOAD,
    map_reduce::OVERHEAD,
    sweep::WORKLOAD,
    token_ring::WORKLOAD,
    producer::WORKLOAD,
    news::WORKLOAD,
    city::WORKLOAD,
    eratosthenes::WORKLOAD,
    create::WORKLOAD,
    switch::WORKLOAD,
    mandelbrot::WORKLOAD,
    matrix::WORKLOAD,
    micro::CYCLE,
    micro::YIELD,
    micro::CHURN,
    micro::LOCALITY,
    micro::TRANSFER,
    mixer::WORKLOAD,
];

/// The workload that is explored when nothing is said.
pub(crate) const DEFAULT: &str = WORKLOADS[0].name;

/// A workload that was asked for, with all its parameters.
pub(crate) struct Chosen {
    /// The workload.
    pub(crate) workload: &'static Workload,
    /// Its name with the variant.
    pub(crate) name: String,
    /// All parameters.
    pub(crate) params: Params,
    /// What an operation is, with these parameters.
    pub(crate) unit: &'static str,
}

/// Reads `packet`, `packet/heavier`, and the settings behind it; later settings win.
pub(crate) fn parse(text: &str, smoke: bool, settings: &[String]) -> Result<Chosen, LabError> {
    let (name, variant) = match text.split_once('/') {
        Some((name, variant)) => (name, Some(variant)),
        None => (text, None),
    };
    let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    let workload = &WORKLOADS[choose("workloads", name, &names)?];
    let mut params = Params::defaults(workload.params);
    if let Some(variant) = variant {
        let names: Vec<&str> = workload.variants.iter().map(|variant| variant.name).collect();
        if names.is_empty() {
            return Err(LabError::Usage(format!("`{text}`: {name} has no variants")));
        }
        for (param, value) in workload.variants[choose(&format!("variants of {name}"), variant, &names)?].set
        {
            params.set(workload.params, param, value)?;
        }
    }
    if smoke {
        for (param, value) in workload.smoke {
            params.set(workload.params, param, value)?;
        }
    }
    for setting in settings {
        params.assign(workload.params, setting)?;
    }
    let unit = match workload.kind {
        Kind::ForkJoin => fork_join::settle(&mut params, smoke)?,
        Kind::Mixed => mixed::unit(&params),
        _ => workload.unit,
    };
    Ok(Chosen {
        workload,
        name: text.to_owned(),
        params,
        unit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_defaults_variants_and_smoke_sizes_lie_in_their_domains() {
        for workload in WORKLOADS {
            for smoke in [false, true] {
                parse(workload.name, smoke, &[]).unwrap();
                for variant in workload.variants {
                    parse(&format!("{}/{}", workload.name, variant.name), smoke, &[]).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_variant_sets_and_a_setting_overrides_it() {
        let chosen = parse("packet/heavier", false, &[String::from("spin=700")]).unwrap();
        assert_eq!(chosen.params.number("spin"), 700);
        assert_eq!(chosen.params.number("n"), 50_000);
        let smoke = parse("packet/10m", true, &[]).unwrap();
        assert_eq!(
            smoke.params.number("n"),
            2000,
            "a smoke run is small whatever the variant"
        );
    }

    #[test]
    fn wrong_names_list_the_right_ones() {
        let error = |text: &str| {
            parse(text, false, &[])
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        assert!(
            error("packets")
                .contains("workloads: pcap, packet, packet-cache, packet-bimodal, options, fib-promise, spawn, parked, pingpong, lock, timers, mixed, fork-join")
        );
        assert!(error("packet/heavy").contains("did you mean `heavier`?"));
        assert!(error("fib-promise/x").contains("has no variants"));
    }
}
