//! The hooks of the workers of a stealing pool.

mod shares;
mod store;
mod urgent;

use super::affine::AffineQueues;
use super::amount::AdaptiveAmount;
use super::axes::PLACES;
use super::help::HelpRequests;
use super::pool_queues::PoolQueues;
use super::rebalance::Rebalancer;
use super::thief::{steal, steal_unless_new};
use super::victims::VictimOrder;
use super::{Help, MOST_CAPACITY, Overflow, Stealing, Woken};
use crate::by_class;
use crate::order::{Classes as _, LocalQueue, LocalQueueThief, Order};
use crate::{Cx, Policy, PolicyError, PoolEnv, Tally, Wake, WorkerId, YieldTo};
use shares::{Shares, begins, begins_found, owed};
use store::{detour, from_outside, give_way, into_local_queue, no_room, take_affine};
use urgent::{Ahead, compare, most_urgent};
use warpweft_queue::{Amount, CapacityError, Full, Glance, Steal};
use warpweft_task::{QueueViewer, TaskRef, Waiting, Why};

/// Once in this number of searches a thief takes only one task (EBSL's rare small steal).
const SMALL_STEALS: u32 = 8;
/// From this queue length on, a worker that has tasks does not take half of it.
const MUCH: usize = 256;
/// Each cancellation pays for a look at this number of tasks.
const WORTH: u64 = 8;

type ThiefOf<O> = <<O as Order>::LocalQueue as LocalQueue>::Thief;

/// The shared state of the workers of a [`Stealing`] pool.
pub struct Shared<O: Order> {
    /// The reasons for which a worker's push does not go to its own local queue: a bit for each [`Why`].
    detours: u8,
    /// True if woken tasks go where they ran last.
    to_last: bool,
    /// True if a worker that polls has more to do than to poll: it has an affine queue, or may ask for help.
    has_requests: bool,
    thieves: Box<[ThiefOf<O>]>,
    queues: PoolQueues<O::Classes>,
    help_requests: HelpRequests,
    full: Overflow,
    yield_to: YieldTo,
}

/// A worker's own half of a [`Stealing`] pool.
pub struct Local<O: Order> {
    queue: O::LocalQueue,
    me: usize,
    victims: VictimOrder,
    amount: AdaptiveAmount,
    rebalancer: Rebalancer,
    /// The look of each victim when its only task was left to it.
    declined: Box<[Option<Glance>]>,
    /// The number of searches so far.
    searches: u32,
    /// The place whose turn it is in `poll_global`.
    turn: usize,
    /// The worker that asked last to be stolen from.
    kept: Option<usize>,
    /// The number of picks so far.
    picks: usize,
    /// True if its local queue was empty when `next` looked there. Only with priorities.
    ran_dry: bool,
    /// How often it took the most urgent task from elsewhere since the last poll. Only with priorities.
    in_a_row: u32,
    /// What the classes with a least share have had; `None` if none has one.
    shares: Option<Box<Shares>>,
    /// How many tasks had been cancelled when it looked for them last.
    evicted_at: u64,
}

impl<O: Order> Local<O> {
    /// How many tasks are in its local queue.
    #[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Picks one of several places of the pool: each worker goes round them, from a different beginning.
    fn pick(&mut self) -> usize {
        self.picks = self.picks.wrapping_add(1);
        self.picks
    }
}

const fn bit(why: Why) -> u8 {
    1 << why as u8
}

/// Returns true if a worker's push for this reason does not go to its own local queue, or not to where new
/// tasks go there.
#[inline]
fn is_detour<O: Order>(shared: &Shared<O>, why: Why) -> bool {
    shared.detours & bit(why) != 0
}

impl<O: Order> Policy for Stealing<O> {
    type Shared = Shared<O>;
    type Local = Local<O>;
    const INHERITS_PRIORITY: bool = O::Classes::BY_PRIORITY;

    fn priorities(&self) -> u8 {
        self.order.priorities()
    }

    fn shares(&self) -> Vec<u8> {
        self.order.shares().to_vec()
    }

