//! The waits that lend priorities, and which priority a task is lent by all of them together.
//!
//! ```text
//!   lender n:  task ── waits for ──▶ lock ── belongs to ──▶ owner
//!             line[n]   the lenders that wait for the same lock, n among them
//!             same[n]   the lenders that are the same task, n among them
//!             owned[n]  the lenders that wait for what n's task has
//! ```
//!
//! A set of lenders is a word of 64 bits, so what is passed on from wait to wait is found in a few steps for
//! each lender. To enter or to remove one looks at the words of all of them, which are in arrays for that.
//!
//! # Invariants
//!
//! - A set has bits of present lenders only, and what the picture says is true of it.
//! - `most_urgent` is the least level of a present lender, or [`NO_LEVEL`]; `urgent` are the lenders on it.
//! - 0 is no task.

/// How many waits lend at a time. Of more, the most urgent ones do.
pub(super) const MOST: usize = u64::BITS as usize;
/// Less urgent than any level: there are at most 255.
pub(super) const NO_LEVEL: usize = 256;

/// A task that waits for a lock, or for another task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lender {
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

/// See the [module](self).
#[derive(Debug)]
pub(super) struct WaitTable {
    present: u64,
    most_urgent: usize,
    urgent: u64,
    locks: Words,
    places: Words,
    tasks: Words,
    owners: Words,
    pools: Words,
    levels: Words,
    line: Sets,
    same: Sets,
    owned: Sets,
}

/// A word of each lender.
type Words = [usize; MOST];
/// A set for each lender.
type Sets = [u64; MOST];

/// Returns the numbers of the words that are `word`.
#[inline]
fn equal(words: &Words, word: usize) -> u64 {
    let mut set = 0;
    for (number, &other) in words.iter().enumerate() {
        set |= u64::from(other == word) << number;
    }
    set
}

/// Returns the numbers of the lenders in a set.
fn each(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let number = set.trailing_zeros() as usize;
        set &= set.checked_sub(1)?;
        Some(number)
    })
}

impl WaitTable {
    pub(super) const fn new() -> Self {
        Self {
            present: 0,
            most_urgent: NO_LEVEL,
            urgent: 0,
            locks: [0; MOST],
            places: [0; MOST],
            tasks: [0; MOST],
            owners: [0; MOST],
            pools: [0; MOST],
            levels: [0; MOST],
            line: [0; MOST],
            same: [0; MOST],
            owned: [0; MOST],
        }
    }

    /// Returns the most urgent level of a lender; [`NO_LEVEL`] if there is none.
    pub(super) fn most_urgent(&self) -> usize {
        self.most_urgent
    }

    pub(super) fn contains(&self, lender: &Lender) -> bool {
        self.find(lender.lock, lender.place)
            .is_some_and(|number| self.lender(number) == *lender)
    }

    /// Enters a lender in the place of the one that had its place in the list. If there is no room, a lender
    /// leaves that is less urgent than this one. Returns `false` if none is.
    pub(super) fn enter(&mut self, lender: Lender) -> bool {
        self.leave(lender.lock, lender.place);
        if self.present == u64::MAX {
            let least = each(self.present).max_by_key(|&number| self.levels[number]);
            match least.filter(|&number| self.levels[number] > lender.level) {
                Some(number) => self.remove(number),
                None => return false,
            }
        }
        self.insert(self.present.trailing_ones() as usize, lender);
        true
    }

    /// Removes the lender with that place in that list, if it is here. Returns true if it was.
    pub(super) fn leave(&mut self, lock: usize, place: usize) -> bool {
        let found = self.find(lock, place);
        found.inspect(|&number| self.remove(number)).is_some()
    }

    /// Notes who has the lock now; 0 if that is not known.
    pub(super) fn set_owner(&mut self, lock: usize, owner: usize) {
        let line = equal(&self.locks, lock) & self.present;
        if line == 0 {
            return;
        }
        each(line).for_each(|number| self.owners[number] = owner);
        self.owned.iter_mut().for_each(|owned| *owned &= !line);
        each(self.of_task(owner)).for_each(|number| self.owned[number] |= line);
    }

