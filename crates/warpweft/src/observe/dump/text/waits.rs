//! What a task waits for, as text.

use super::{LINKS, count, short};
use crate::observe::dump::{WaitDump, WaitsFor};
use crate::observe::raw::{BOUNDED_SCOPE, POOL};
use std::fmt::{self, Display, Formatter};

impl Display for WaitDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "waits for {}", self.on)?;
        if self.object != 0 {
            write!(f, " {:#x}", self.object)?;
        }
        let is_enough = |held: &[usize], missing| held.iter().sum::<usize>() > missing;
        let is_some =
            matches!(&self.on, WaitsFor::Permits { held, missing, .. } if is_enough(held, *missing));
        for (at, holder) in self.holders.iter().take(LINKS).enumerate() {
            f.write_str(match (is_some, at) {
                (false, _) => ", depends on ",
                (true, 0) => ", depends on some of ",
                (true, _) => ", ",
            })?;
            write!(f, "#{holder}")?;
        }
        if let more @ 1.. = self.holders.len().saturating_sub(LINKS) {
            write!(f, " and {more} more")?;
        }
        if self.is_holder_missing {
            let whose = match self.on {
                WaitsFor::Permits { .. } => "some of which are with a task that is",
                _ => "whose owner is",
            };
            write!(
                f,
                ", {whose} not here: it has ended with it, has not waited yet, or is another runtime's"
            )?;
        }
        for user in &self.likely {
            write!(f, ", probably depends on #{user}")?;
        }
        if self.is_indirect {
            f.write_str(", by a waker of another crate")?;
        }
        if let Some(since) = self.since {
            write!(f, ", for {}", short(since))?;
        }
        if self.told {
            f.write_str("; it was told, and has not looked")?;
        }
        Ok(())
    }
}

impl Display for WaitsFor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Join => f.write_str("the end of a task"),
            Self::Fork => f.write_str("the other parts of its join or scope"),
            Self::Lock { kind, owner } => {
                write!(f, "the {kind}")?;
                owner.iter().try_for_each(|owner| write!(f, " of {owner}"))
            }
            Self::Permits {
                kind: "rwlock",
                wanted,
                owner,
                behind,
                ..
            } => {
                f.write_str("the rwlock")?;
                owner.iter().try_for_each(|owner| write!(f, " of {owner}"))?;
                f.write_str(if *wanted == 1 { ", to read" } else { ", to write" })?;
                let mut behind = behind.iter();
                behind.try_for_each(|first| write!(f, " after #{first}, which waits to write"))
            }
            Self::Permits {
                kind: "once cell",
                owner,
                ..
            } => {
                f.write_str("the initialisation of a once cell")?;
                owner.iter().try_for_each(|owner| write!(f, " by {owner}"))
            }
            Self::Permits {
                kind: kind @ (POOL | BOUNDED_SCOPE),
                free,
                all,
                pool,
                ..
            } => {
                match pool {
                    Some(pool) => write!(f, "a place in pool `{}` (", pool.escape_debug())?,
                    None => write!(f, "a place in a {kind} (")?,
                }
                if *all > 0 {
                    write!(f, "capacity {all}, ")?;
                }
                match free {
                    0 => f.write_str("all taken)"),
                    free => write!(f, "{free} free)"),
                }
            }
            Self::Permits {
                kind,
                wanted,
                free,
                owner,
                absent,
                behind,
                ..
            } => {
                write!(f, "{} of a {kind} ({free} free", count(*wanted, "permit"))?;
                owner
                    .iter()
                    .try_for_each(|owner| write!(f, "; {owner} has some"))?;
                if *absent > 0 {
                    write!(f, "; {} with tasks that are not here", count(*absent, "permit"))?;
                }
                f.write_str(")")?;
                let mut behind = behind.iter();
                behind.try_for_each(|first| write!(f, " after #{first}, which waits for more"))
            }
            Self::Barrier { arrived, size } => {
                write!(f, "a barrier at which {arrived} of {size} have arrived")
            }
            Self::Event { kind, last, made_at } => {
                let (what, last_used) = match *kind {
                    "oneshot channel" => ("the value", "sent"),
                    "broadcast channel" => ("a value", "sent"),
                    "watch channel" => ("a new value", "sent"),
                    _ => ("a notification", "notified"),
                };
                let kind = match *kind {
                    "notify" => "`Notify`",
                    "condvar" => "condition variable",
                    kind => kind,
                };
                write!(f, "{what} of a {kind}")?;
                made_at.iter().try_for_each(|at| write!(f, " made at {at}"))?;
                last.iter()
                    .try_for_each(|last| write!(f, "; last {last_used} by {last}"))
            }
            Self::Receive {
                capacity,
                senders,
                last,
                made_at,
            } => {
                let senders = count(*senders, "sender");
                match *capacity {
                    usize::MAX => write!(f, "a value of an empty channel (without a bound, {senders})")?,
                    _ => write!(f, "a value of an empty channel (0 of {capacity}, {senders})")?,
                }
                write!(f, " made at {made_at}")?;
                last.iter()
                    .try_for_each(|last| write!(f, "; last used by {last}"))
            }
            Self::Send {
                queued,
                capacity,
                receivers,
                last,
                made_at,
            } => {
                let receivers = count(*receivers, "receiver");
                write!(
                    f,
                    "room in a full channel ({queued} of {capacity}, {receivers}) made at {made_at}"
                )?;
                last.iter()
                    .try_for_each(|last| write!(f, "; last used by {last}"))
            }
            Self::Timer(left) => write!(f, "a timer in {}", short(*left)),
            Self::Deadline(left) => write!(f, "the deadline of its token in {}", short(*left)),
            Self::Socket {
                descriptor,
                write,
                name,
            } => {
                match descriptor {
                    Some(descriptor) => write!(f, "descriptor {descriptor}")?,
                    None => f.write_str("a descriptor")?,
                }
                let mut name = name.iter();
                name.try_for_each(|name| write!(f, " ({})", name.escape_debug()))?;
                f.write_str(if *write { " to be written" } else { " to be read" })
            }
            Self::BlockingPlace => f.write_str("a thread of `spawn_blocking`"),
            Self::Cancellation => f.write_str("the cancellation of a token"),
        }
    }
}