    fn build(&self, env: &PoolEnv) -> Result<(Shared<O>, Vec<Local<O>>), PolicyError> {
        let axes = &self.axes;
        if axes.capacity > MOST_CAPACITY {
            return Err(CapacityError::TooLarge {
                asked: axes.capacity,
                limit: MOST_CAPACITY,
            }
            .into());
        }
        let mut locals: Vec<Local<O>> = Vec::with_capacity(env.workers);
        for me in 0..env.workers {
            locals.push(Local {
                queue: self.order.local_queue(axes.capacity)?,
                me,
                victims: VictimOrder::of(me, axes.victims, env),
                amount: AdaptiveAmount::new(axes.steal),
                rebalancer: Rebalancer::new(axes.rebalance, me),
                declined: vec![None; env.workers].into(),
                searches: 0,
                turn: 0,
                kept: None,
                picks: me,
                ran_dry: false,
                in_a_row: 0,
                shares: Shares::of(self.order.shares()),
                evicted_at: 0,
            });
        }
        let to_last = axes.woken == Woken::Last;
        let mut detours = 0;
        if axes.yield_to == YieldTo::Global || O::NEWEST_FIRST || O::GIVES_WAY {
            detours |= bit(Why::Yielded);
        }
        if to_last {
            detours |= bit(Why::Woken);
        }
        let levels = by_class::levels(&self.order);
        let affine = if to_last { env.workers } else { 0 };
        let shared = Shared {
            detours,
            to_last,
            has_requests: to_last || axes.help != Help::None,
            thieves: locals.iter().map(|local| local.queue.thief()).collect(),
            queues: PoolQueues::new(levels, env.workers, affine, axes.overflow)?,
            help_requests: HelpRequests::new(axes.help, env.workers)?,
            full: axes.overflow,
            yield_to: axes.yield_to,
        };
        Ok((shared, locals))
    }

    #[inline]
    fn push(shared: &Shared<O>, local: Option<&mut Local<O>>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        let Some(local) = local else {
            return from_outside(shared, task, why, cx);
        };
        if is_detour(shared, why) {
            return detour(shared, local, task, why, cx);
        }
        into_local_queue(shared, local, task, cx.tally())
    }

    #[inline]
    fn is_fast_path(shared: &Shared<O>, why: Why) -> bool {
        // A local queue that may return another task than the one it was given has changed by then.
        !<O::LocalQueue as LocalQueue>::DISPLACES && !is_detour(shared, why)
    }

    #[inline]
    fn push_local(local: &mut Local<O>, task: TaskRef) -> Result<(), TaskRef> {
        local.queue.push(task).map_err(|Full(task)| task)
    }

    fn yielded(shared: &Shared<O>, local: &mut Local<O>, task: TaskRef, to: YieldTo, cx: &Cx<'_>) -> Wake {
        give_way(shared, local, task, to, cx.tally())
    }

    #[inline]
    fn watches_waits(shared: &Shared<O>) -> bool {
        shared.to_last
    }

    #[inline]
    fn suspended(shared: &Shared<O>, local: &mut Local<O>, mut task: Waiting<'_>, _: &Cx<'_>) {
        if shared.to_last {
            task.set_policy_word(AffineQueues::<O::Classes>::word(task.policy_word(), local.me));
        }
    }

    #[inline]
    fn next(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        if O::Classes::BY_PRIORITY {
            if local.shares.is_some()
                && let Some(task) = owed(shared, local, cx)
            {
                return begins(local, Some(task), cx);
            }
            match compare(shared, local, cx) {
                Ahead::Own => {}
                Ahead::Other(task) => return begins(local, Some(task), cx),
                Ahead::Nothing => return None,
            }
        }
        let task = local.queue.pop(cx);
        begins(local, task, cx)
    }

    /// Takes only from the local queue: with priorities `next` also takes from shared queues. What others
    /// left for a worker that rests goes elsewhere, too.
    fn drain(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        if cx.rests(WorkerId(local.me)) {
            take_affine(shared, local, cx.tally());
        }
        local.queue.pop(cx)
    }

