//! Policies as text: `lifo+steal=half+victims=nearest:15+overflow=multi:5+yield=global`.
//!
//! ```text
//! policy   = ( name | order ) { "+" option } | piece
//! name     = one of `PolicySpec::presets`
//! order    = "fifo" | "chain" | "lifo" | "slot:" N | "alternate:" N | "stochastic:" PERCENT | "reverse:" N | "adaptive:" N | "priority:" LEVELS
//! option   = "steal="    ( "one" | "half" | "atleast:" K | "adaptive" )
//!          | "victims="  ( "random" | "nearest:" N | "topology" | "adaptive" )
//!          | "help="     ( "none" | "shed" | "shed-sticky" | "tickets" )
//!          | "overflow=" ( "grow" | "retry:" N | "locked" | "lockfree" | "multi:" K )
//!          | "capacity=" N
//!          | "yield="    ( "local" | "global" )
//!          | "woken="    ( "waker" | "last" )
//!          | "rebalance=" ( "off" | N )
//! piece    = "go" | "tokio" | "libfibre"
//!          | "negele" [ ":" LEVELS ] | "negele-local" [ ":" LEVELS ] [ "+balance=" N ]
//!          | "cforall" { "+lanes=" N | "+every=" N | "+age=" LOG2 | "+far=" OF256 | "+weight=" SIXTEENTHS | "+clock=" N | "+capacity=" N }
//!          | ( "prows" | "parsimonious" ) [ "+capacity=" N ]
//! ```
//!
//! Spaces around words do not matter. An omitted option has the default of the name or the order. An option
//! cannot contradict a name: `fifo-one+steal=half` is an error, and `fifo+steal=half` is correct. Options of
//! the axes are for policies that are assembled from parts; a policy that is one piece has its own options,
//! or none.
//!
//! # Adding a policy
//!
//! A policy that is one piece is a variant of [`Kind`] (with its line in `visit`, `fmt` and `axes_mut`) and a
//! line of [`PRESETS`]. An assembled one is a line of [`PRESETS`].

mod parse;
mod pieces;
#[cfg(test)]
mod tests;

use crate::order::{FifoOrder, Mix, MixedOrder, PriorityOrder, SlotOrder};
use crate::stealing::Axes;
use crate::{
    Cforall, Chained, Fifo, Go, Help, Libfibre, Lifo, Mixed, Negele, NegeleLocal, Overflow, Parsimonious,
    Policy, Prioritised, ProWs, Slotted, StealAmount, Stealing, Tokio, Victims,
};
use std::fmt;
use std::num::NonZeroUsize;
use warpweft_queue::Amount;

pub use parse::ParsePolicyError;

/// A policy that was described by a text.
///
/// ```
/// use warpweft_policy::PolicySpec;
/// let spec: PolicySpec = "lifo + steal=one".parse()?;
/// assert_eq!(spec.to_string(), "lifo+steal=one+overflow=grow+capacity=256+yield=global");
/// let error = "lifo+stael=one".parse::<PolicySpec>().unwrap_err();
/// assert_eq!(error.position(), 5);
/// assert!(error.to_string().contains("steal="));
/// # Ok::<(), warpweft_policy::ParsePolicyError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PolicySpec(Kind);

/// The types of policies that a text can name: a worker's loop is compiled for each.
#[derive(Debug, Clone)]
enum Kind {
    Fifo(Fifo),
    Chained(Chained),
    Lifo(Lifo),
    Negele(Negele),
    NegeleLocal(NegeleLocal),
    Cforall(Cforall),
    Go(Go),
    Tokio(Tokio),
    Libfibre(Libfibre),
    Mixed(Mixed),
    Slotted(Slotted),
    Prioritised(Prioritised),
    ProWs(ProWs),
    Parsimonious(Parsimonious),
}

