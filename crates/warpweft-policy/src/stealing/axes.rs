//! The cold axes of a stealing policy: values, looked at only where the way of a task is slow already.

use std::fmt;
use std::num::NonZeroUsize;
use warpweft_queue::Amount;

/// Where a task goes for which its worker's queue has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// The queue grows, while thieves are at work: in place, or by another ring with
    /// [`ChainOrder`](crate::order::ChainOrder).
    Grow,
    /// The spawner tries again, so often at most, until thieves have made room; each time is counted as
    /// `retries`. Then, or where there is no other worker, into the locked queue: a spawner that waits for
    /// ever would be a pool that hangs.
    Retry(NonZeroUsize),
    /// Into one locked queue of the pool, as in Go and tokio.
    Locked,
    /// Into one lock-free queue of the pool; what that has no room for (65 536 tasks) into a locked one.
    LockFree,
    /// Into so many lock-free queues of the pool, by turns (EBSL B.8: five); what they have no room for (16
    /// 384 tasks each) into a locked one. With priorities each level has queues of its own, here and with the
    /// two others; the room is divided among them.
    Multi(NonZeroUsize),
}

/// Where a task goes that gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum YieldTo {
    /// Into its worker's own queue (EBSL's soft yield). With FIFO that is behind all others; with LIFO behind
    /// the newest, so that it gives way to one task, the one whose data is still in the cache.
    Local,
    /// Into queues of the pool that workers look at now and then (EBSL's hard yield): one for each two
    /// workers, eight at most.
    Global,
}

/// Where a task goes that was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Woken {
    /// To the worker whose task has woken it: what it will read was just written there.
    Waker,
    /// To the worker where it ran last: what it has read before may still be there. That worker is woken for
    /// it.
    Last,
}

/// From whom a worker without tasks steals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Victims {
    /// From anybody, beginning with one chosen by chance.
    Random,
    /// From those so many whose numbers are nearest to its own: a hierarchy along which tasks move (EBSL
    /// 5.3.1: 15).
    Nearest(NonZeroUsize),
    /// First from those on its core, then from those that share its second-level cache, its last-level one,
    /// its memory node, then the rest; with probability 1/8 it begins one level farther out, with 1/64 two,
    /// and so on, so that none is out of reach. Where workers are not pinned nobody knows who is near, and it
    /// is as `Random`.
    Topology,
    /// It learns whether those who are near have anything: as [`Topology`](Victims::Topology) while they do
    /// (where nobody knows who is near, it is the two whose numbers are beside its own), else as
    /// [`Random`](Victims::Random). Each worker learns for itself.
    Adaptive,
}

/// How much a thief takes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StealAmount {
    /// That much.
    Fixed(Amount),
    /// It learns: half, unless what it takes is taken on before it runs, as with few long tasks; then one.
    /// Each worker learns for itself.
    Adaptive,
}

impl From<Amount> for StealAmount {
    fn from(amount: Amount) -> Self {
        Self::Fixed(amount)
    }
}

/// Whether a worker with much to do asks others to take of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Help {
    /// It does not: who has nothing must find it.
    None,
    /// It chooses another worker, each by turns, which steals from it once, at its next occasion.
    Shed,
    /// The same; and that worker keeps it as its first victim until somebody else asks.
    ShedSticky,
    /// It draws a ticket, which lies in a queue of the pool until a worker without tasks takes it up.
    Tickets,
}

/// Whether a worker that has tasks takes of one that has clearly more, so that the tasks of both wait alike.
///
/// Without it nobody balances a pool in which nobody is idle: who happens to have half as many tasks gives
/// each of them twice as many turns, for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rebalance {
    /// It does not: a worker takes of others when it has nothing.
    Off,
    /// It compares its queue with another worker's, each by turns, once in so many looks after what is
    /// overdue (which come after [`INTERVAL`](crate::Policy::INTERVAL) tasks each). If the other one has at
    /// least four tasks more, and a sixteenth, it runs the oldest of them, and looks again at the next look
    /// but one.
    Every(NonZeroUsize),
}

/// All of them together. What is not here is the order.
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

impl fmt::Display for YieldTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Global => "global",
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
    /// Of these, the ones that are printed whatever they say.
    const ALWAYS: [&str; 4] = ["steal", "overflow", "capacity", "yield"];

    /// What is written after `name=`. `None`: there is no such option.
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

    /// The oldest four options always, the others where they say something unusual.
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