    #[inline]
    fn poll_global(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        local.queue.polled(cx);
        let mut find = || {
            let affine_came = shared.has_requests && run_requests(shared, local, cx.tally());
            if O::Classes::BY_PRIORITY
                && let Some(task) = most_urgent(shared, local, cx)
            {
                return Some(task);
            }
            // A worker that has nothing is about to search.
            if !local.queue.is_empty() {
                local.rebalancer.tick();
            }
            // The common case: a worker that is busy with its own tasks.
            if !affine_came && is_nothing_shared(shared, local) {
                return rebalance(shared, local, cx).or_else(|| local.queue.passed_over());
            }
            by_turns(shared, local, affine_came, cx)
        };
        let task = find();
        begins_found(local, task, cx)
    }

    fn search(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        let mut find = || {
            if take_affine(shared, local, cx.tally())
                && let Some(task) = local.queue.pop(cx)
            {
                return Some(task);
            }
            if let Some(task) = shared.queues.take(&mut local.queue, cx) {
                return Some(task);
            }
            let asked = shared.help_requests.asked_by(local.me, &mut local.kept);
            if let Some(busy) = asked.or_else(|| shared.help_requests.ticket())
                && busy != local.me
                && let Some(task) = steal(&shared.thieves[busy], &mut local.queue, local.amount.amount(), cx)
            {
                return Some(task);
            }
            local.searches = local.searches.wrapping_add(1);
            // Where fewer than k tasks wait, a worker must still run them.
            let amount = if local.searches.is_multiple_of(SMALL_STEALS) {
                Amount::One
            } else {
                local.amount.amount()
            };
            let (task, lay) = steal_somewhere(shared, local, |_| amount, cx)?;
            local.amount.took(local.queue.len() + 1, lay, cx);
            Some(task)
        };
        let task = find();
        begins_found(local, task, cx)
    }

    /// Half of a short queue, and one task of a long one. This worker has tasks, and everything beyond the
    /// first stolen task waits behind them. Two workers that took half of long queues from each other would
    /// destroy the order.
    fn steal_from_stuck(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        let amount = |lies| if lies > MUCH { Amount::One } else { Amount::Half };
        let task = steal_somewhere(shared, local, amount, cx).map(|(task, _)| task);
        begins_found(local, task, cx)
    }

    fn scan(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        let mut find = || {
            let own = local
                .queue
                .pop(cx)
                .or_else(|| shared.queues.take(&mut local.queue, cx));
            if own.is_some() {
                return own;
            }
            if let Some(task) = shared.queues.affine.pop() {
                return Some(task);
            }
            shared.thieves.iter().find_map(|local_queue| {
                loop {
                    match local_queue.steal_one() {
                        Steal::Taken { first, .. } => return Some(first),
                        Steal::Empty | Steal::Few(_) => return None,
                        // Another thread took something, or the queue grows: it is not known to be empty.
                        Steal::Lost => cx.pause(),
                    }
                }
            })
        };
        let task = find();
        begins(local, task, cx)
    }

    fn queued(shared: &Shared<O>, worker: WorkerId) -> Option<usize> {
        shared.thieves.get(worker.0).map(|thief| thief.glance().len)
    }

    fn queued_shared(shared: &Shared<O>) -> Option<usize> {
        Some(shared.queues.len_with_affine())
    }

    fn show_queued(shared: &Shared<O>, viewer: &mut QueueViewer) {
        for thief in &shared.thieves {
            thief.show(viewer);
        }
        shared.queues.show(viewer);
    }

    fn evict(shared: &Shared<O>, local: &mut Local<O>, cancellations: u64, cx: &Cx<'_>) -> Vec<TaskRef> {
        let lying = local.queue.len() + shared.queues.len();
        let new = cancellations.wrapping_sub(local.evicted_at);
        if new.saturating_mul(WORTH) < lying as u64 {
            return Vec::new();
        }
        local.evicted_at = cancellations;
        Self::extract(shared, local, &TaskRef::is_cancelled, cx)
    }

