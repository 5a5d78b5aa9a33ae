//! The priority that a task lends to those on which it waits.
//!
//! A task of low priority has a lock, many of middle priority are ready, and one of high priority waits for
//! the lock. Without more, it waits for all in the middle (priority inversion). So while a task waits for a
//! lock, the lock's owner, and the tasks that wait in front of it, have its priority, if theirs is less
//! urgent. So does a task that another one awaits by its handle. A task that was lent a priority passes it
//! on.
//!
//! ```text
//!   a task waits      ──▶ line of the lock, or of the handle: owner, waiters, their priorities
//!   a task is pushed  ──▶ is it owner or waiter of a line?  its word gets the most urgent priority there
//!   a task runs       ──▶ its word gets its own priority back
//!   each 61st task    ──▶ if lines have changed: such tasks are taken out of the queues, and pushed again
//! ```
//!
//! # Invariants
//!
//! - Addresses of tasks are compared and never followed: an owner may have ended. If another task has its
//!   address by then, that one runs too early, until the wait is over.
//! - A word that was raised is in `raised` until the task is taken to run or to end.
//! - `ANY` is how many entries there are. Pools whose policy has no inherited priorities never look at it.
//! - In a forked child nothing is lent: a thread that stayed in the parent may have the lock.

use std::ptr::NonNull;
use warpweft_platform::counter::Gauge;
use warpweft_platform::process;
use warpweft_platform::sync::StaticMutex;
use warpweft_policy::{TaskRef, priority};
use warpweft_task::pool::PoolHeader;

/// How many waits donate at a time. Each push of a pool with priorities looks at all of them. Of more, the
/// most urgent ones do.
const MOST: usize = u64::BITS as usize;

/// A task that waits for a lock, or for another task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Donor {
    /// The address of the lock, or of the awaited task.
    pub(crate) lock: usize,
    /// The place in its list of waiters.
    pub(crate) place: usize,
    /// The address of the waiting task.
    pub(crate) task: usize,
    /// The address of the task that has the lock; 0 if that is not known.
    pub(crate) owner: usize,
    /// The address of the task's pool. Priorities of other pools mean something else.
    pub(crate) pool: usize,
    /// The priority of the waiting task, as a level.
    pub(crate) level: usize,
}

struct LendingTable {
    donors: Vec<Donor>,
    /// The addresses of tasks in queues, their own words, and the addresses of their pools.
    raised: Vec<(usize, u64, usize)>,
    changes: usize,
}

/// A hint: a push that misses it finds its task in a queue, from where it is taken out.
static ANY: Gauge = Gauge::new();
static LINES: StaticMutex<LendingTable> = StaticMutex::new(LendingTable {
    donors: Vec::new(),
    raised: Vec::new(),
    changes: 0,
});

impl LendingTable {
    /// Changes the lines, and counts what there is then.
    fn change<R>(f: impl FnOnce(&mut Self) -> R) -> R {
        LINES.with(|lines| {
            let result = f(lines);
            ANY.set((lines.donors.len() + lines.raised.len()) as u64);
            result
        })
    }

    /// Returns the most urgent level that is lent to a task of that pool.
    fn lent_to(&self, task: usize, pool: usize) -> Option<usize> {
        self.lent_along(task, pool, &mut 0)
    }

    /// The same, but for what the donors lend whose bits in `seen` are set. Waits may form a circle.
    fn lent_along(&self, task: usize, pool: usize, seen: &mut u64) -> Option<usize> {
        let waits = |lock| {
            self.donors
                .iter()
                .any(|donor| donor.lock == lock && donor.task == task)
        };
        let mut most_urgent: Option<usize> = None;
        for (n, donor) in self.donors.iter().enumerate() {
            let lends = donor.pool == pool && (donor.owner == task || waits(donor.lock));
            if !lends || *seen & 1 << n != 0 {
                continue;
            }
            *seen |= 1 << n;
            let passed_on = self.lent_along(donor.task, pool, seen);
            let level = passed_on.map_or(donor.level, |passed_on| passed_on.min(donor.level));
            most_urgent = Some(most_urgent.map_or(level, |other| other.min(level)));
        }
        most_urgent
    }

    /// Returns the own word of a task whose present one is `word`.
    fn own_word(&self, task: usize, word: u64) -> u64 {
        let raised = self.raised.iter().find(|&&(raised, ..)| raised == task);
        raised.map_or(word, |&(_, own, _)| own)
    }
}

