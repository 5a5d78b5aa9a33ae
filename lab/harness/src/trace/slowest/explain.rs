//! Where the time of one task went, in words.

use super::super::timeline::{Flow, Slice};
use super::{Gap, SlowTask, Step, Story, TaskSteps, moment, split};
use crate::text::nanos;

/// A closure on a thread for blocking closures that ended this close to a wake is named with it.
const CLOSE_NS: u64 = 100_000;

/// What was on a lane while a task was ready.
struct Ahead<'a> {
    lane: usize,
    /// The slice that had the largest part of that time.
    longest: &'a Slice,
    /// Its part.
    part: u64,
    /// How many slices there were.
    count: usize,
    /// The part of all.
    all: u64,
}

impl Story<'_> {
    /// Says where the time of a task went.
    pub(super) fn explain(&self, task: &TaskSteps) -> SlowTask {
        let steps = &task.steps;
        let ran = sum(steps.iter().map(|step| step.slice.lasts));
        let (mut ready, mut waited) = (0, 0);
        let (mut longest_ready, mut longest_wait) = (None::<(usize, Gap)>, None::<(usize, Gap)>);
        for (at, gap) in task.gaps() {
            let (in_queue, away) = (gap.until - gap.ready, gap.ready - gap.since);
            ready = sum([ready, in_queue]);
            waited = sum([waited, away]);
            if in_queue > longest_ready.map_or(0, |(_, gap)| gap.until - gap.ready) {
                longest_ready = Some((at, gap));
            }
            if away > longest_wait.map_or(0, |(_, gap)| gap.ready - gap.since) {
                longest_wait = Some((at, gap));
            }
        }
        // Of each part: its time, a line without and with the reason of its longest piece, and the cause.
        let mut found: Vec<(u64, String, String, String)> = Vec::new();
        if let Some(longest) = steps.iter().max_by_key(|step| step.slice.lasts) {
            let (line, reason) = self.long_slice(longest);
            let ran_in = format!(
                "ran {} in {}; the longest: {line}",
                time(ran),
                count(steps.len(), "step")
            );
            found.push((ran, ran_in, reason.clone(), format!("it ran, {line}{reason}")));
        }
        if let Some((at, gap)) = longest_ready {
            let (behind, longest) = (self.behind(task, at, gap), time(gap.until - gap.ready));
            let line = format!(
                "ready but not running {}; the longest: {longest} from {} on",
                time(ready),
                moment(gap.ready)
            );
            let cause = format!("it was ready but did not run, the longest for {longest}: {behind}");
            found.push((ready, line, format!(", {behind}"), cause));
        }
        if let Some((at, gap)) = longest_wait {
            let (waker, longest) = (self.waker(task, at, gap), time(gap.ready - gap.since));
            let line = format!(
                "waited {}; the longest: {longest} from {} on",
                time(waited),
                moment(gap.since)
            );
            let cause = format!("it waited, the longest for {longest}: {waker}");
            found.push((waited, line, format!(", {waker}"), cause));
        }
        let total = task.total().max(1);
        let most = found.iter().map(|part| part.0).max().unwrap_or(0);
        let mut cause = String::new();
        let mut parts = Vec::new();
        for (part, line, reason, why) in found {
            // The reason of the main part is in the cause.
            if part == most && cause.is_empty() {
                let percent = (part as f64 / total as f64 * 100.0) as u64;
                cause = format!("for {percent} % of the time {why}");
                parts.push(line);
            } else {
                parts.push(line + &reason);
            }
        }
        if steps[0].push.is_none() {
            parts.push(String::from(
                "its spawn is not recorded: the time counts from its first step that is",
            ));
        }
        SlowTask {
            name: self.name(&steps[0].slice).to_owned(),
            kind: self.kind(task),
            task: task.number,
            since: task.since(),
            total: task.total(),
            cause,
            parts,
        }
    }

    fn kind(&self, task: &TaskSteps) -> &'static str {
        let first = &task.steps[0];
        let has_site = |slice: &Slice| !matches!(self.name(slice), "task" | "fiber" | "fork");
        let is = |kind: &str| task.steps.iter().any(|step| self.name(&step.slice) == kind);
        let is_taken = first
            .push
            .is_some_and(|push| self.timeline.names[push.why] == "taken");
        if split(self.lane(first.lane)).1.starts_with("blocking ") {
            "blocking closure"
        } else if is("fiber") {
            "fiber"
        } else if is_taken || is("fork") {
            "fork"
        } else if task.steps.len() > 1 && has_site(&first.slice) {
            "future or fiber"
        } else {
            "task"
        }
    }

    /// "15.0 ms on web / worker 0 from 3.000 ms on", and what is known of the reason.
    fn long_slice(&self, step: &Step) -> (String, String) {
        let lasts = time(step.slice.lasts);
        let from = moment(step.slice.start);
        let reason = if self.is_stuck(step.lane, &step.slice) {
            ", and the worker was reported stuck: it computed, or was blocked in the system"
        } else {
            ""
        };
        (
            format!("{lasts} on {} from {from} on", self.lane(step.lane)),
            reason.to_owned(),
        )
    }

    /// What ran while that step was ready.
    fn behind(&self, task: &TaskSteps, at: usize, gap: Gap) -> String {
        let step = &task.steps[at];
        // It was in the queue of the worker that pushed it, or of the one that ran it.
        let lanes = std::iter::once(step.lane).chain(step.push.map(|push| push.from));
        let ahead = lanes.filter_map(|lane| self.ahead(lane, task.number, gap));
        let Some(ahead) = ahead.max_by_key(|ahead| ahead.part) else {
            return self.idle(step.lane, gap);
        };
        let (slice, lane) = (ahead.longest, self.lane(ahead.lane));
        let is_stuck = self.is_stuck(ahead.lane, slice);
        let stuck = if is_stuck { " and was reported stuck" } else { "" };
        let task = self.task(slice);
        if ahead.count == 1 || ahead.part > ahead.all / 2 {
            format!(
                "behind {task} on {lane}, which ran for {}{stuck}",
                time(slice.lasts)
            )
        } else {
            let (count, all) = (count(ahead.count, "step"), time(ahead.all));
            format!(
                "behind {count} on {lane} of {all} together, the longest of {task}, {}",
                time(slice.lasts)
            )
        }
    }

    /// Why a step did not run although its worker had no other one.
    fn idle(&self, lane: usize, gap: Gap) -> String {
        let name = self.lane(lane);
        let asleep = self.lanes[lane].iter().filter(|slice| slice.task == 0);
        let slept = sum(asleep.map(|slice| part(slice, gap)));
        if slept > (gap.until - gap.ready) / 2 {
            format!("{name} slept, and had to wake up")
        } else {
            format!("no task ran on {name} meanwhile: it searched, or had no CPU")
        }
    }

    /// What a lane ran while a task was ready.
    fn ahead(&self, lane: usize, own: u64, gap: Gap) -> Option<Ahead<'_>> {
        let slices = &self.lanes[lane];
        let first = slices.partition_point(|slice| slice.start + slice.lasts <= gap.ready);
        let during = slices[first..].iter().take_while(|slice| slice.start < gap.until);
        let mut found: Option<Ahead<'_>> = None;
        for slice in during.filter(|slice| slice.task != 0 && slice.task != own) {
            let part = part(slice, gap);
            match &mut found {
                None => {
                    found = Some(Ahead {
                        lane,
                        longest: slice,
                        part,
                        count: 1,
                        all: part,
                    });
                }
                Some(ahead) => {
                    ahead.count += 1;
                    ahead.all = sum([ahead.all, part]);
                    if part > ahead.part {
                        (ahead.longest, ahead.part) = (slice, part);
                    }
                }
            }
        }
        found
    }

    /// What ended the wait before that step.
    fn waker(&self, task: &TaskSteps, at: usize, gap: Gap) -> String {
        let Some(push) = task.steps[at].push else {
            return String::from("what woke it is not recorded");
        };
        let source = format!("woken by {}", self.source(&push));
        let Some(by) = self.around(push.from, push.since).filter(|slice| slice.task != 0) else {
            return source;
        };
        match self.tasks.get(&by.task) {
            Some(other) if other.number != task.number => source + &self.history(other, by, &push, gap),
            _ => source,
        }
    }

    /// What a task did before it woke another one, as far as that one waited meanwhile.
    fn history(&self, waker: &TaskSteps, by: &Slice, push: &Flow, gap: Gap) -> String {
        let here = |step: &Step| step.lane == push.from && step.slice.start == by.start;
        let Some(at) = waker.steps.iter().position(here) else {
            return String::new();
        };
        let step = &waker.steps[at];
        let before = waker.gap(at);
        let part = |from: u64, until: u64| until.min(gap.ready).saturating_sub(from.max(gap.since));
        let ran = part(step.slice.start, push.since);
        let ready = part(before.ready, before.until);
        let waited = part(before.since, before.ready);
        let most = ran.max(ready).max(waited);
        if most == 0 {
            String::new()
        } else if most == ran {
            let is_stuck = self.is_stuck(step.lane, &step.slice);
            let stuck = if is_stuck {
                ", and its worker was reported stuck"
            } else {
                ""
            };
            format!(
                ", which had run for {} in that step{stuck}",
                time(push.since - step.slice.start)
            )
        } else if most == ready {
            let behind = self.behind(waker, at, before);
            format!(
                ", which had been ready for {}: {behind}",
                time(before.until - before.ready)
            )
        } else {
            let source = step.push.map_or_else(
                || String::from("something not recorded"),
                |push| self.source(&push),
            );
            format!(
                ", which had itself waited for {} until it was woken by {source}",
                time(before.ready - before.since)
            )
        }
    }

    /// What made a task runnable.
    fn source(&self, push: &Flow) -> String {
        let lane = self.lane(push.from);
        if let Some(slice) = self.around(push.from, push.since).filter(|slice| slice.task != 0) {
            return format!("{} on {lane}", self.task(slice));
        }
        if split(lane).1.starts_with("worker ") {
            return format!("{lane} between two tasks: a timer, a socket or another event");
        }
        let outside = match split(lane).1.strip_prefix("thread ") {
            Some(name) => format!("thread `{name}`, which is none of the runtime's workers"),
            None => String::from("a thread outside of the runtime's workers"),
        };
        match self.closure_at(push.since) {
            Some(slice) => format!(
                "{outside}, when the blocking closure {} ran or ended",
                self.task(slice)
            ),
            None => outside,
        }
    }

    /// The only closure on a thread for blocking closures that ran at that moment, or had just ended.
    fn closure_at(&self, at: u64) -> Option<&Slice> {
        let lanes = (0..self.lanes.len()).filter(|lane| split(self.lane(*lane)).1.starts_with("blocking "));
        let mut found = lanes.filter_map(|lane| {
            let next = self.lanes[lane].partition_point(|slice| slice.start <= at);
            let slice = self.lanes[lane][..next].last()?;
            (sum([slice.start, slice.lasts, CLOSE_NS]) >= at).then_some(slice)
        });
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    /// "`parse` (task 7)".
    fn task(&self, slice: &Slice) -> String {
        format!("`{}` (task {})", self.name(slice), slice.task)
    }
}

/// The part of a slice in which a task was ready.
fn part(slice: &Slice, gap: Gap) -> u64 {
    let end = (slice.start + slice.lasts).min(gap.until);
    end.saturating_sub(slice.start.max(gap.ready))
}

/// The sum of times, which a damaged file may let overflow.
fn sum(times: impl IntoIterator<Item = u64>) -> u64 {
    times.into_iter().fold(0, u64::saturating_add)
}

fn time(ns: u64) -> String {
    nanos(ns as f64)
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
