//! A set of the tasks of a dump.

use super::Dump;

/// The numbers of some tasks of a dump.
#[derive(Debug, Clone)]
pub(crate) struct TaskSet {
    /// By the number of the task.
    has: Vec<bool>,
}

impl TaskSet {
    /// Returns an empty set for a dump of so many tasks.
    pub(super) fn new(tasks: usize) -> Self {
        Self {
            has: vec![false; tasks],
        }
    }

    /// Returns the tasks that the findings of a dump name.
    pub(crate) fn named_in(dump: &Dump) -> Self {
        let mut named = Self::new(dump.tasks.len());
        for finding in &dump.findings {
            named.insert_all(finding.tasks());
        }
        named
    }

    pub(super) fn insert_all(&mut self, tasks: &[usize]) {
        for &task in tasks {
            // The user of the dump may have removed tasks.
            if let Some(has) = self.has.get_mut(task) {
                *has = true;
            }
        }
    }

    /// Returns true if the task was in the set.
    pub(super) fn remove(&mut self, task: usize) -> bool {
        self.has.get_mut(task).is_some_and(std::mem::take)
    }

    pub(crate) fn contains(&self, task: usize) -> bool {
        self.has.get(task) == Some(&true)
    }

    /// Returns the tasks in ascending order.
    pub(super) fn tasks(&self) -> impl Iterator<Item = usize> {
        (0..self.has.len()).filter(|&task| self.has[task])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_there() {
        let mut set = TaskSet::new(5);
        set.insert_all(&[4, 1, 3, 1]);
        assert_eq!(set.tasks().collect::<Vec<_>>(), [1, 3, 4]);
        assert!(set.remove(3) && !set.remove(3) && !set.remove(0));
        assert_eq!(
            [0, 1, 3, 4].map(|task| set.contains(task)),
            [false, true, false, true]
        );
    }
}
