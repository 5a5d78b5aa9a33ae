//! Reports which deques there are, and in which states.

use super::Deques;
use super::set::Standing;
use crate::Word;

/// The state of a deque.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DequeState {
    /// A worker works on it.
    Active,
    /// It waits for the task that its worker ran.
    Suspended,
    /// That task was woken, and is at the bottom; nothing was stolen since.
    Resumable,
    /// A thief may take it over as a whole.
    Muggable,
}

/// A deque in the report of [`Deques::stats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DequeView {
    /// Its state.
    pub state: DequeState,
    /// The number of the set that it is in; `None` if it has no tasks.
    pub set: Option<usize>,
    /// How many tasks it has.
    pub tasks: usize,
}

impl<T: Word> Deques<T> {
    /// Returns every deque that there is at one moment: those with tasks, and those that wait for a task.
    /// Locks all sets; for tests and reports.
    pub fn stats(&self) -> Vec<DequeView> {
        let sets: Vec<_> = (0..self.slots.len()).map(|set| self.lock(set)).collect();
        let mut deques = Vec::new();
        for (number, set) in sets.iter().enumerate() {
            let members = set.members.iter().map(|member| {
                let state = match member.standing {
                    Standing::Suspended(_) => DequeState::Suspended,
                    Standing::Resumable => DequeState::Resumable,
                    Standing::Muggable => DequeState::Muggable,
                };
                (state, member.len())
            });
            let active = Some((DequeState::Active, set.active_len())).filter(|&(_, tasks)| tasks > 0);
            deques.extend(members.chain(active).map(|(state, tasks)| DequeView {
                state,
                set: Some(number),
                tasks,
            }));
        }
        let waits = DequeView {
            state: DequeState::Suspended,
            set: None,
            tasks: 0,
        };
        let nowhere = self.places.iter().map(|places| places.lock().nowhere()).sum();
        deques.extend(std::iter::repeat_n(waits, nowhere));
        deques
    }
}
