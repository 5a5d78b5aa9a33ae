//! Tasks in groups of those that have something in common.

use std::collections::HashMap;

/// What tasks of one group have in common: the address of a spawn site, or 0; and objects with what is said
/// of them.
pub(super) type GroupKey = (usize, Vec<(u64, &'static str)>);

/// Groups, in the order in which their first tasks came.
#[derive(Debug, Default)]
pub(super) struct Groups {
    places: HashMap<GroupKey, usize>,
    pub(super) groups: Vec<Vec<usize>>,
}

impl Groups {
    /// Adds a task. Returns the place of its group.
    pub(super) fn add(&mut self, key: GroupKey, task: usize) -> usize {
        let place = *self.places.entry(key).or_insert(self.groups.len());
        match self.groups.get_mut(place) {
            Some(group) => group.push(task),
            None => self.groups.push(vec![task]),
        }
        place
    }
}
