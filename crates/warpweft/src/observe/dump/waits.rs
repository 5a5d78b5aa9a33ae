//! From the waits, as they were collected, to those of a dump.

use super::addresses::{Addresses, addresses};
use super::graph::{Collected, Index, tell};
use super::permits::AllPermits;
use super::stuck::{Last, Lasts};
use super::{TaskDump, TaskState, WaitDump, WaitsFor, sockets};
use crate::observe::raw::{RawWait, RawWhat};
use std::time::Duration;
use warpweft_task::frame::Who;

/// The waits of a dump that is being made, and what they say of tasks.
pub(super) struct FoundWaits<'a> {
    collected: &'a Collected,
    index: &'a Index,
    pub(super) dumped: Vec<TaskDump>,
    /// A lock that was given to a waiter belongs to that waiter's task.
    heirs: Addresses<usize>,
    permits: AllPermits,
    /// Who used the other side of a wait last.
    pub(super) lasts: Lasts,
    /// A thread outside uses what a task of the runtimes waits for, and is not known to wait itself.
    pub(super) is_used_outside: bool,
    sockets_left: usize,
}

/// Returns false for a thread, and for a part of a join: they are in the dump only while they wait.
fn is_task(who: Who) -> bool {
    who.id & 1 == 0 && !who.origin.is_null()
}

impl<'a> FoundWaits<'a> {
    pub(super) fn new(
        collected: &'a Collected,
        index: &'a Index,
        dumped: Vec<TaskDump>,
        waits: &[RawWait],
    ) -> Self {
        let mut heirs: Addresses<usize> = addresses(0);
        for wait in waits.iter().filter(|wait| wait.told) {
            if let Some((waiter, _)) = index.waiter(wait) {
                heirs.insert(wait.object, waiter);
            }
        }
        Self {
            collected,
            index,
            heirs,
            permits: AllPermits::new(waits, &collected.bounded, index),
            lasts: dumped.iter().map(|_| Vec::new()).collect(),
            dumped,
            is_used_outside: false,
            sockets_left: sockets::MOST,
        }
    }

    fn living(&self, who: Who) -> Vec<usize> {
        self.index.living(who, &self.dumped)
    }

    fn note_outside(&mut self, who: Who) {
        self.is_used_outside |= who.id & 1 == 1 && self.index.ids(who.id).is_empty();
    }

    /// Notes who used the other side of the wait that is the next one of `waiter`, if that is known.
    fn note_last(&mut self, waiter: usize, last: Who) {
        if last.id != 0 {
            let living = self.living(last);
            self.lasts[waiter].push(Last {
                wait: self.dumped[waiter].waits.len(),
                id: last.id,
                living,
            });
        }
    }

    /// Adds a wait for tasks, or for parts of them.
    pub(super) fn add_tasks(&mut self, on: WaitsFor, waiter: usize, holders: Vec<usize>) {
        let object = holders.first().map_or(0, |&holder| self.dumped[holder].id);
        self.dumped[waiter].waits.push(WaitDump {
            on,
            object,
            since: None,
            told: false,
            holders,
            likely: Vec::new(),
            is_holder_missing: false,
            is_indirect: false,
        });
    }