    /// Returns the most urgent level that is lent to a task of that pool.
    pub(super) fn lent_to(&self, task: usize, pool: usize) -> Option<usize> {
        if task == 0 {
            return None;
        }
        let owned = equal(&self.owners, task) & self.present;
        self.lent_by(owned | self.lines_of(self.of_task(task)), pool)
    }

    /// Returns the tasks of that pool to which a level is lent that is more urgent than their own, with that
    /// level. The own levels of owners are not known: they are all there. A task may be there more than once.
    pub(super) fn borrowers(&self, pool: usize) -> Vec<(usize, usize)> {
        let mut borrowers = Vec::new();
        let mut rest = self.present;
        while rest != 0 {
            let line = self.line[rest.trailing_zeros() as usize];
            rest &= !line;
            let mut last_owner = 0;
            for number in each(line) {
                let (owner, task) = (self.owners[number], self.tasks[number]);
                if owner != std::mem::replace(&mut last_owner, owner) {
                    borrowers.extend(self.lent_to(owner, pool).map(|lent| (owner, lent)));
                }
                let level = self.levels[number];
                if level > self.most_urgent {
                    let lent = self.lent_by(self.lenders_of(number), pool);
                    borrowers.extend(lent.filter(|&lent| lent < level).map(|lent| (task, lent)));
                }
            }
        }
        borrowers
    }

    /// Returns the most urgent level among these lenders, and those that lend to them. Waits may form a
    /// circle.
    fn lent_by(&self, mut pending: u64, pool: usize) -> Option<usize> {
        let (mut seen, mut lent) = (0, None);
        while pending != 0 {
            // Nothing is more urgent than these.
            if each(pending & self.urgent).any(|number| self.pools[number] == pool) {
                return Some(self.most_urgent);
            }
            let number = pending.trailing_zeros() as usize;
            seen |= 1 << number;
            if self.pools[number] == pool {
                let level = self.levels[number];
                lent = Some(lent.map_or(level, |other: usize| other.min(level)));
                pending |= self.lenders_of(number);
            }
            pending &= !seen;
        }
        lent
    }

    /// Returns the lenders that lend to one: those that wait for what it has, and those in the same lines.
    fn lenders_of(&self, number: usize) -> u64 {
        self.owned[number] | self.lines_of(self.same[number])
    }

    /// Returns the lenders in the same lines as those of a set.
    fn lines_of(&self, set: u64) -> u64 {
        each(set).fold(0, |lines, number| lines | self.line[number])
    }

    /// Returns the lenders that are that task.
    fn of_task(&self, task: usize) -> u64 {
        match task {
            0 => 0,
            task => equal(&self.tasks, task) & self.present,
        }
    }

    fn lender(&self, number: usize) -> Lender {
        Lender {
            lock: self.locks[number],
            place: self.places[number],
            task: self.tasks[number],
            owner: self.owners[number],
            pool: self.pools[number],
            level: self.levels[number],
        }
    }

    fn find(&self, lock: usize, place: usize) -> Option<usize> {
        each(equal(&self.locks, lock) & self.present).find(|&number| self.places[number] == place)
    }

    fn insert(&mut self, number: usize, lender: Lender) {
        let bit = 1 << number;
        self.present |= bit;
        self.locks[number] = lender.lock;
        self.places[number] = lender.place;
        self.tasks[number] = lender.task;
        self.owners[number] = lender.owner;
        self.pools[number] = lender.pool;
        self.levels[number] = lender.level;
        if lender.level < self.most_urgent {
            (self.most_urgent, self.urgent) = (lender.level, 0);
        }
        if lender.level == self.most_urgent {
            self.urgent |= bit;
        }
        let line = equal(&self.locks, lender.lock) & self.present;
        let same = self.of_task(lender.task) | bit;
        self.line[number] = line;
        self.same[number] = same;
        self.owned[number] = match lender.task {
            0 => 0,
            task => equal(&self.owners, task) & self.present,
        };
        each(line).for_each(|other| self.line[other] |= bit);
        each(same).for_each(|other| self.same[other] |= bit);
        each(self.of_task(lender.owner)).for_each(|other| self.owned[other] |= bit);
    }