    fn extract(
        shared: &Shared<O>,
        local: &mut Local<O>,
        wanted: &dyn Fn(&TaskRef) -> bool,
        cx: &Cx<'_>,
    ) -> Vec<TaskRef> {
        let mut extracted = Vec::new();
        shared.queues.extract(&mut extracted, wanted);
        if let Some(queue) = shared.queues.affine.own(local.me) {
            queue.extract(&mut extracted, wanted);
        }
        for task in local.queue.drain(cx) {
            if wanted(&task) {
                extracted.push(task);
            } else if let Err(Full(task)) = local.queue.push_last(task) {
                let _ = no_room(shared, local, task, cx.tally());
            }
        }
        extracted
    }

    fn is_only_ready(shared: &Shared<O>, local: &Local<O>) -> bool {
        local.queue.is_empty() && is_nothing_shared(shared, local)
    }
}

/// Takes in the tasks of the affine queue and asks for help; returns true if there were such tasks. It is
/// cold: most policies have neither.
#[cold]
#[inline(never)]
fn run_requests<O: Order>(shared: &Shared<O>, local: &mut Local<O>, tally: Tally<'_>) -> bool {
    let affine_came = take_affine(shared, local, tally);
    // The worker that may sleep was woken when the tasks were pushed.
    let _ = shared
        .help_requests
        .ask(local.me, local.queue.len(), local.pick(), tally);
    affine_came
}

/// Takes the oldest task of one other worker, if it is time to look at one, and if that one has clearly more
/// than this one, which has some.
fn rebalance<O: Order>(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
    if !local.rebalancer.is_due() || local.queue.is_empty() {
        return None;
    }
    local
        .rebalancer
        .take(local.me, &local.victims, &shared.thieves, &mut local.queue, cx)
}

/// Takes a task that `next` may pass over. The places take turns: if one never became empty, the others would
/// wait forever.
#[inline(never)]
fn by_turns<O: Order>(
    shared: &Shared<O>,
    local: &mut Local<O>,
    affine_came: bool,
    cx: &Cx<'_>,
) -> Option<TaskRef> {
    local.turn = local.turn.wrapping_add(1);
    let turn = local.turn;
    shared.queues.tidy();
    let by_turns = (0..PLACES).find_map(|place| match (turn + place) % PLACES {
        0 => shared.queues.injected(turn / PLACES, &mut local.queue, cx),
        1 => shared.queues.gave_way(turn / PLACES),
        2 => shared.queues.overflowed(turn / PLACES, &mut local.queue, cx),
        3 => local.queue.passed_over(),
        4 => match shared.help_requests.asked_by(local.me, &mut local.kept) {
            Some(busy) => steal(&shared.thieves[busy], &mut local.queue, local.amount.amount(), cx),
            None => rebalance(shared, local, cx),
        },
        // A worker in a long task does not look at its affine queue.
        _ => shared.queues.affine.pop_by_turns(turn / PLACES),
    });
    by_turns.or_else(|| affine_came.then(|| local.queue.pop(cx)).flatten())
}

/// Returns true if all shared queues seem empty, and no worker has asked this one to steal.
fn is_nothing_shared<O: Order>(shared: &Shared<O>, local: &Local<O>) -> bool {
    shared.queues.is_empty() && (!shared.has_requests || has_no_request(shared, local))
}

/// Returns true if all affine queues seem empty, and no worker has asked this one to steal.
fn has_no_request<O: Order>(shared: &Shared<O>, local: &Local<O>) -> bool {
    shared.queues.affine.are_empty() && local.kept.is_none() && !shared.help_requests.is_asked(local.me)
}

/// Steals from another worker's local queue, and returns how many tasks were there.
fn steal_somewhere<O: Order>(
    shared: &Shared<O>,
    local: &mut Local<O>,
    amount: impl Fn(usize) -> Amount,
    cx: &Cx<'_>,
) -> Option<(TaskRef, usize)> {
    let Local {
        queue,
        victims,
        declined,
        ..
    } = local;
    let mut taken = None;
    let victim = victims.find(cx, &mut |victim| {
        taken = steal_unless_new(&shared.thieves[victim], queue, &mut declined[victim], &amount, cx);
        taken.is_some()
    })?;
    victims.found(victim);
    taken
}
