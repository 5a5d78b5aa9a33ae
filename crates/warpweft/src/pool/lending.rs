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
//!   at each look at all queues, and before a task while queues are short
//!                     ──▶ if a wait has come: such tasks are taken out of the queues, and pushed again
//! ```
//!
//! # Invariants
//!
//! - Addresses of tasks are compared and never followed: an owner may have ended. If another task has its
//!   address by then, that one runs too early, until the wait is over.
//! - A word that was raised is in `raised` until the task is taken to run or to end.
//! - `LENT`, `RAISED` and `CHANGES` follow the tables, under their lock. They are hints. A push that misses a
//!   priority finds its task in a queue, from where it is taken out. Pools whose policy has no inherited
//!   priorities never look at them.
//! - Nothing is looked up for a task that is as urgent as the most urgent of those that wait. So tasks of one
//!   priority that wait for each other pay for an entry only.
//! - Under the table's lock nothing is called that may wait, and no atomic is read that the model checkers
//!   see: a schedule that changes tasks there would block all of them.
//! - In a forked child nothing is lent: a thread that stayed in the parent may have the lock.

mod wait_table;

pub(crate) use self::wait_table::Lender;
use self::wait_table::{NO_LEVEL, WaitTable};
use std::cell::Cell;
use std::ptr::NonNull;
use warpweft_platform::counter::Gauge;
use warpweft_platform::process;
use warpweft_platform::sync::StaticMutex;
use warpweft_policy::{TaskRef, priority};
use warpweft_task::pool::PoolHeader;

struct LendingTable {
    waits: WaitTable,
    /// The addresses of tasks in queues, their own words, and the addresses of their pools.
    raised: Vec<(usize, u64, usize)>,
    changes: u64,
}

/// [`NO_LEVEL`] minus the most urgent level that is lent, so more is more urgent; 0 if none is.
static LENT: Gauge = Gauge::new();
/// How many tasks are raised.
static RAISED: Gauge = Gauge::new();
/// How often waits have come.
static CHANGES: Gauge = Gauge::new();
static TABLE: StaticMutex<LendingTable> = StaticMutex::new(LendingTable {
    waits: WaitTable::new(),
    raised: Vec::new(),
    changes: 0,
});

impl LendingTable {
    /// Changes the tables, and says what is in them then.
    fn change<R>(f: impl FnOnce(&mut Self) -> R) -> R {
        TABLE.with(|table| {
            let result = f(table);
            let lent = NO_LEVEL - table.waits.most_urgent();
            let hints = [
                (&LENT, lent as u64),
                (&RAISED, table.raised.len() as u64),
                (&CHANGES, table.changes),
            ];
            // All workers read them before each task: they are written only if they change.
            let changed = hints.into_iter().filter(|(hint, value)| hint.get() != *value);
            changed.for_each(|(hint, value)| hint.set(value));
            result
        })
    }

    fn enter(&mut self, lender: Lender) {
        if self.waits.enter(lender) {
            self.changes = self.changes.wrapping_add(1);
        }
    }

    /// Returns the own word of a task whose present one is `word`.
    fn own_word(&self, task: usize, word: u64) -> u64 {
        let raised = self.raised.iter().find(|&&(raised, ..)| raised == task);
        raised.map_or(word, |&(_, own, _)| own)
    }
}

/// Returns true if some task lends its priority.
#[inline]
fn lends() -> bool {
    LENT.get() > 0 && process::generation() == 0
}

/// Returns true if a task lends a priority that is more urgent than this level.
#[inline]
pub(crate) fn lends_above(level: usize) -> bool {
    is_above(LENT.get(), level) && process::generation() == 0
}

/// Returns true if `lent`, in the form of [`LENT`], is more urgent than that level.
#[inline]
fn is_above(lent: u64, level: usize) -> bool {
    lent > NO_LEVEL.saturating_sub(level) as u64
}

/// Returns true if some task was raised.
#[inline]
pub(crate) fn has_raised() -> bool {
    RAISED.get() > 0 && process::generation() == 0
}

/// Notes that a task waits, or that it waits for another owner now.
pub(crate) fn waits(lender: Lender) {
    if process::generation() == 0 {
        LendingTable::change(|table| table.enter(lender));
    }
}

/// Notes that a task awaits the task that is `lender.lock` and has the policy word `word`, if it has
/// something to lend: if its own priority is more urgent, or one that is lent to it. Whoever awaited it
/// before does so no longer.
pub(crate) fn awaits(lender: Lender, word: u64, levels: usize) {
    let may_lend = lends() || has_raised() || lender.level < priority::level(word, levels);
    if process::generation() != 0 || !may_lend {
        return;
    }
    LendingTable::change(|table| {
        if table.waits.contains(&lender) {
            return;
        }
        let lent = table.waits.lent_to(lender.task, lender.pool);
        let level = lent.map_or(lender.level, |lent| lent.min(lender.level));
        if level < priority::level(table.own_word(lender.lock, word), levels) {
            table.enter(lender);
        } else {
            table.waits.leave(lender.lock, lender.place);
        }
    });
}