    fn remove(&mut self, number: usize) {
        let bit = 1 << number;
        self.present &= !bit;
        each(self.line[number]).for_each(|other| self.line[other] &= !bit);
        each(self.same[number]).for_each(|other| self.same[other] &= !bit);
        each(self.of_task(self.owners[number])).for_each(|other| self.owned[other] &= !bit);
        self.urgent &= !bit;
        if self.urgent == 0 {
            let levels = each(self.present).map(|number| self.levels[number]);
            self.most_urgent = levels.min().unwrap_or(NO_LEVEL);
            self.urgent = equal(&self.levels, self.most_urgent) & self.present;
        }
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;
    use warpweft_platform::random::Rng;

    const POOL: usize = 1;

    fn lender(lock: usize, place: usize, task: usize, owner: usize, level: usize) -> Lender {
        Lender {
            lock,
            place,
            task,
            owner,
            pool: POOL,
            level,
        }
    }

    fn table(lenders: &[Lender]) -> WaitTable {
        let mut table = WaitTable::new();
        assert!(lenders.iter().all(|&lender| table.enter(lender)));
        table
    }

    fn count(table: &WaitTable) -> usize {
        table.present.count_ones() as usize
    }

    #[test]
    fn the_owner_and_those_in_line_have_the_most_urgent_priority_of_the_line() {
        let table = table(&[
            lender(10, 0, 2, 1, 2),
            lender(10, 1, 3, 1, 0),
            lender(20, 0, 5, 4, 1),
        ]);
        assert_eq!(table.lent_to(1, POOL), Some(0), "the owner");
        assert_eq!(table.lent_to(2, POOL), Some(0), "in front of the urgent one");
        assert_eq!(table.lent_to(4, POOL), Some(1), "of another lock");
        assert_eq!(table.lent_to(6, POOL), None, "has nothing to do with it");
        assert_eq!(table.lent_to(1, 2), None, "of another pool");
    }

    #[test]
    fn a_crowd_of_less_urgent_tasks_leaves_room() {
        let mut table = table(&[]);
        for task in 0..2 * MOST {
            assert_eq!(table.enter(lender(10, task, 100 + task, 1, 2)), task < MOST);
        }
        assert_eq!(count(&table), MOST);
        assert!(table.enter(lender(20, 0, 3, 2, 0)));
        assert!(table.enter(lender(20, 1, 4, 2, 1)));
        assert_eq!((table.lent_to(2, POOL), count(&table)), (Some(0), MOST));
        // One that had no room gets the lock.
        assert!(!table.leave(20, 7));
        table.set_owner(20, 9);
        assert_eq!((table.lent_to(2, POOL), table.lent_to(9, POOL)), (None, Some(0)));
    }

    /// 1 has a lock for which 2 waits, which 3 awaits by its handle.
    #[test]
    fn what_is_lent_is_passed_on() {
        let mut table = table(&[lender(10, 0, 2, 1, 2), lender(2, 0, 3, 2, 0)]);
        assert_eq!(
            [1, 2, 4].map(|task| table.lent_to(task, POOL)),
            [Some(0), Some(0), None]
        );
        // A deadlock: 3 has what 1 waits for.
        assert!(table.enter(lender(20, 0, 1, 3, 1)));
        assert_eq!([1, 2, 3].map(|task| table.lent_to(task, POOL)), [Some(0); 3]);
        // More urgent than all, and of another pool: what is lent is looked for to the end of the circle.
        assert!(table.enter(Lender {
            pool: 2,
            ..lender(30, 0, 7, 8, 0)
        }));
        table.leave(2, 0);
        assert!(table.enter(lender(2, 0, 3, 2, 1)));
        assert_eq!([1, 2, 3].map(|task| table.lent_to(task, POOL)), [Some(1); 3]);
    }

    #[test]
    fn who_leaves_lends_no_more() {
        let mut table = table(&[lender(10, 0, 2, 1, 0), lender(20, 0, 2, 1, 1)]);
        assert!(!table.leave(10, 1));
        assert!(table.leave(10, 0));
        assert_eq!((table.lent_to(1, POOL), table.most_urgent()), (Some(1), 1));
        assert!(table.leave(20, 0));
        assert_eq!((table.lent_to(1, POOL), table.most_urgent()), (None, NO_LEVEL));
    }

    /// What is lent, by the definition: from wait to wait, until nothing is added.
    fn lent_by_definition(waiting: &[Lender], task: usize, pool: usize) -> Option<usize> {
        let mut lenders: Vec<&Lender> = Vec::new();
        let mut borrowers = vec![task];
        loop {
            let waits = |lock| {
                let is_borrower = |lender: &Lender| lender.lock == lock && borrowers.contains(&lender.task);
                waiting.iter().any(is_borrower)
            };
            let lends = |lender: &&Lender| {
                lender.pool == pool && (borrowers.contains(&lender.owner) || waits(lender.lock))
            };
            let all: Vec<&Lender> = waiting.iter().filter(lends).collect();
            borrowers = std::iter::once(task)
                .chain(all.iter().map(|lender| lender.task))
                .collect();
            if all.len() == lenders.len() {
                return all.iter().map(|lender| lender.level).min();
            }
            lenders = all;
        }
    }

    #[test]
    fn it_agrees_with_the_definition() {
        let mut random = Rng::seeded(11);
        for round in 0..200 {
            let (tasks, locks) = (2 + random.below(12), 1 + random.below(6));
            // In some rounds there are more waits than there is room for.
            let places = if round % 10 == 0 { 40 } else { 4 };
            let (mut table, mut lenders) = (WaitTable::new(), Vec::<Lender>::new());
            for _ in 0..15 * places {
                let (lock, place) = (10 + random.below(locks), random.below(places));
                match random.below(8) {
                    0..5 => {
                        let (task, owner) = (1 + random.below(tasks), random.below(tasks + 1));
                        let new = Lender {
                            pool: POOL + random.below(8) / 7,
                            ..lender(lock, place, task, owner, random.below(4))
                        };
                        let entered = table.enter(new);
                        lenders.retain(|old| (old.lock, old.place) != (lock, place));
                        lenders.push(new);
                        // Of too many the least urgent one leaves, whichever of its equals that is.
                        if lenders.len() > MOST {
                            let least = lenders.iter().map(|lender| lender.level).max();
                            let left = lenders.iter().position(|lender| !table.contains(lender));
                            let left = lenders.swap_remove(left.expect("one has left"));
                            assert_eq!((Some(left.level), entered), (least, left != new));
                        }
                        assert!(lenders.iter().all(|lender| table.contains(lender)));
                    }
                    5..7 => {
                        let before = lenders.len();
                        lenders.retain(|old| (old.lock, old.place) != (lock, place));
                        assert_eq!(table.leave(lock, place), lenders.len() < before);
                    }
                    _ => {
                        let owner = random.below(tasks + 1);
                        table.set_owner(lock, owner);
                        let line = lenders.iter_mut().filter(|lender| lender.lock == lock);
                        line.for_each(|lender| lender.owner = owner);
                    }
                }
                let least = lenders.iter().map(|lender| lender.level).min();
                assert_eq!(table.most_urgent(), least.unwrap_or(NO_LEVEL));
                let borrowers = table.borrowers(POOL);
                for task in 1..=tasks {
                    let lent = lent_by_definition(&lenders, task, POOL);
                    assert_eq!(
                        table.lent_to(task, POOL),
                        lent,
                        "round {round}: {task} of {lenders:?}"
                    );
                    let owns = lenders.iter().any(|lender| lender.owner == task);
                    let is_below =
                        |lender: &Lender| lender.task == task && lent.is_some_and(|lent| lent < lender.level);
                    let level = borrowers
                        .iter()
                        .find(|&&(borrower, _)| borrower == task)
                        .map(|&(_, level)| level);
                    let expected = lent.filter(|_| owns || lenders.iter().any(is_below));
                    assert!(
                        level == expected,
                        "round {round}: {task} of {lenders:?}: {level:?}"
                    );
                }
            }
        }
    }
}
