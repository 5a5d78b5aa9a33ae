//! The policies that have names.

use super::kind::Kind;
use super::pieces::Piece;

use crate::order::{FifoOrder, Mix, MixedOrder, PriorityOrder, SlotOrder};
use crate::{
    Cforall, Chained, Edf, Fifo, Go, Help, Libfibre, Lifo, Negele, NegeleLocal, Overflow, Parsimonious,
    ProWs, StealAmount, Stealing, Tokio, Victims,
};
use std::fmt;
use std::num::NonZeroUsize;
use warpweft_queue::Amount;

/// A policy that has a name.
pub struct Preset {
    pub(super) name: &'static str,
    about: &'static str,
    source: &'static str,
    pub(super) make: fn() -> Kind,
}

impl Preset {
    /// What it is called: a text that parses.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it does, and what it may be good for.
    #[must_use]
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// Where it comes from.
    #[must_use]
    pub fn source(&self) -> &'static str {
        self.source
    }
}

impl fmt::Debug for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preset").field("name", &self.name).finish()
    }
}

/// A line of [`PRESETS`].
const fn preset(name: &'static str, about: &'static str, source: &'static str, make: fn() -> Kind) -> Preset {
    Preset {
        name,
        about,
        source,
        make,
    }
}

/// A number that is not 0.
const fn n(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("a preset's number is not 0")
}

/// A policy with an order between the two.
fn mixed(mix: Mix) -> Kind {
    let order = MixedOrder::new(mix).expect("a preset's order is possible");
    Kind::Mixed(Stealing::with_order(order))
}

/// An order that learns; the distribution does, too.
fn adaptive() -> Kind {
    let order = MixedOrder::new(Mix::Adaptive(n(64))).expect("every number of tasks is possible");
    let policy = Stealing::with_order(order);
    Kind::Mixed(policy.steal(StealAmount::Adaptive).victims(Victims::Adaptive))
}

