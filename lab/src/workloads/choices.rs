//! Parameters and variants that several workloads share: they choose between two ways that one of the
//! runtimes has.

use super::params::{Domain, Param, Variant};

/// What the tasks of the runtime that has both are.
pub(super) const STYLE: Param = Param {
    name: "style",
    about: "warpweft's tasks: futures that await, or fibers that wait in direct style; the others' are futures",
    domain: Domain::Word(&["futures", "fibers"]),
    default: "futures",
};

/// The other style.
pub(super) const FIBERS: Variant = Variant {
    name: "fibers",
    about: "warpweft's tasks are fibers",
    set: &[("style", "fibers")],
};

/// Who looks after sockets and timers of the runtime where that can be chosen.
pub(super) const IO: Param = Param {
    name: "io",
    about: "who waits for warpweft's sockets and timers: its workers, or a thread of its own; the others have no choice",
    domain: Domain::Word(&["inline", "thread"]),
    default: "inline",
};

/// The other place.
pub(super) const IO_THREAD: Variant = Variant {
    name: "io-thread",
    about: "warpweft's sockets and timers have a thread of their own",
    set: &[("io", "thread")],
};

/// Whether anybody looks for stuck workers of the runtime where that can be chosen.
pub(super) const WATCH: Param = Param {
    name: "watch",
    about: "whether warpweft's monitor looks for workers that are stuck in a task; the others have none",
    domain: Domain::Word(&["on", "off"]),
    default: "on",
};

/// Nobody.
pub(super) const UNWATCHED: Variant = Variant {
    name: "unwatched",
    about: "no monitor looks for stuck workers of warpweft's",
    set: &[("watch", "off")],
};
