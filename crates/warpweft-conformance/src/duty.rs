//! What a policy owes, and the report that it failed to.

use std::fmt;

/// Something that the framework relies on a policy for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Duty {
    /// A task that was pushed comes out again, sooner or later.
    NothingLost,
    /// It comes out once.
    NothingTwice,
    /// It comes out within a bounded number of steps, whatever else is ready.
    NothingStarves,
    /// Of the tasks of a policy with priorities an urgent one comes out within a bounded number of steps,
    /// wherever it was pushed, however many less urgent ones are ready.
    UrgentFirst,
    /// `scan` finds a task if one is anywhere where the worker may take it.
    ExhaustiveScan,
    /// A push says [`Wake::None`](warpweft_policy::Wake::None) only if the pushing worker itself will find
    /// the task, and [`Wake::Worker`](warpweft_policy::Wake::Worker) only of a worker that exists.
    HonestWake,
    /// `alone` is true only if neither `next` nor `poll_global` has anything.
    HonestAlone,
    /// What is said of short ways is true: [`keeps`](warpweft_policy::Policy::keeps) does not change its
    /// mind, [`push_local`](warpweft_policy::Policy::push_own) keeps the task or gives it back as it was, and
    /// where [`watches_waits`](warpweft_policy::Policy::watches_waits) says no, `suspended` does nothing.
    HonestShortWays,
    /// `build` makes one local state for each worker, or says why not.
    Build,
    /// A hook that panics ends the pool and nothing else: every joiner is told, every thread ends.
    CleanPanic,
}

impl fmt::Display for Duty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingLost => "nothing is lost",
            Self::NothingTwice => "nothing runs twice",
            Self::NothingStarves => "nothing starves",
            Self::UrgentFirst => "what is more urgent goes first",
            Self::ExhaustiveScan => "`scan` is exhaustive",
            Self::HonestWake => "the answer of `push` is honest",
            Self::HonestAlone => "`alone` is honest",
            Self::HonestShortWays => "the short ways are honest",
            Self::Build => "`build` makes one local state per worker",
            Self::CleanPanic => "a panic ends the pool cleanly",
        })
    }
}

/// A duty that a policy broke, and how.
///
/// Its `Debug` is its message too, so that a test may return it.
#[derive(Clone, PartialEq, Eq)]
pub struct Violation {
    policy: String,
    duty: Duty,
    how: String,
}

impl Violation {
    // Under shuttle the runtime itself fails, with its own words.
    #[cfg(not(warpweft_shuttle))]
    pub(crate) fn new(policy: &str, duty: Duty, how: impl Into<String>) -> Self {
        Self {
            policy: policy.to_owned(),
            duty,
            how: how.into(),
        }
    }

    /// The name under which the policy was tested.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The duty that was broken.
    #[must_use]
    pub fn duty(&self) -> Duty {
        self.duty
    }

    /// How it was broken.
    #[must_use]
    pub fn how(&self) -> &str {
        &self.how
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, duty, how } = self;
        write!(f, "policy `{policy}` breaks a duty: {duty}. {how}")
    }
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Violation {}

/// What a check comes to.
pub type Verdict = Result<(), Violation>;
