//! The deques of ProWS, their states, and the stealable sets that they lie in.
//!
//! # Invariants
//!
//! - A deque is in one stealable set at most, and `set` says in whose.
//! - A deque that is neither active nor suspended has tasks, and is in a set.

use std::collections::{BTreeMap, VecDeque};
use warpweft_policy::{Cx, TaskRef};

/// Number of a deque, from 1. It travels in the word of the task that suspended the deque; 0 is none.
pub(super) type Id = u64;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum State {
    Active,
    Suspended,
    Resumable,
    Muggable,
}

pub(super) struct Deque {
    pub(super) tasks: VecDeque<TaskRef>,
    pub(super) state: State,
    /// Whose stealable set it is in.
    set: Option<usize>,
}

pub(super) struct Deques {
    pub(super) all: BTreeMap<Id, Deque>,
    pub(super) sets: Vec<Vec<Id>>,
    last: Id,
}

impl Deques {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            all: BTreeMap::new(),
            sets: vec![Vec::new(); workers],
            last: 0,
        }
    }

    pub(super) fn create(&mut self, owner: usize) -> Id {
        self.last += 1;
        self.all.insert(
            self.last,
            Deque {
                tasks: VecDeque::new(),
                state: State::Active,
                set: None,
            },
        );
        self.enter(self.last, owner);
        self.last
    }

    pub(super) fn enter(&mut self, id: Id, worker: usize) {
        self.leave(id);
        self.all.entry(id).and_modify(|deque| deque.set = Some(worker));
        self.sets[worker].push(id);
    }

    pub(super) fn leave(&mut self, id: Id) {
        if let Some(worker) = self.all.get_mut(&id).and_then(|deque| deque.set.take()) {
            self.sets[worker].retain(|&other| other != id);
        }
    }

    /// The set of `worker` has lost a deque: one of a random other set takes its place.
    pub(super) fn rebalance(&mut self, worker: usize, cx: &Cx<'_>) {
        let other = cx.random(self.sets.len());
        let id = self.sets[other].get(cx.random(self.sets[other].len())).copied();
        if let Some(id) = id.filter(|id| other != worker && self.all[id].state != State::Active) {
            self.enter(id, worker);
        }
    }

    /// The oldest task of a deque; the deque changes state, leaves its set or goes, as the steal procedure says.
    pub(super) fn steal_top(&mut self, id: Id, cx: &Cx<'_>) -> Option<TaskRef> {
        let deque = self.all.get_mut(&id)?;
        let task = deque.tasks.pop_front();
        if deque.tasks.is_empty() {
            let (set, state) = (deque.set, deque.state);
            self.leave(id);
            if !matches!(state, State::Suspended | State::Active) {
                self.all.remove(&id);
            }
            if let Some(worker) = set {
                self.rebalance(worker, cx);
            }
        } else if deque.state == State::Resumable {
            deque.state = State::Muggable;
        }
        task
    }

    /// The task that the active deque's owner ran waits, and the deque with it.
    pub(super) fn suspend(&mut self, id: Id, cx: &Cx<'_>) {
        self.leave(id);
        if let Some(deque) = self.all.get_mut(&id) {
            deque.state = State::Suspended;
            if !deque.tasks.is_empty() {
                self.enter(id, cx.random(self.sets.len()));
            }
        }
    }

    /// A thief takes the whole deque: it becomes its active one. Gives its newest task.
    pub(super) fn mug(&mut self, id: Id, thief: usize, cx: &Cx<'_>) -> Option<TaskRef> {
        let victim = self.all.get(&id)?.set;
        self.enter(id, thief);
        if let Some(victim) = victim {
            self.rebalance(victim, cx);
        }
        let deque = self.all.get_mut(&id)?;
        deque.state = State::Active;
        deque.tasks.pop_back()
    }

    /// The oldest deque of this kind that has tasks.
    pub(super) fn find(&self, kind: impl Fn(&Deque) -> bool) -> Option<Id> {
        let found = self
            .all
            .iter()
            .find(|(_, deque)| !deque.tasks.is_empty() && kind(deque));
        found.map(|(&id, _)| id)
    }

    /// The deque of a task that was suspended has no longer to wait for it.
    pub(super) fn resume(&mut self, id: Id, task: Option<TaskRef>, set: usize) {
        if let Some(deque) = self.all.get_mut(&id) {
            deque.tasks.extend(task);
            deque.state = State::Resumable;
            self.settle(id, set);
        }
    }

    /// A deque that nobody owns and that waits for nothing is in a set if it has tasks; else it goes.
    fn settle(&mut self, id: Id, set: usize) {
        let deque = &self.all[&id];
        if deque.tasks.is_empty() {
            self.leave(id);
            self.all.remove(&id);
        } else if deque.set.is_none() {
            self.enter(id, set);
        }
    }
}