/// Notes that a task waits no longer. If it has got the lock, those behind it wait for it: `owner` returns
/// its address then.
#[inline]
pub(crate) fn left(lock: usize, place: usize, owner: impl FnOnce() -> Option<usize>) {
    if lends() {
        let owner = owner();
        LendingTable::change(|table| {
            // It may not have had room.
            table.waits.leave(lock, place);
            if let Some(owner) = owner {
                table.waits.set_owner(lock, owner);
            }
        });
    }
}

/// Notes that the owner of that lock has it no longer.
#[inline]
pub(crate) fn released(lock: usize) {
    if lends() {
        LendingTable::change(|table| table.waits.set_owner(lock, 0));
    }
}

/// Returns the most urgent level that is lent to a task of that pool.
#[cold]
pub(crate) fn lent_to(task: usize, pool: usize) -> Option<usize> {
    TABLE.with(|table| table.waits.lent_to(task, pool))
}

/// Returns the word with which a task of that pool is pushed, if a priority is lent to it that is more urgent
/// than its own.
#[cold]
pub(crate) fn raised(task: &TaskRef, pool: NonNull<PoolHeader>, levels: usize) -> Option<u64> {
    let (id, word) = (task.id_word(), task.policy_word());
    LendingTable::change(|table| {
        let pool = pool.addr().get();
        let level = table.waits.lent_to(id, pool)?;
        if level >= priority::level(word, levels) {
            return None;
        }
        if !table.raised.iter().any(|&(raised, ..)| raised == id) {
            table.raised.push((id, word, pool));
        }
        Some(priority::keep(priority::word(level as u8), word))
    })
}

/// Returns the original word of a task that was taken from its queue, if it was raised there.
#[cold]
pub(crate) fn restored(task: &TaskRef) -> Option<u64> {
    let id = task.id_word();
    let own = LendingTable::change(|table| {
        let index = table.raised.iter().position(|&(raised, ..)| raised == id)?;
        Some(table.raised.swap_remove(index).1)
    });
    own.map(|own| priority::keep(own, 0) | priority::own(task.policy_word()))
}

/// Forgets the tasks of a pool that ends.
#[cold]
pub(crate) fn forget(pool: NonNull<PoolHeader>) {
    if has_raised() {
        let of_others = |&(.., pool_): &(usize, u64, usize)| pool_ != pool.addr().get();
        LendingTable::change(|table| table.raised.retain(of_others));
    }
}

/// The tasks of a pool to which a priority is lent, by their addresses, and the levels.
pub(crate) struct Borrowers(Vec<(usize, usize)>);

impl Borrowers {
    /// Returns true if waits may have come since `seen`.
    #[inline]
    pub(crate) fn may_have_changed(seen: &Cell<u64>) -> bool {
        CHANGES.get() != seen.get()
    }

    /// Returns them if waits have come since `seen`, which is then up to date.
    #[cold]
    pub(crate) fn changed(seen: &Cell<u64>, pool: NonNull<PoolHeader>) -> Option<Self> {
        let borrowers = TABLE.with(|table| {
            let is_new = seen.replace(table.changes) != table.changes;
            is_new.then(|| table.waits.borrowers(pool.addr().get()))
        });
        let mut borrowers = borrowers.filter(|borrowers| !borrowers.is_empty())?;
        borrowers.sort_unstable();
        // The most urgent level of each.
        borrowers.dedup_by_key(|&mut (task, _)| task);
        Some(Self(borrowers))
    }

    /// Returns true if the task would be raised.
    pub(crate) fn has(&self, task: &TaskRef, levels: usize) -> bool {
        let (id, own) = (task.id_word(), priority::level(task.policy_word(), levels));
        let found = self.0.binary_search_by_key(&id, |&(borrower, _)| borrower);
        found.is_ok_and(|at| self.0[at].1 < own)
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{NO_LEVEL, is_above};

    #[test]
    fn only_what_is_more_urgent_is_above() {
        for level in 0..255 {
            let lent = (NO_LEVEL - level) as u64;
            assert!(!is_above(lent, level) && is_above(lent, level + 1), "{level}");
            assert!(level == 0 || !is_above(lent, level - 1), "{level}");
            assert!(!is_above(0, level), "nothing is lent");
        }
    }
}
