//! Least shares of a worker's time, for classes that would otherwise wait for all that is more urgent.
//!
//! # Invariants
//!
//! - The time from one task to the next is charged to the class of the first: its turn. Every class with a
//!   share is credited with it, so `owed` is what a class with tasks has had too little.
//! - A class that is owed something, and of which no task is found, is owed nothing: it saves nothing up.
//! - A class that has had more than its share is at most [`MEMORY`] and one turn ahead.

use super::{Local, Shared};
use crate::Cx;
use crate::order::{Classes as _, LocalQueue, LocalQueueThief, Order};
use crate::priority;
use warpweft_task::TaskRef;

/// How far a class may be ahead of its share before its last turn, in nanoseconds.
const MEMORY: i64 = 10_000_000;
/// The longest turn that is counted, in nanoseconds.
const LONGEST: u64 = 1_000_000_000;
/// Accounts are in hundredths of a nanosecond, since shares are in hundredths.
const WHOLE: i64 = 100;

/// The account of one worker.
#[derive(Debug)]
pub(super) struct Shares {
    /// The share of each class, and what it is owed.
    classes: Box<[(i64, i64)]>,
    /// The class of the last task, and since when it has its turn.
    turn: Option<(usize, u64)>,
}

impl Shares {
    /// Opens an account for these shares in percent; there is none without shares.
    pub(super) fn of(percent: &[u8]) -> Option<Box<Self>> {
        let classes = percent.iter().map(|&share| (i64::from(share), 0)).collect();
        (!percent.is_empty()).then_some(Box::new(Self { classes, turn: None }))
    }

    /// Ends the turn of the last task.
    fn settle(&mut self, now_ns: u64) {
        let Some((class, since)) = self.turn.take() else {
            return;
        };
        let time = now_ns.saturating_sub(since).min(LONGEST) as i64;
        for (number, (share, owed)) in self.classes.iter_mut().enumerate() {
            if number == class {
                *owed = (*owed).max(-MEMORY * WHOLE) - time * WHOLE;
            }
            *owed += time * *share;
        }
    }

    /// Begins the turn of a task of that class.
    fn begin(&mut self, class: usize, now_ns: u64) {
        self.settle(now_ns);
        self.turn = Some((class.min(self.classes.len() - 1), now_ns));
    }

    /// Returns the class with a share that is owed most, if one is.
    fn most_owed(&self) -> Option<usize> {
        let classes = self.classes.iter().enumerate();
        let owed = classes.filter(|(_, (share, owed))| *share > 0 && *owed > 0);
        owed.max_by_key(|(_, (_, owed))| *owed).map(|(class, _)| class)
    }

    /// The class has no task.
    fn forget(&mut self, class: usize) {
        self.classes[class].1 = 0;
    }
}

/// Takes a task of a class that has had less than its share. Only if some class has one.
#[cold]
#[inline(never)]
pub(super) fn owed<O: Order>(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
    let turn = local.pick();
    let shares = local.shares.as_mut()?;
    shares.settle(cx.now_ns());
    while let Some(class) = shares.most_owed() {
        let task = local.queue.pop_level(class, cx);
        let task = task.or_else(|| shared.queues.take_class(class, true, turn, &mut local.queue, cx));
        // Its tasks may all be with other workers. One of these at a time: most of the time there are none.
        let task = task.or_else(|| shared.thieves[turn % shared.thieves.len()].steal_level(class));
        if task.is_some() {
            return task;
        }
        shares.forget(class);
    }
    None
}

/// Notes that this task is the next one of the worker, for an order that measures steps, and if some class
/// has a least share.
#[inline]
pub(super) fn begins<O: Order>(local: &mut Local<O>, task: Option<TaskRef>, cx: &Cx<'_>) -> Option<TaskRef> {
    if let Some(task) = &task {
        local.queue.begins(task, cx);
    }
    if O::Classes::BY_PRIORITY
        && let Some(shares) = &mut local.shares
        && let Some(task) = &task
    {
        shares.begin(
            priority::level(task.policy_word(), shares.classes.len()),
            cx.now_ns(),
        );
    }
    task
}

/// The same for a task that was found outside of the worker's local queue, which may have a better one.
#[inline]
pub(super) fn begins_found<O: Order>(
    local: &mut Local<O>,
    task: Option<TaskRef>,
    cx: &Cx<'_>,
) -> Option<TaskRef> {
    let task = task.and_then(|task| local.queue.found(task, cx));
    begins(local, task, cx)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Runs tasks of 1 ms for so long: of a class that is owed something, else of the first that is ready.
    /// Returns how many ran of each.
    fn run(shares: &mut Shares, now: &mut u64, ms: u64, ready: &[bool]) -> Vec<u64> {
        let mut ran = vec![0; ready.len()];
        for _ in 0..ms {
            shares.settle(*now);
            let owed = loop {
                match shares.most_owed() {
                    Some(class) if !ready[class] => shares.forget(class),
                    other => break other,
                }
            };
            let first = || ready.iter().position(|&ready| ready);
            let class = owed.or_else(first).expect("one is ready");
            shares.begin(class, *now);
            ran[class] += 1;
            *now += MS;
        }
        ran
    }

    #[test]
    fn what_is_left_over_goes_to_the_most_urgent() {
        let mut shares = Shares::of(&[0, 20, 10]).expect("there are shares");
        let ran = run(&mut shares, &mut 0, 1_000, &[true; 3]);
        assert!(ran[1].abs_diff(200) <= 2 && ran[2].abs_diff(100) <= 2, "{ran:?}");
    }

    #[test]
    fn a_class_that_was_alone_soon_has_its_share_again() {
        let (mut shares, mut now) = (Shares::of(&[0, 20]).expect("there are shares"), 0);
        assert_eq!(run(&mut shares, &mut now, 10_000, &[false, true]), [0, 10_000]);
        let ran = run(&mut shares, &mut now, 200, &[true; 2]);
        // 10 ms and one task at a fifth of the time are 55 ms of others.
        assert!(ran[1] >= 25, "{ran:?}");
    }

    #[test]
    fn a_class_without_tasks_saves_nothing_up() {
        let (mut shares, mut now) = (Shares::of(&[0, 50]).expect("there are shares"), 0);
        assert_eq!(run(&mut shares, &mut now, 10_000, &[true, false]), [10_000, 0]);
        let ran = run(&mut shares, &mut now, 100, &[true; 2]);
        assert!(ran[1].abs_diff(50) <= 2, "{ran:?}");
    }

    #[test]
    fn there_is_no_account_without_shares() {
        assert!(Shares::of(&[]).is_none());
    }
}