/// Returns true if some task lends its priority, or was raised.
#[inline]
pub(crate) fn any() -> bool {
    ANY.get() > 0 && process::generation() == 0
}

/// Notes that a task waits, or that it waits for another owner now.
pub(crate) fn waits(donor: Donor) {
    if process::generation() == 0 {
        LendingTable::change(|lines| lines.enter(donor));
    }
}

/// Notes that a task awaits the task that is `donor.lock` and has the policy word `word`, if it has something
/// to lend: if its own priority is more urgent, or one that is lent to it. Whoever awaited it before does so
/// no longer.
pub(crate) fn awaits(donor: Donor, word: u64, levels: usize) {
    if process::generation() != 0 || !any() && priority::level(word, levels) <= donor.level {
        return;
    }
    LendingTable::change(|lines| {
        if lines.donors.contains(&donor) {
            return;
        }
        let lent = lines.lent_to(donor.task, donor.pool);
        let level = lent.map_or(donor.level, |lent| lent.min(donor.level));
        if level < priority::level(lines.own_word(donor.lock, word), levels) {
            lines.enter(donor);
        } else {
            lines.leave(donor.lock, donor.place);
        }
    });
}

impl LendingTable {
    fn enter(&mut self, donor: Donor) {
        self.leave(donor.lock, donor.place);
        if self.donors.len() >= MOST {
            let donors = self.donors.iter().enumerate();
            match donors.max_by_key(|(_, other)| other.level) {
                Some((at, least)) if least.level > donor.level => self.donors.swap_remove(at),
                _ => return,
            };
        }
        self.donors.push(donor);
        self.changes = self.changes.wrapping_add(1);
    }

    fn end(&mut self, lock: usize, place: usize, owner: Option<usize>) {
        // It may not have had room here.
        self.leave(lock, place);
        if let Some(owner) = owner {
            let behind = self.donors.iter_mut().filter(|other| other.lock == lock);
            behind.for_each(|other| other.owner = owner);
        }
    }

    fn leave(&mut self, lock: usize, place: usize) -> Option<Donor> {
        let is_it = |donor: &Donor| (donor.lock, donor.place) == (lock, place);
        let index = self.donors.iter().position(is_it)?;
        Some(self.donors.swap_remove(index))
    }
}

/// Notes that a task waits no longer. If it has got the lock, those behind it wait for it: `owner` returns
/// its address then.
#[inline]
pub(crate) fn left(lock: usize, place: usize, owner: impl FnOnce() -> Option<usize>) {
    if any() {
        let owner = owner();
        LendingTable::change(|lines| lines.end(lock, place, owner));
    }
}

/// Notes that the owner of that lock has it no longer.
#[inline]
pub(crate) fn released(lock: usize) {
    if any() {
        LendingTable::change(|lines| {
            let waits = lines.donors.iter_mut().filter(|donor| donor.lock == lock);
            waits.for_each(|donor| donor.owner = 0);
        });
    }
}

/// Returns the most urgent level that is lent to a task of that pool.
#[cold]
pub(crate) fn lent_to(task: usize, pool: usize) -> Option<usize> {
    LINES.with(|lines| lines.lent_to(task, pool))
}

/// Returns the word with which a task of that pool is pushed, if a priority is lent to it that is more urgent
/// than its own.
#[cold]
pub(crate) fn raised(task: &TaskRef, pool: NonNull<PoolHeader>, levels: usize) -> Option<u64> {
    let (id, word) = (task.id_word(), task.policy_word());
    LendingTable::change(|lines| {
        let pool = pool.addr().get();
        let level = lines.lent_to(id, pool)?;
        if level >= priority::level(word, levels) {
            return None;
        }
        if !lines.raised.iter().any(|&(raised, ..)| raised == id) {
            lines.raised.push((id, word, pool));
        }
        Some(priority::keep(priority::word(level as u8), word))
    })
}

/// Returns the original word of a task that was taken from its queue, if it was raised there.
#[cold]
pub(crate) fn restored(task: &TaskRef) -> Option<u64> {
    let id = task.id_word();
    let own = LendingTable::change(|lines| {
        let index = lines.raised.iter().position(|&(raised, ..)| raised == id)?;
        Some(lines.raised.swap_remove(index).1)
    });
    own.map(|own| priority::keep(own, 0) | priority::own(task.policy_word()))
}

