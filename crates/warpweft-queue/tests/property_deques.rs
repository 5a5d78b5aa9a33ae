//! The deques of proactive work stealing, used by one thread, behave like the model below, and every task
//! comes out once.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;
use support::drops::{Counted, Drops};
use warpweft_queue::{Active, CapacityError, DequeState, DequeView, Deques, StealOutcome};

const WORKERS: usize = 3;

/// More than any history makes.
const TASKS: usize = 1000;

#[derive(Clone, Copy, Debug)]
enum Op {
    Push(usize),
    PushMany(usize, usize),
    Pop(usize),
    PopTop(usize),
    Suspend(usize, usize),
    Resume(usize, usize),
    Abandon(usize),
    /// Under a word that was used up.
    ResumeAgain(usize),
    StealOutcome(usize, usize, usize),
    Sweep(usize),
    Rebalance(usize, usize, usize),
    Find(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let worker = || 0..WORKERS;
    let any = || 0..64_usize;
    let op = prop_oneof![
        4 => worker().prop_map(Op::Push),
        1 => (worker(), 2..9_usize).prop_map(|(worker, count)| Op::PushMany(worker, count)),
        1 => worker().prop_map(Op::Pop),
        1 => worker().prop_map(Op::PopTop),
        4 => (worker(), any()).prop_map(|(worker, to)| Op::Suspend(worker, to)),
        3 => (any(), any()).prop_map(|(which, to)| Op::Resume(which, to)),
        1 => any().prop_map(Op::Abandon),
        1 => any().prop_map(Op::ResumeAgain),
        4 => (worker(), worker(), any()).prop_map(|(thief, victim, pick)| Op::StealOutcome(thief, victim, pick)),
        1 => worker().prop_map(Op::Sweep),
        1 => (worker(), worker(), any()).prop_map(|(to, from, pick)| Op::Rebalance(to, from, pick)),
        1 => worker().prop_map(Op::Find),
    ];
    vec(op, 0..80)
}

/// A deque as a plain model: the front is the top.
struct Deque {
    state: DequeState,
    word: u64,
    tasks: VecDeque<usize>,
}

/// The same with vectors, by one thread.
#[derive(Default)]
struct Model {
    active: Vec<VecDeque<usize>>,
    sets: Vec<Vec<Deque>>,
    cursors: Vec<usize>,
    /// Words of suspended deques without tasks.
    nowhere: Vec<u64>,
}

impl Model {
    fn new() -> Self {
        Self {
            active: vec![VecDeque::new(); WORKERS],
            sets: (0..WORKERS).map(|_| Vec::new()).collect(),
            cursors: vec![0; WORKERS],
            nowhere: Vec::new(),
        }
    }

    fn suspend(&mut self, worker: usize, word: u64, to: usize) {
        let tasks = std::mem::take(&mut self.active[worker]);
        if tasks.is_empty() {
            return self.nowhere.push(word);
        }
        let state = DequeState::Suspended;
        self.sets[to % WORKERS].push(Deque { state, word, tasks });
    }

    fn stop_waiting(&mut self, word: u64, task: Option<usize>, to: usize) {
        let state = DequeState::Resumable;
        for deque in self.sets.iter_mut().flatten() {
            if deque.word == word && deque.state == DequeState::Suspended {
                deque.state = state;
                return deque.tasks.extend(task);
            }
        }
        self.nowhere.retain(|&other| other != word);
        let tasks = VecDeque::from_iter(task);
        if !tasks.is_empty() {
            self.sets[to % WORKERS].push(Deque { state, word, tasks });
        }
    }

    fn steal_top(&mut self, set: usize, member: usize) -> StealOutcome<usize> {
        let deque = &mut self.sets[set][member];
        let task = deque.tasks.pop_front().expect("a member has tasks");
        let emptied = deque.tasks.is_empty();
        if emptied {
            let gone = self.sets[set].swap_remove(member);
            if gone.state == DequeState::Suspended {
                self.nowhere.push(gone.word);
            }
        } else if deque.state == DequeState::Resumable {
            deque.state = DequeState::Muggable;
        }
        StealOutcome::Stolen { task, emptied }
    }