pub(super) const PRESETS: &[Preset] = &[
    preset(
        "fifo",
        "oldest first, thieves take half: fair, best at the tail",
        "EBSL B.5",
        || Kind::Fifo(Fifo::new()),
    ),
    preset(
        "lifo",
        "newest first, thieves take the oldest half: locality, tasks that spawn tasks",
        "EBSL B.6",
        || Kind::Lifo(Lifo::new()),
    ),
    preset(
        "alternate",
        "one of the newest, one of the oldest",
        "EBSL 4.3.2",
        || mixed(Mix::Alternate(n(1))),
    ),
    preset(
        "stochastic-80-20",
        "the newest in 80 of 100 cases, else the oldest",
        "EBSL 5.3.3",
        || mixed(Mix::Stochastic(80)),
    ),
    preset(
        "stochastic-20-80",
        "the newest in 20 of 100 cases, else the oldest",
        "EBSL 5.3.3",
        || mixed(Mix::Stochastic(20)),
    ),
    preset(
        "reverse",
        "newest first; after 256, as many of the oldest as there are",
        "EBSL 4.3.2, 5.3.3",
        || mixed(Mix::Reverse(n(256))),
    ),
    preset(
        "adaptive",
        "learns while it runs: oldest or newest first, one or half of whom; between what it tries",
        "EBSL 6",
        adaptive,
    ),
    preset(
        "slot",
        "oldest first, but the newest goes before, three times in a row at most",
        "EBSL 5.3.3, tokio",
        || Kind::Slotted(Stealing::with_order(SlotOrder::new(FifoOrder, n(3)))),
    ),
    preset(
        "fifo-behind",
        "oldest first; a task that yields goes behind all others of its worker",
        "Linux sched_yield, EBSL B.5",
        || Kind::FifoBehind(Stealing::new()),
    ),
    preset(
        "lifo-behind",
        "newest first; a task that yields goes behind all others of its worker",
        "Linux sched_yield, EBSL B.6",
        || Kind::LifoBehind(Stealing::new()),
    ),
    preset(
        "shortest",
        "kinds of tasks with short steps first, as learned; long ones have a tenth of the time",
        "Persephone (SOSP 2021)",
        || Kind::Shortest(Stealing::new()),
    ),
    preset(
        "priority",
        "three levels of urgency, oldest first on each",
        "Negele, EBSL 4.3",
        || Kind::Prioritised(Stealing::with_order(PriorityOrder::new(FifoOrder, n(3)))),
    ),
    preset(
        "fifo-one",
        "oldest first, thieves take one: few heavy tasks",
        "EBSL 4.5.1",
        || Kind::Fifo(Fifo::new().steal(Amount::One)),
    ),
    preset(
        "deque",
        "newest first, thieves take the oldest: the classic deque",
        "Chase and Lev 2005",
        || Kind::Lifo(Lifo::new().steal(Amount::One)),
    ),
    preset(
        "fifo-locked",
        "a bounded ring, the rest in a locked queue",
        "Go, tokio; EBSL 5.3.1",
        || Kind::Fifo(Fifo::new().overflow(Overflow::Locked)),
    ),
    preset(
        "fifo-lockfree",
        "a bounded ring, the rest in a lock-free queue",
        "EBSL 5.3.1",
        || Kind::Fifo(Fifo::new().overflow(Overflow::LockFree)),
    ),
    preset(
        "fifo-multi",
        "a bounded ring, the rest in five lock-free queues",
        "EBSL 5.3.1, B.8",
        || Kind::Fifo(Fifo::new().overflow(Overflow::Multi(n(5)))),
    ),
    preset(
        "fifo-retry",
        "a bounded ring of 128; a spawner that finds it full tries again",
        "EBSL 5.3.1",
        || Kind::Fifo(Fifo::new().capacity(128).overflow(Overflow::Retry(n(1024)))),
    ),
    preset(
        "chain",
        "oldest first; a ring that is full gets another one behind it, which goes after the burst",
        "EBSL 5.3.1",
        || Kind::Chained(Chained::new()),
    ),
    preset(
        "nearest",
        "thieves keep to the 15 workers beside them: fine-grained tasks on many cores",
        "EBSL 5.3.1",
        || Kind::Fifo(Fifo::new().victims(Victims::Nearest(n(15)))),
    ),
    preset(
        "topology",
        "thieves begin with those that share caches (with pinned workers)",
        "EBSL 5.3.1, Cforall",
        || Kind::Fifo(Fifo::new().victims(Victims::Topology)),
    ),
    preset(
        "atleast",
        "thieves take ten at least, and rarely one",
        "EBSL 5.3.1",
        || Kind::Fifo(Fifo::new().steal(Amount::AtLeast(n(10)))),
    ),
    preset(
        "shed",
        "a busy worker makes another one steal from it, once",
        "EBSL 5.3.1",
        || Kind::Fifo(Fifo::new().help(Help::Shed)),
    ),
    preset(
        "shed-sticky",
        "the same; that one keeps it as its victim",
        "EBSL 5.3.1",
        || Kind::Fifo(Fifo::new().help(Help::ShedSticky)),
    ),
    preset(
        "tickets",
        "a busy worker draws a ticket, which a free one takes up",
        "EBSL 5.3.1",
        || Kind::Fifo(Fifo::new().help(Help::Tickets)),
    ),
    preset(
        "cforall",
        "workers help where tasks wait eight times longer than their own: fair, whatever the others do",
        "Delisle, Cforall",
        || Kind::Piece(Piece::Cforall(Cforall::new())),
    ),
    preset(
        "negele",
        "a lock-free queue for each of four priorities, for all workers",
        "Negele, Friedrich, Oh and Egger 2014",
        || Kind::Piece(Piece::Negele(Negele::new())),
    ),
    preset(
        "negele-local",
        "the same for each worker, balanced now and then",
        "Negele, Friedrich, Oh and Egger 2014, future work",
        || Kind::Piece(Piece::NegeleLocal(NegeleLocal::new())),
    ),
    preset(
        "go",
        "what was spawned or woken last runs next; a ring of 256, half of which overflows",
        "Go 1.1 and later",
        || Kind::Piece(Piece::Go(Go)),
    ),
    preset(
        "tokio",
        "a private LIFO slot, three times in a row; a ring of 256; an injector, tuned to 200 µs",
        "tokio 1.54",
        || Kind::Piece(Piece::Tokio(Tokio)),
    ),
    preset(
        "libfibre",
        "oldest first; a woken task goes back to where it last ran",
        "Karsten and Barghi 2020",
        || Kind::Piece(Piece::Libfibre(Libfibre)),
    ),
    preset(
        "prows",
        "newest first; a task that waits leaves its deque to thieves: fork-join that waits on I/O",
        "Rayon-LH 3, 4",
        || Kind::Piece(Piece::ProWs(ProWs::new())),
    ),
    preset(
        "parsimonious",
        "newest first; a woken task comes back to its worker: the rival of prows",
        "Muller and Acar 2016; Rayon-LH 2.4",
        || Kind::Piece(Piece::Parsimonious(Parsimonious::new())),
    ),
    preset(
        "edf",
        "the earliest deadline first, of all workers' tasks",
        "Liu and Layland 1973",
        || Kind::Piece(Piece::Edf(Edf::new())),
    ),
];
