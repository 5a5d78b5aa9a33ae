//! The log of a run: what happened, in order. Its hash is what two runs are compared by.

/// What a step of the log was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    Load = 1,
    Store,
    Rmw,
    Miss,
    Touch,
    Sleep,
    Wake,
    Start,
    End,
    Switch,
}

/// The number and the hash of all steps, and the first of them as text.
#[derive(Debug)]
pub(crate) struct Log {
    hash: u64,
    steps: u64,
    kept: Vec<(Step, u32, u64, u64)>,
    keep: usize,
}

impl Log {
    pub(crate) fn new(keep: usize) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            steps: 0,
            kept: Vec::new(),
            keep,
        }
    }

    /// Notes that a thread did something at a time; `what` is a line or another thread.
    pub(crate) fn note(&mut self, step: Step, thread: usize, what: usize, now: u64) {
        self.steps += 1;
        let word = (step as u64) << 56 ^ (thread as u64) << 40 ^ what as u64;
        for part in [word, now] {
            let mixed = (self.hash ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.hash = mixed ^ mixed >> 31;
        }
        if self.kept.len() < self.keep {
            self.kept.push((step, thread as u32, what as u64, now));
        }
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the steps that were kept, one a line.
    pub(crate) fn text(&self) -> String {
        let line = |&(step, thread, what, now): &(Step, u32, u64, u64)| {
            let ns = now as f64 / crate::machine::TICKS as f64;
            format!("{ns:.4} thread {thread} {step:?} {what}\n")
        };
        self.kept.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Log, Step};

    #[test]
    fn each_part_of_a_step_changes_the_hash() {
        let hash = |step, thread, what, now| {
            let mut log = Log::new(0);
            log.note(step, thread, what, now);
            log.hash()
        };
        let first = hash(Step::Load, 1, 2, 3);
        assert_eq!(first, hash(Step::Load, 1, 2, 3));
        let others = [
            hash(Step::Store, 1, 2, 3),
            hash(Step::Load, 2, 2, 3),
            hash(Step::Load, 1, 3, 3),
            hash(Step::Load, 1, 2, 4),
        ];
        assert!(!others.contains(&first));
    }
}