impl Kind {
    /// Returns the axes of a policy that is assembled from parts, and their defaults with its order; `None`
    /// for one that is one piece.
    fn axes_mut(&mut self) -> Option<(&mut Axes, Axes)> {
        match self {
            Self::Fifo(policy) => Some((policy.axes_mut(), Fifo::USUAL)),
            Self::Chained(policy) => Some((policy.axes_mut(), Chained::USUAL)),
            Self::Lifo(policy) => Some((policy.axes_mut(), Lifo::USUAL)),
            Self::Mixed(policy) => Some((policy.axes_mut(), Mixed::USUAL)),
            Self::Slotted(policy) => Some((policy.axes_mut(), Slotted::USUAL)),
            Self::Prioritised(policy) => Some((policy.axes_mut(), Prioritised::USUAL)),
            Self::ProWs(_) | Self::Parsimonious(_) => None,
            Self::Negele(_)
            | Self::NegeleLocal(_)
            | Self::Cforall(_)
            | Self::Go(_)
            | Self::Tokio(_)
            | Self::Libfibre(_) => None,
        }
    }

    /// Returns the options of a policy that is one piece.
    fn options(&self) -> &'static [&'static str] {
        match self {
            Self::ProWs(_) | Self::Parsimonious(_) => &["capacity"],
            Self::NegeleLocal(_) => &["balance"],
            Self::Cforall(_) => &["lanes", "every", "age", "far", "weight", "clock", "capacity"],
            _ => &[],
        }
    }
}

/// Receives the policy of a [`PolicySpec`] as its own type.
pub trait PolicyVisitor {
    /// The result of the visit.
    type Output;

    /// Called once, with the policy.
    fn visit<P: Policy>(self, policy: P) -> Self::Output;
}

impl PolicySpec {
    /// Calls the visitor with the policy that the text described. The visitor is compiled once per policy
    /// type, and there is no indirection afterwards.
    pub fn visit<V: PolicyVisitor>(self, visitor: V) -> V::Output {
        match self.0 {
            Kind::Fifo(policy) => visitor.visit(policy),
            Kind::Chained(policy) => visitor.visit(policy),
            Kind::Lifo(policy) => visitor.visit(policy),
            Kind::Negele(policy) => visitor.visit(policy),
            Kind::NegeleLocal(policy) => visitor.visit(policy),
            Kind::Cforall(policy) => visitor.visit(policy),
            Kind::Go(policy) => visitor.visit(policy),
            Kind::Tokio(policy) => visitor.visit(policy),
            Kind::Libfibre(policy) => visitor.visit(policy),
            Kind::Mixed(policy) => visitor.visit(policy),
            Kind::Slotted(policy) => visitor.visit(policy),
            Kind::Prioritised(policy) => visitor.visit(policy),
            Kind::ProWs(policy) => visitor.visit(policy),
            Kind::Parsimonious(policy) => visitor.visit(policy),
        }
    }

    /// Returns the named policies.
    #[must_use]
    pub fn presets() -> &'static [Preset] {
        PRESETS
    }
}

/// A policy that has a name.
pub struct Preset {
    name: &'static str,
    about: &'static str,
    source: &'static str,
    make: fn() -> Kind,
}

