//! The duties of a policy, and the report that it broke one.

use std::fmt;

/// A property of a policy on which the framework relies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Duty {
    /// A task that was pushed comes out again, sooner or later.
    NothingLost,
    /// It comes out once.
    NothingTwice,
    /// It comes out within a bounded number of steps, whatever else is ready.
    NothingStarves,
    /// With priorities, an urgent task comes out within a bounded number of steps, wherever it was pushed,
    /// and however many less urgent ones are ready.
    UrgentFirst,
    /// With shares, a priority that has tasks gets its share of the time.
    SharesKept,
    /// `scan` finds a task if there is one that the worker may take.
    ExhaustiveScan,
    /// A push returns [`Wake::None`](warpweft_policy::Wake::None) only if the pushing worker itself will find
    /// the task, and [`Wake::Worker`](warpweft_policy::Wake::Worker) only with a worker that exists.
    HonestWake,
    /// `is_only_ready` is true only if neither `next` nor `poll_global` has a task.
    HonestAlone,
    /// The answers about fast paths are true. [`is_fast_path`](warpweft_policy::Policy::is_fast_path) does
    /// not change its answer. [`push_local`](warpweft_policy::Policy::push_local) keeps the task or returns
    /// it unchanged. Where [`watches_waits`](warpweft_policy::Policy::watches_waits) is false, `suspended`
    /// does nothing.
    HonestShortWays,
    /// `extract` hands out tasks that are wanted, and no others.
    HonestExtract,
    /// `evict` hands out tasks that were cancelled, and no others; and a cancelled task leaves the policy
    /// once.
    HonestEvict,
    /// A worker that rests, because its pool has become smaller, leaves nothing behind: what it had and what
    /// comes for it runs on the others, within a bounded number of steps.
    RestLeavesNothing,
    /// `build` makes one local state for each worker, or returns an error that says why not.
    Build,
    /// A hook that panics ends the pool and nothing else: every joiner gets an answer, every thread ends.
    CleanPanic,
}

impl fmt::Display for Duty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingLost => "nothing is lost",
            Self::NothingTwice => "nothing runs twice",
            Self::NothingStarves => "nothing starves",
            Self::UrgentFirst => "what is more urgent goes first",
            Self::SharesKept => "shares are kept",
            Self::ExhaustiveScan => "`scan` is exhaustive",
            Self::HonestWake => "the answer of `push` is honest",
            Self::HonestAlone => "`is_only_ready` is honest",
            Self::HonestShortWays => "the short ways are honest",
            Self::HonestExtract => "`extract` is honest",
            Self::HonestEvict => "`evict` is honest",
            Self::RestLeavesNothing => "a worker that rests leaves nothing behind",
            Self::Build => "`build` makes one local state per worker",
            Self::CleanPanic => "a panic ends the pool cleanly",
        })
    }
}

/// A duty that a policy broke, and how.
///
/// Its `Debug` is its message, so that a test may return it.
#[derive(Clone, PartialEq, Eq)]
pub struct Violation {
    policy: String,
    duty: Duty,
    how: String,
}

impl Violation {
    // Under shuttle the runtime itself fails, with its own message.
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

/// The result of a check.
pub type Verdict = Result<(), Violation>;
