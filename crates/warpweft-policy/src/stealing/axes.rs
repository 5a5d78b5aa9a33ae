//! The cold axes of a stealing policy: values that only slow paths use.

use crate::YieldTo;
use std::fmt;
use std::num::NonZeroUsize;
use warpweft_queue::Amount;

/// How many kinds of places `poll_global` polls in turn.
pub(super) const PLACES: usize = 6;

/// The destination of a task for which its worker's queue has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// The queue grows, while thieves are at work: in place, or by another ring with
    /// [`ChainOrder`](crate::order::ChainOrder).
    Grow,
    /// The spawner tries again, at most this often, until thieves have made room; each time is counted as
    /// `retries`. After that, or if there is no other worker, the task goes into the locked queue: a spawner
    /// that waits forever would stop the pool.
    Retry(NonZeroUsize),
    /// One locked queue of the pool, as in Go and tokio.
    Locked,
    /// One lock-free queue of the pool; beyond its room (65 536 tasks) a locked one.
    LockFree,
    /// This number of lock-free queues of the pool, in turn (EBSL B.8: five); beyond their room (16 384 tasks
    /// each) a locked one. With priorities each level has its own queues, here and with the two others; the
    /// room is divided among them.
    Multi(NonZeroUsize),
}

/// The destination of a task that was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Woken {
    /// The worker whose task has woken it, because what it will read was just written there.
    Waker,
    /// The worker where it ran last, because what it has read before may still be in its cache. That worker
    /// is woken for it.
    Last,
}

/// The victims of a worker without tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Victims {
    /// All others, beginning with a random one.
    Random,
    /// The workers whose numbers are nearest to its own: a hierarchy along which tasks move (EBSL 5.3.1: 15).
    Nearest(NonZeroUsize),
    /// First those on its core, then those that share its second-level cache, its last-level one, its memory
    /// node, then the rest. With probability 1/8 it begins one level farther out, with 1/64 two, and so on,
    /// so that each is in reach. If workers are not pinned it is as `Random`.
    Topology,
    /// It learns whether near workers have anything. While they do, it is as [`Topology`](Victims::Topology),
    /// else as [`Random`](Victims::Random). If workers are not pinned, the near ones are the two with
    /// adjacent numbers. Each worker learns for itself.
    Adaptive,
}

/// How much a thief takes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StealAmount {
    /// This amount.
    Fixed(Amount),
    /// It learns: half, unless another thief takes the stolen tasks before they run, as with few long tasks;
    /// then one. Each worker learns for itself.
    Adaptive,
}

impl From<Amount> for StealAmount {
    fn from(amount: Amount) -> Self {
        Self::Fixed(amount)
    }
}

/// Decides whether a worker with many tasks asks others to steal from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Help {
    /// It does not: a worker without tasks must find it.
    None,
    /// It chooses another worker, each in turn, which steals from it once, at its next occasion.
    Shed,
    /// The same; and that worker keeps it as its first victim until another worker asks.
    ShedSticky,
    /// It puts its number into a queue of the pool, until a worker without tasks takes it.
    Tickets,
}

/// Decides whether a worker that has tasks steals from one that has clearly more, so that the tasks of both
/// wait equally long.
///
/// Without it a pool in which no worker is idle stays unbalanced: a worker that happens to have half as many
/// tasks gives each of them twice as many turns, forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rebalance {
    /// It does not: a worker steals only when it has nothing.
    Off,
    /// It compares its queue with another worker's, each in turn, once in this number of calls of
    /// `poll_global` (which come after [`INTERVAL`](crate::Policy::INTERVAL) tasks each). If the other one
    /// has at least four tasks more, and a sixteenth, it runs the oldest of them, and compares again at the
    /// next call but one.
    Every(NonZeroUsize),
}

/// All axes except the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Axes {
    pub(crate) steal: StealAmount,
    pub(crate) victims: Victims,
    pub(crate) help: Help,
    pub(crate) overflow: Overflow,
    pub(crate) capacity: usize,
    pub(crate) yield_to: YieldTo,
    pub(crate) woken: Woken,
    pub(crate) rebalance: Rebalance,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grow => f.write_str("grow"),
            Self::Retry(times) => write!(f, "retry:{times}"),
            Self::Locked => f.write_str("locked"),
            Self::LockFree => f.write_str("lockfree"),
            Self::Multi(queues) => write!(f, "multi:{queues}"),
        }
    }
}

impl fmt::Display for Victims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::Nearest(number) => write!(f, "nearest:{number}"),
            Self::Topology => f.write_str("topology"),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}

impl fmt::Display for StealAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(Amount::One) => f.write_str("one"),
            Self::Fixed(Amount::Half) => f.write_str("half"),
            Self::Fixed(Amount::AtLeast(least)) => write!(f, "atleast:{least}"),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}

impl fmt::Display for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Shed => "shed",
            Self::ShedSticky => "shed-sticky",
            Self::Tickets => "tickets",
        })
    }
}

impl fmt::Display for Woken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waker => "waker",
            Self::Last => "last",
        })
    }
}

impl fmt::Display for Rebalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Every(looks) => looks.fmt(f),
        }
    }
}

impl Axes {
    /// The options of a policy's text, in the order in which it is printed.
    const OPTIONS: [&str; 8] = [
        "steal",
        "victims",
        "help",
        "overflow",
        "capacity",
        "yield",
        "woken",
        "rebalance",
    ];
    /// The options that are always printed.
    const ALWAYS: [&str; 4] = ["steal", "overflow", "capacity", "yield"];

    /// Returns what is written after `name=`; `None` if there is no such option.
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        Some(match name {
            "steal" => self.steal.to_string(),
            "victims" => self.victims.to_string(),
            "help" => self.help.to_string(),
            "overflow" => self.overflow.to_string(),
            "capacity" => self.capacity.to_string(),
            "yield" => self.yield_to.to_string(),
            "woken" => self.woken.to_string(),
            "rebalance" => self.rebalance.to_string(),
            _ => return None,
        })
    }

    /// Prints the oldest four options always, the others if they are not the defaults.
    pub(crate) fn print(&self, usual: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in Self::OPTIONS {
            let says = |value: &Option<String>| Self::ALWAYS.contains(&name) || *value != usual.value(name);
            if let Some(value) = Some(self.value(name)).filter(says).flatten() {
                write!(f, "+{name}={value}")?;
            }
        }
        Ok(())
    }
}
