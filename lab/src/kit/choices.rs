//! Parameters, variants and contestants that several workloads share.

use harness::{Param, Variant};

/// The kind of tasks, on the runtime that has both.
pub const STYLE: Param = Param::word(
    "style",
    "futures",
    &["futures", "fibers"],
    "warpweft's tasks: futures that await, or fibers that wait in direct style; the others' are futures",
);

/// The other style.
pub const FIBERS: Variant = Variant::new("fibers", &[("style", "fibers")], "warpweft's tasks are fibers");

/// The driver of sockets and timers, on the runtime where that can be chosen.
pub const IO: Param = Param::word(
    "io",
    "inline",
    &["inline", "thread"],
    "who waits for warpweft's sockets and timers: its workers, or a thread of its own; the others have no choice",
);

/// The other place.
pub const IO_THREAD: Variant = Variant::new(
    "io-thread",
    &[("io", "thread")],
    "warpweft's sockets and timers have a thread of their own",
);

/// Chooses if a monitor looks for stuck workers of the runtime where that can be chosen.
pub const WATCH: Param = Param::word(
    "watch",
    "on",
    &["on", "off"],
    "whether warpweft's monitor looks for workers that are stuck in a task; the others have none",
);

/// It does not.
pub const UNWATCHED: Variant = Variant::new(
    "unwatched",
    &[("watch", "off")],
    "no monitor looks for stuck workers of warpweft's",
);

/// Tasks of a workload: a number with a name that says "n".
pub const fn count(default: &'static str, about: &'static str, most: u64) -> Param {
    Param::number("n", default, 1, most, about)
}

/// The number of packets that may be under way.
pub const fn window(default: &'static str) -> Param {
    Param::number(
        "window",
        default,
        0,
        1 << 32,
        "packets or options under way at most, over all spawners; 0 is no bound",
    )
}

/// The usual bound of packets under way.
pub const WINDOW: Param = window("1024");

/// Chooses if there are handlers at all.
pub const HANDLERS: Param = Param::word(
    "handlers",
    "spawn",
    &["spawn", "none"],
    "spawn: as described; none: the null run, packets are copied and dropped",
);

/// Without them.
pub const NULL: Variant = Variant::new(
    "null",
    &[("handlers", "none")],
    "the spawner alone: the bound of the others",
);

/// The number of tasks that spawn packets.
pub const fn spawners(default: &'static str) -> Param {
    Param::number("spawners", default, 1, 64, "tasks that spawn the others")
}

/// The length of the measured part of a run.
pub const MS: Param = Param::number(
    "ms",
    "400",
    1,
    100_000,
    "milliseconds that are measured, after an eighth of that which is not",
);

/// Chooses if waits are timed.
pub const CLOCK: Param = Param::word(
    "clock",
    "off",
    &["off", "on"],
    "off: turns are counted; on: each task reads the clock at each turn as well, and the longest wait is told",
);

/// Waits are timed.
pub const CLOCKED: Variant = Variant::new(
    "waits",
    &[("clock", "on")],
    "each task reads the clock at each turn: how long the longest wait was",
);

/// A number of tasks, or of rings, that each worker brings.
pub const fn per_worker(name: &'static str, about: &'static str) -> Param {
    Param::number(name, "100", 1, 10_000, about)
}

/// The usual alternatives to this runtime where tasks wait for each other.
pub const WAITING: &[&str] = &["warpweft", "tokio", "smol", "may", "go"];

/// The same where tasks come in large numbers.
pub const MANY_JOBS: &[&str] = &["warpweft", "rayon", "rayon-fifo", "tokio"];

/// The same where work waits and computes.
pub const REMOTE: &[&str] = &["warpweft", "rayon", "tokio", "tokio+rayon"];