    fn steal_from(
        &mut self,
        thief: usize,
        victim: usize,
        pick: impl FnOnce(usize) -> usize,
    ) -> StealOutcome<usize> {
        let members = self.sets[victim].len();
        let stealable = members + usize::from(!self.active[victim].is_empty());
        if stealable == 0 {
            return StealOutcome::Nothing;
        }
        let chosen = pick(stealable);
        if chosen == members {
            let task = self.active[victim].pop_front().expect("it has tasks");
            let emptied = self.active[victim].is_empty();
            return StealOutcome::Stolen { task, emptied };
        }
        let muggable = self.sets[victim][chosen].state == DequeState::Muggable;
        if !muggable || !self.active[thief].is_empty() {
            return self.steal_top(victim, chosen);
        }
        let deque = self.sets[victim].swap_remove(chosen);
        self.active[thief] = deque.tasks;
        let task = self.active[thief].pop_back().expect("a member has tasks");
        StealOutcome::TakenOver { task }
    }

    fn sweep(&mut self, set: usize) -> StealOutcome<usize> {
        let members = self.sets[set].len();
        if members == 0 {
            return StealOutcome::Nothing;
        }
        let cursor = self.cursors[set].min(members);
        let next = if cursor == 0 { members } else { cursor } - 1;
        self.cursors[set] = next;
        self.steal_top(set, next)
    }

    fn rebalance(&mut self, loser: usize, giver: usize, pick: usize) -> bool {
        let members = self.sets[giver].len();
        if loser == giver || members == 0 {
            return false;
        }
        let deque = self.sets[giver].swap_remove(pick % members);
        self.sets[loser].push(deque);
        true
    }

    fn find(&mut self, thief: usize) -> Option<(usize, StealOutcome<usize>)> {
        (0..WORKERS).find_map(
            |set| match self.steal_from(thief, set, |stealable| stealable - 1) {
                StealOutcome::Nothing => None,
                found => Some((set, found)),
            },
        )
    }

    fn stats(&self) -> Vec<DequeView> {
        let mut all = Vec::new();
        for (number, set) in self.sets.iter().enumerate() {
            let set_number = Some(number);
            all.extend(set.iter().map(|deque| DequeView {
                state: deque.state,
                set: set_number,
                tasks: deque.tasks.len(),
            }));
            let (state, tasks) = (DequeState::Active, self.active[number].len());
            let set = set_number;
            all.extend((tasks > 0).then_some(DequeView { state, set, tasks }));
        }
        let (state, set, tasks) = (DequeState::Suspended, None, 0);
        all.extend(self.nowhere.iter().map(|_| DequeView { state, set, tasks }));
        all.sort_unstable();
        all
    }
}

type Task = Box<Counted>;

fn numbers(steal_from: StealOutcome<Task>) -> StealOutcome<usize> {
    match steal_from {
        StealOutcome::Nothing => StealOutcome::Nothing,
        StealOutcome::Lost => StealOutcome::Lost,
        StealOutcome::Stolen { task, emptied } => {
            let task = task.id;
            StealOutcome::Stolen { task, emptied }
        }
        StealOutcome::TakenOver { task } => StealOutcome::TakenOver { task: task.id },
    }
}

/// The structure, the model, and the tasks that wait.
struct Both {
    deques: Deques<Task>,
    workers: Vec<Active<Task>>,
    model: Model,
    drops: Drops,
    made: usize,
    waiting: Vec<(u64, Task)>,
    used_up: Vec<u64>,
}

impl Both {
    fn make(&mut self) -> Task {
        self.made += 1;
        self.drops.make(self.made - 1)
    }