    /// Adds a wait, if its task is known.
    // Not inlined: the compiler's time grows faster than the size of a function.
    #[inline(never)]
    pub(super) fn add(&mut self, wait: RawWait) {
        let Some((waiter, is_direct)) = self.index.waiter(&wait) else {
            return;
        };
        // The waker is there for as long as the task is under the token.
        let is_deadline = matches!(wait.what, RawWhat::Deadline { .. });
        if is_deadline && self.dumped[waiter].state != TaskState::Waiting {
            return;
        }
        let mut holders = Vec::new();
        let mut likely = Vec::new();
        let mut is_holder_missing = false;
        let on = match wait.what {
            RawWhat::Lock { kind, owner } => {
                match self.heirs.get(&wait.object) {
                    Some(&heir) if owner.id == 0 => holders.push(heir),
                    _ => holders = self.living(owner),
                }
                is_holder_missing = is_task(owner) && holders.is_empty();
                self.note_outside(owner);
                self.note_last(waiter, owner);
                let owner = tell(owner);
                WaitsFor::Lock { kind, owner }
            }
            RawWhat::Permits {
                kind,
                wanted,
                free,
                holders: ref noted,
                ..
            } => {
                noted.iter().for_each(|&(who, _)| self.note_outside(who));
                let mut outside = noted.iter().filter(|(who, _)| who.id & 1 == 1);
                self.note_last(waiter, outside.next().map_or(Who::NOBODY, |of| of.0));
                let (index, dumped) = (self.index, &self.dumped);
                let known = self.permits.of(&wait, |who| index.living(who, dumped), dumped);
                (holders, likely) = (known.holders, known.likely);
                is_holder_missing = known.is_holder_missing;
                let pool = self
                    .collected
                    .bounded
                    .iter()
                    .find(|pool| pool.object == wait.object);
                WaitsFor::Permits {
                    kind,
                    wanted,
                    free,
                    owner: known.owner,
                    held: known.held,
                    missing: known.missing,
                    absent: known.absent,
                    all: pool.map_or(known.all, |pool| pool.capacity),
                    pool: pool.map(|pool| self.collected.pools[pool.pool].name.clone()),
                    behind: self
                        .permits
                        .first(wait.object)
                        .filter(|&first| !wait.told && wanted <= free && first != waiter),
                }
            }
            RawWhat::Event { kind, last, made_at } => {
                self.note_outside(last);
                self.note_last(waiter, last);
                WaitsFor::Event {
                    kind,
                    last: tell(last),
                    made_at,
                }
            }
            RawWhat::Barrier { arrived, size } => WaitsFor::Barrier { arrived, size },
            RawWhat::Receive {
                capacity,
                senders,
                last,
                made_at,
            } => {
                self.note_outside(last);
                self.note_last(waiter, last);
                if senders <= 1 {
                    likely = self.living(last);
                }
                let last = tell(last);
                WaitsFor::Receive {
                    capacity,
                    senders,
                    last,
                    made_at,
                }
            }
            RawWhat::Send {
                queued,
                capacity,
                receivers,
                last,
                made_at,
            } => {
                self.note_outside(last);
                self.note_last(waiter, last);
                if receivers <= 1 {
                    likely = self.living(last);
                }
                let last = tell(last);
                WaitsFor::Send {
                    queued,
                    capacity,
                    receivers,
                    last,
                    made_at,
                }
            }
            RawWhat::Timer { until_ns } => WaitsFor::Timer(Duration::from_nanos(
                until_ns.saturating_sub(self.collected.now_ns),
            )),
            RawWhat::Deadline { until_ns } => WaitsFor::Deadline(Duration::from_nanos(
                until_ns.saturating_sub(self.collected.now_ns),
            )),
            RawWhat::Socket { descriptor, write } => {
                self.sockets_left = self.sockets_left.saturating_sub(1);
                let name = descriptor
                    .filter(|_| self.sockets_left > 0)
                    .and_then(sockets::name_of);
                WaitsFor::Socket {
                    descriptor,
                    write,
                    name,
                }
            }
            RawWhat::BlockingPlace => WaitsFor::BlockingPlace,
            RawWhat::Tasks(ids) => {
                for id in ids {
                    holders.extend_from_slice(self.index.ids(id));
                }
                WaitsFor::Fork
            }
            RawWhat::Cancellation => WaitsFor::Cancellation,
            // It is no wait of its own: what is known of the task decides.
            RawWhat::Described(what) => {
                self.dumped[waiter].described.push(what);
                return;
            }
        };
        // A task that used both ends has probably passed one on, or lost it: that is another finding.
        if !matches!(on, WaitsFor::Permits { .. }) {
            likely.retain(|&task| task != waiter);
        }
        // Most tasks have one wait, and many tasks much memory.
        self.dumped[waiter].waits.reserve_exact(1);
        self.dumped[waiter].waits.push(WaitDump {
            on,
            object: wait.object as u64,
            since: self.collected.ago(wait.since_ns),
            told: wait.told,
            holders,
            likely,
            is_holder_missing,
            is_indirect: !is_direct,
        });
    }
}