/// Forgets the tasks of a pool that ends.
#[cold]
pub(crate) fn forget(pool: NonNull<PoolHeader>) {
    if any() {
        let of_others = |&(.., pool_): &(usize, u64, usize)| pool_ != pool.addr().get();
        LendingTable::change(|lines| lines.raised.retain(of_others));
    }
}

/// The tasks of a pool to which a priority is lent.
pub(crate) struct Debtors(Vec<(usize, usize)>);

impl Debtors {
    /// Returns them if lines have changed since `seen`, which is then up to date.
    #[cold]
    pub(crate) fn changed(seen: &std::cell::Cell<usize>, pool: NonNull<PoolHeader>) -> Option<Self> {
        let pool = pool.addr().get();
        LINES.with(|lines| {
            if seen.replace(lines.changes) == lines.changes {
                return None;
            }
            let tasks = lines.donors.iter().flat_map(|donor| [donor.owner, donor.task]);
            let lent = tasks.filter_map(|task| Some((task, lines.lent_to(task, pool)?)));
            Some(Self(lent.collect())).filter(|debtors| !debtors.0.is_empty())
        })
    }

    /// Returns true if the task would be raised.
    pub(crate) fn has(&self, task: &TaskRef, levels: usize) -> bool {
        let (id, own) = (task.id_word(), priority::level(task.policy_word(), levels));
        self.0.iter().any(|&(debtor, level)| debtor == id && level < own)
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;

    fn donor(lock: usize, place: usize, task: usize, owner: usize, level: usize) -> Donor {
        let pool = 1;
        Donor {
            lock,
            place,
            task,
            owner,
            pool,
            level,
        }
    }

    fn lines(donors: &[Donor]) -> LendingTable {
        LendingTable {
            donors: donors.to_vec(),
            raised: Vec::new(),
            changes: 0,
        }
    }

    #[test]
    fn the_owner_and_those_in_line_have_the_most_urgent_priority_of_the_line() {
        let lines = lines(&[
            donor(10, 0, 2, 1, 2),
            donor(10, 1, 3, 1, 0),
            donor(20, 0, 5, 4, 1),
        ]);
        assert_eq!(lines.lent_to(1, 1), Some(0), "the owner");
        assert_eq!(lines.lent_to(2, 1), Some(0), "in front of the urgent one");
        assert_eq!(lines.lent_to(4, 1), Some(1), "of another lock");
        assert_eq!(lines.lent_to(6, 1), None, "has nothing to do with it");
        assert_eq!(lines.lent_to(1, 2), None, "of another pool");
    }

    #[test]
    fn a_crowd_of_less_urgent_tasks_leaves_room() {
        let mut lines = lines(&[]);
        for task in 0..2 * MOST {
            lines.enter(donor(10, task, 100 + task, 1, 2));
        }
        assert_eq!(lines.donors.len(), MOST);
        lines.enter(donor(20, 0, 3, 2, 0));
        lines.enter(donor(20, 1, 4, 2, 1));
        assert_eq!((lines.lent_to(2, 1), lines.donors.len()), (Some(0), MOST));
        // One that had no room gets the lock.
        lines.end(20, 7, Some(9));
        assert_eq!((lines.lent_to(2, 1), lines.lent_to(9, 1)), (None, Some(0)));
    }

    /// 1 has a lock for which 2 waits, which 3 awaits by its handle.
    #[test]
    fn what_is_lent_is_passed_on() {
        let mut lines = lines(&[donor(10, 0, 2, 1, 2), donor(2, 0, 3, 2, 0)]);
        assert_eq!(
            [1, 2, 4].map(|task| lines.lent_to(task, 1)),
            [Some(0), Some(0), None]
        );
        // A deadlock: 3 has what 1 waits for.
        lines.enter(donor(20, 0, 1, 3, 1));
        assert_eq!([1, 2, 3].map(|task| lines.lent_to(task, 1)), [Some(0); 3]);
    }

    #[test]
    fn who_leaves_lends_no_more() {
        let mut lines = lines(&[donor(10, 0, 2, 1, 0), donor(20, 0, 2, 1, 1)]);
        assert!(lines.leave(10, 1).is_none());
        assert!(lines.leave(10, 0).is_some());
        assert_eq!(lines.lent_to(1, 1), Some(1));
        assert!(lines.leave(20, 0).is_some());
        assert_eq!(lines.lent_to(1, 1), None);
    }
}
