//! Workers with many tasks, and how they ask others to steal from them (EBSL 5.3.1: work shedding; sharing
//! from busy to free).
//!
//! ```text
//!   shed:     busy worker ─swap(its number)─▶ slot of another worker, in turn ─▶ it steals there
//!   tickets:  busy worker ─push(its number)─▶ queue of numbers ─pop─▶ a searcher steals there first
//! ```
//!
//! They ask on slow paths only: when their local queue is full, and when they poll after some tasks.

use super::Help;
use crate::{Count, PolicyError, Tally, Wake, WorkerId};
use std::num::NonZeroUsize;
use warpweft_queue::{Mpmc, Slot};

/// From this number of tasks on a worker asks for help.
const MUCH: usize = 32;

/// The place where all workers of a pool ask for help.
pub(super) struct HelpRequests {
    sticky: bool,
    by: By,
}

enum By {
    NoWorker,
    /// For each worker the number + 1 of the worker that asks it.
    Slots(Box<[Slot<NonZeroUsize>]>),
    Tickets(Box<Mpmc<NonZeroUsize>>),
}

impl HelpRequests {
    pub(super) fn new(help: Help, workers: usize) -> Result<Self, PolicyError> {
        let by = match help {
            Help::Shed | Help::ShedSticky if workers > 1 => {
                By::Slots((0..workers).map(|_| Slot::new()).collect())
            }
            Help::Tickets if workers > 1 => By::Tickets(Box::new(Mpmc::with_capacity(workers)?)),
            Help::None | Help::Shed | Help::ShedSticky | Help::Tickets => By::NoWorker,
        };
        let sticky = help == Help::ShedSticky;
        Ok(Self { sticky, by })
    }

    /// Asks for help if the worker has many tasks. Returns the worker to wake for it. `pick` chooses among
    /// the others.
    pub(super) fn ask(&self, me: usize, tasks: usize, pick: usize, tally: Tally<'_>) -> Wake {
        if tasks < MUCH {
            return Wake::Any;
        }
        let number = NonZeroUsize::MIN.saturating_add(me);
        match &self.by {
            By::NoWorker => Wake::Any,
            By::Slots(slots) => {
                // Any worker but itself.
                let other = (me + 1 + pick % (slots.len() - 1)) % slots.len();
                // An earlier request is forgotten: the last one counts.
                slots[other].swap(number);
                tally.count(Count::HelpRequests, 1);
                Wake::Worker(WorkerId(other))
            }
            By::Tickets(tickets) => {
                // If there is no room, enough have asked.
                tally.count(Count::HelpRequests, u64::from(tickets.try_push(number).is_ok()));
                Wake::Any
            }
        }
    }

    /// Returns the worker that asked `me` to steal from it. `kept` is the one that it keeps until another
    /// asks.
    pub(super) fn asked_by(&self, me: usize, kept: &mut Option<usize>) -> Option<usize> {
        let By::Slots(slots) = &self.by else {
            return None;
        };
        let asked = slots[me].take().map(|number| number.get() - 1);
        if !self.sticky {
            return asked;
        }
        *kept = asked.or(*kept);
        *kept
    }

    /// Returns true if another worker asks this one.
    #[inline]
    pub(super) fn is_asked(&self, me: usize) -> bool {
        matches!(&self.by, By::Slots(slots) if !slots[me].is_empty())
    }

    /// Returns the worker that asked first.
    pub(super) fn ticket(&self) -> Option<usize> {
        match &self.by {
            By::Tickets(tickets) if !tickets.is_empty() => tickets.try_pop().map(|number| number.get() - 1),
            _ => None,
        }
    }
}
