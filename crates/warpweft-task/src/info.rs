//! Facts about a task that can be read without running it.

use crate::origin::Origin;
use std::panic::Location;

/// A task's name, spawn site, and the policy's word.
#[derive(Debug, Clone, Copy)]
pub struct TaskInfo<'a> {
    origin: &'a Origin,
    policy_word: u64,
}

impl<'a> TaskInfo<'a> {
    pub(crate) fn new(origin: &'a Origin, policy_word: u64) -> Self {
        Self { origin, policy_word }
    }

    /// The name that its spawner gave it.
    #[must_use]
    pub fn name(&self) -> Option<&'a str> {
        self.origin.name()
    }

    /// Where it was spawned.
    #[must_use]
    pub fn location(&self) -> &'static Location<'static> {
        self.origin.location()
    }

    /// The word that travels with the task and belongs to the policy.
    #[must_use]
    pub fn policy_word(&self) -> u64 {
        self.policy_word
    }
}