    fn push(&mut self, worker: usize) {
        let task = self.make();
        self.model.active[worker].push_back(task.id);
        self.deques.push(&mut self.workers[worker], task).expect("memory");
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Push(worker) => self.push(worker),
            Op::PushMany(worker, count) => (0..count).for_each(|_| self.push(worker)),
            Op::Pop(worker) => {
                let task = self.workers[worker].pop().map(|task| task.id);
                assert_eq!(task, self.model.active[worker].pop_back());
            }
            Op::PopTop(worker) => {
                let task = self.workers[worker].pop_top().map(|task| task.id);
                assert_eq!(task, self.model.active[worker].pop_front());
            }
            Op::Suspend(worker, to) => {
                let task = self.make();
                let word = self.deques.suspend(&mut self.workers[worker], to);
                assert_ne!(word, 0);
                assert!(self.waiting.iter().all(|&(other, _)| other != word));
                assert!(!self.used_up.contains(&word));
                self.model.suspend(worker, word, to);
                self.waiting.push((word, task));
            }
            Op::Resume(which, to) if !self.waiting.is_empty() => {
                let (word, task) = self.waiting.swap_remove(which % self.waiting.len());
                self.model.stop_waiting(word, Some(task.id), to);
                assert!(self.deques.resume(word, task, to).is_ok());
                self.used_up.push(word);
            }
            Op::Abandon(which) if !self.waiting.is_empty() => {
                let (word, _) = self.waiting.swap_remove(which % self.waiting.len());
                self.model.stop_waiting(word, None, 0);
                self.deques.abandon(word);
                self.used_up.push(word);
            }
            Op::ResumeAgain(which) if !self.used_up.is_empty() => {
                let word = self.used_up[which % self.used_up.len()];
                let task = self.make();
                let id = task.id;
                let back = self.deques.resume(word, task, which);
                assert_eq!(back.map_err(|task| task.id), Err(id), "it comes back");
                self.deques.abandon(word);
            }
            Op::Resume(..) | Op::Abandon(_) | Op::ResumeAgain(_) => {}
            Op::StealOutcome(thief, victim, pick) => {
                let steal_from = self
                    .deques
                    .steal_from(&mut self.workers[thief], victim, |stealable| pick % stealable);
                let expected = self.model.steal_from(thief, victim, |stealable| pick % stealable);
                assert_eq!(numbers(steal_from), expected);
            }
            Op::Sweep(set) => assert_eq!(numbers(self.deques.sweep(set)), self.model.sweep(set)),
            Op::Rebalance(loser, giver, pick) => {
                let moved = self.deques.rebalance(loser, giver, |members| pick % members);
                assert_eq!(moved, self.model.rebalance(loser, giver, pick));
            }
            Op::Find(thief) => {
                let found = self.deques.find(&mut self.workers[thief]);
                let found = found.map(|(set, steal_from)| (set, numbers(steal_from)));
                assert_eq!(found, self.model.find(thief));
            }
        }
    }

    fn agree(&self) {
        let mut stats = self.deques.stats();
        stats.sort_unstable();
        assert_eq!(stats, self.model.stats());
        let none = self.model.sets.iter().all(Vec::is_empty);
        assert_eq!(self.deques.all_are_active(), none);
        for (worker, tasks) in self.workers.iter().zip(&self.model.active) {
            assert_eq!(worker.is_empty(), tasks.is_empty());
        }
    }
}

proptest! {
    #[test]
    fn deques_behave_like_the_model(ops in ops(), capacity in 1..5_usize) {
        let (deques, workers) = Deques::new(WORKERS, capacity).expect("memory");
        let (model, drops) = (Model::new(), Drops::new(TASKS));
        let (waiting, used_up) = (Vec::new(), Vec::new());
        let mut both = Both { deques, workers, model, drops, made: 0, waiting, used_up };
        for op in ops {
            both.step(op);
            both.agree();
        }
        // The deques drop what is left.
        let (drops, made) = (both.drops.clone(), both.made);
        drop(both);
        (made..TASKS).for_each(|id| drop(drops.make(id)));
        drops.assert_each_once();
    }
}

#[test]
fn impossible_capacities_are_errors() {
    assert!(matches!(Deques::<Task>::new(0, 8), Err(CapacityError::Zero)));
    assert!(matches!(Deques::<Task>::new(2, 0), Err(CapacityError::Zero)));
    assert!(matches!(
        Deques::<Task>::new(2, usize::MAX),
        Err(CapacityError::TooLarge { .. })
    ));
}

/// However many deques come, a deque without an owner has its turn within twice as many sweeps as there are
/// deques.
#[test]
fn a_sweep_passes_over_nobody() {
    let (deques, mut workers) = Deques::new(1, 4).expect("memory");
    let task = |n| std::num::NonZeroUsize::new(n).expect("not 0");
    let mut next = 100;
    let mut leave = |workers: &mut Vec<Active<_>>| {
        deques.push(&mut workers[0], task(next)).expect("memory");
        next += 1;
        deques.suspend(&mut workers[0], 0);
    };
    deques.push(&mut workers[0], task(1)).expect("memory");
    deques.suspend(&mut workers[0], 0);
    (0..7).for_each(|_| leave(&mut workers));
    let mut sweeps = 0;
    loop {
        sweeps += 1;
        // More come all the time.
        leave(&mut workers);
        match deques.sweep(0) {
            StealOutcome::Stolen { task: found, .. } if found == task(1) => break,
            StealOutcome::Stolen { .. } => {}
            other => panic!("unexpected: {other:?}"),
        }
        assert!(sweeps <= 16, "it starves");
    }
}
