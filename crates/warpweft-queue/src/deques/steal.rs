//! The steps of thieves, each under the locks of the sets concerned.

use super::places::NOWHERE;
use super::set::{Ends, Member, Set, Standing};
use super::{Active, Deques};
use crate::{Steal, Thief, Word};
use warpweft_platform::atomic::{Ordering, spin_loop};

/// The outcome of an attempt to steal from a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum StealOutcome<T> {
    /// The set was empty.
    Nothing,
    /// The owner of the deque was faster, or was just growing it. Another attempt is worthwhile.
    Lost,
    /// The oldest task of a deque.
    Stolen {
        /// The task.
        task: T,
        /// True if it was the last task, and the set lost the deque: see [`Deques::rebalance`].
        emptied: bool,
    },
    /// The whole deque was taken over: it is the thief's active one, and the set lost it.
    TakenOver {
        /// Its youngest task.
        task: T,
    },
}

impl<T: Word> Deques<T> {
    /// Steals from set number `victim`. `choose` is given the number of stealable deques and picks one. A
    /// thief that has no tasks takes over a muggable deque. From any other deque the oldest task is stolen; a
    /// resumable one then becomes muggable if it is not empty.
    ///
    /// The active deque of the set's worker has the last number. An empty set costs two locks.
    ///
    /// # Panics
    ///
    /// If there is no set of this number, or `choose` returns a number that is not less than its argument.
    pub fn steal_from(
        &self,
        thief: &mut Active<T>,
        victim: usize,
        choose: impl FnOnce(usize) -> usize,
    ) -> StealOutcome<T> {
        let (mut own, mut other) = self.lock_two(thief.worker, victim);
        let set = other.as_mut().unwrap_or(&mut own);
        let members = set.members.len();
        let stealable = members + usize::from(set.active_len() > 0);
        if stealable == 0 {
            return StealOutcome::Nothing;
        }
        let chosen = choose(stealable);
        if chosen == members {
            return match set.active.as_ref().map(Thief::steal_one) {
                Some(Steal::Taken { first: task, .. }) => StealOutcome::Stolen {
                    task,
                    emptied: set.active_len() == 0,
                },
                // A moment ago it had tasks: another attempt may see another deque.
                _ => StealOutcome::Lost,
            };
        }
        if set.members[chosen].standing != Standing::Muggable || !thief.is_empty() {
            let (steal_from, emptied) = self.steal_top(victim, set, chosen);
            match emptied {
                // The thief needs a deque for what its task will push.
                Some((stack, thieves)) if thief.stack.is_none() => {
                    (thief.stack, own.active) = (Some(stack), Some(thieves));
                }
                Some((stack, _)) => own.keep(stack),
                None => {}
            }
            return steal_from;
        }
        let Member { ends, woken, .. } = self.leave(victim, set, chosen);
        let (stack, thieves) = ends.unzip();
        own.active = thieves;
        let former = std::mem::replace(&mut thief.stack, stack);
        if let Some(former) = former {
            own.keep(former);
        }
        self.has_moved();
        match woken.or_else(|| thief.pop()) {
            Some(task) => StealOutcome::TakenOver { task },
            None => StealOutcome::Lost,
        }
    }

    /// Takes the oldest task of the deque in set number `of` whose turn it is, muggable or not. So in time
    /// every deque without an owner has its turn, even if thieves choose others. A set without such deques
    /// costs a load.
    ///
    /// # Panics
    ///
    /// If there is no set of this number.
    pub fn sweep(&self, of: usize) -> StealOutcome<T> {
        if self.slots[of].len() == 0 {
            return StealOutcome::Nothing;
        }
        let mut set = self.lock(of);
        match set.next_in_turn() {
            Some(member) => {
                let (steal_from, emptied) = self.steal_top(of, &mut set, member);
                if let Some((stack, _)) = emptied {
                    set.keep(stack);
                }
                steal_from
            }
            None => StealOutcome::Nothing,
        }
    }

    /// Moves a deque without an owner from set number `giver` to set number `loser`, which has lost a deque;
    /// `choose` picks it. Returns true if there was one.
    ///
    /// # Panics
    ///
    /// If there is no set of one of these numbers, or `choose` returns a number that is not less than its
    /// argument.
    /// given.
    pub fn rebalance(&self, loser: usize, giver: usize, choose: impl FnOnce(usize) -> usize) -> bool {
        if loser == giver || self.slots[giver].len() == 0 {
            return false;
        }
        let (mut to, from) = self.lock_two(loser, giver);
        let Some(mut from) = from.filter(|from| !from.members.is_empty()) else {
            return false;
        };
        let chosen = choose(from.members.len());
        let deque = self.leave(giver, &mut from, chosen);
        self.enter(loser, &mut to, deque);
        self.has_moved();
        true
    }

    /// Looks at every set, in their order, until it finds a task, and returns the set's number with it.
    /// `None`: each deque was seen without tasks during the call, even if it was moved meanwhile. A
    /// concurrent push may be overlooked.
    pub fn find(&self, thief: &mut Active<T>) -> Option<(usize, StealOutcome<T>)> {
        loop {
            // Ordering: Relaxed. If a deque moves from a set not yet seen to one seen already, then the lock
            // of the latter orders this load before the move's count, and the lock of the former that count
            // before the load below.
            let moves = self.moves.load(Ordering::Relaxed);
            for victim in 0..self.slots.len() {
                loop {
                    match self.steal_from(thief, victim, |stealable| stealable - 1) {
                        StealOutcome::Nothing => break,
                        StealOutcome::Lost => spin_loop(),
                        found => return Some((victim, found)),
                    }
                }
            }
            // Ordering: Relaxed, as above.
            if self.moves.load(Ordering::Relaxed) == moves {
                return None;
            }
        }
    }

    /// Steals the top of a member, and changes its state. If that was the last task, only the ends of the
    /// deque's stack are left.
    fn steal_top(&self, at: usize, set: &mut Set<T>, member: usize) -> (StealOutcome<T>, Option<Ends<T>>) {
        let deque = &mut set.members[member];
        let Some(task) = deque.pop_top() else {
            return (StealOutcome::Lost, None);
        };
        if deque.len() > 0 {
            if deque.standing == Standing::Resumable {
                deque.standing = Standing::Muggable;
            }
            let emptied = false;
            return (StealOutcome::Stolen { task, emptied }, None);
        }
        let deque = self.leave(at, set, member);
        if let Standing::Suspended(index) = deque.standing {
            self.place_of(index).moved(index, NOWHERE, 0);
        }
        let emptied = true;
        (StealOutcome::Stolen { task, emptied }, deque.ends)
    }
}