impl Preset {
    /// Returns its name: a text that parses.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns what it does, and what it may be good for.
    #[must_use]
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// Returns its origin.
    #[must_use]
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// Returns the policy.
    #[must_use]
    pub fn spec(&self) -> PolicySpec {
        PolicySpec((self.make)())
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

/// Makes a number that is not 0.
const fn n(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("a preset's number is not 0")
}

/// Makes a policy with an order between newest and oldest first.
fn mixed(mix: Mix) -> Kind {
    let order = MixedOrder::new(mix).expect("a preset's order is possible");
    Kind::Mixed(Stealing::with_order(order))
}

/// Makes a policy whose order learns; the distribution of tasks learns, too.
fn adaptive() -> Kind {
    let order = MixedOrder::new(Mix::Adaptive(n(64))).expect("every number of tasks is possible");
    let policy = Stealing::with_order(order);
    Kind::Mixed(policy.steal(StealAmount::Adaptive).victims(Victims::Adaptive))
}

const PRESETS: &[Preset] = &[
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
        "learns while it runs: oldest or newest first, one or half of whom; for who does not know the workload",
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
        || Kind::Cforall(Cforall::new()),
    ),
    preset(
        "negele",
        "a lock-free queue for each of four priorities, for all workers",
        "Negele, Friedrich, Oh and Egger 2014",
        || Kind::Negele(Negele::new()),
    ),
    preset(
        "negele-local",
        "the same for each worker, balanced now and then",
        "Negele, Friedrich, Oh and Egger 2014, future work",
        || Kind::NegeleLocal(NegeleLocal::new()),
    ),
    preset(
        "go",
        "what was spawned or woken last runs next; a ring of 256, half of which overflows",
        "Go 1.1 and later",
        || Kind::Go(Go),
    ),
    preset(
        "tokio",
        "a private LIFO slot, three times in a row; a ring of 256; an injector, tuned to 200 µs",
        "tokio 1.54",
        || Kind::Tokio(Tokio),
    ),
    preset(
        "libfibre",
        "oldest first; a woken task goes back to where it last ran",
        "Karsten and Barghi 2020",
        || Kind::Libfibre(Libfibre),
    ),
    preset(
        "prows",
        "newest first; a task that waits leaves its deque to thieves: fork-join that waits on I/O",
        "Rayon-LH 3, 4",
        || Kind::ProWs(ProWs::new()),
    ),
    preset(
        "parsimonious",
        "newest first; a woken task comes back to its worker: the rival of prows",
        "Muller and Acar 2016; Rayon-LH 2.4",
        || Kind::Parsimonious(Parsimonious::new()),
    ),
];

impl Default for PolicySpec {
    /// Returns `fifo`: it starves no task, whatever the workload.
    fn default() -> Self {
        Self(Kind::Fifo(Fifo::new()))
    }
}

impl From<Fifo> for PolicySpec {
    fn from(policy: Fifo) -> Self {
        Self(Kind::Fifo(policy))
    }
}

impl From<Chained> for PolicySpec {
    fn from(policy: Chained) -> Self {
        Self(Kind::Chained(policy))
    }
}

impl From<Lifo> for PolicySpec {
    fn from(policy: Lifo) -> Self {
        Self(Kind::Lifo(policy))
    }
}

impl From<Mixed> for PolicySpec {
    fn from(policy: Mixed) -> Self {
        Self(Kind::Mixed(policy))
    }
}

impl From<Slotted> for PolicySpec {
    fn from(policy: Slotted) -> Self {
        Self(Kind::Slotted(policy))
    }
}

impl From<Prioritised> for PolicySpec {
    fn from(policy: Prioritised) -> Self {
        Self(Kind::Prioritised(policy))
    }
}

impl From<Negele> for PolicySpec {
    fn from(policy: Negele) -> Self {
        Self(Kind::Negele(policy))
    }
}

impl From<NegeleLocal> for PolicySpec {
    fn from(policy: NegeleLocal) -> Self {
        Self(Kind::NegeleLocal(policy))
    }
}

impl From<Cforall> for PolicySpec {
    fn from(policy: Cforall) -> Self {
        Self(Kind::Cforall(policy))
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(policy) => policy.fmt(f),
            Self::Chained(policy) => policy.fmt(f),
            Self::Lifo(policy) => policy.fmt(f),
            Self::Negele(policy) => policy.fmt(f),
            Self::NegeleLocal(policy) => policy.fmt(f),
            Self::Cforall(policy) => policy.fmt(f),
            Self::Go(policy) => policy.fmt(f),
            Self::Tokio(policy) => policy.fmt(f),
            Self::Libfibre(policy) => policy.fmt(f),
            Self::Mixed(policy) => policy.fmt(f),
            Self::Slotted(policy) => policy.fmt(f),
            Self::Prioritised(policy) => policy.fmt(f),
            Self::ProWs(policy) => policy.fmt(f),
            Self::Parsimonious(policy) => policy.fmt(f),
        }
    }
}
