//! Copies what a recorder has: whose the records are, in order of time.

use super::PoolRecorder;
use super::event::{self, ANY_WORKER, Kind, Parts, Push, StepEnd};
use super::perfetto::ns;
use super::ring::Record;
use super::sites::TaskSite;
use super::snapshot::{Event, EventKind, PoolEvents, StepKind, TaskKey, Track};
use crate::observe::order::by_key;
use std::sync::Arc;
use std::time::Duration;

/// Whose events a track has.
#[derive(Debug)]
enum TrackOf {
    Worker(usize),
    Others,
    Thread(Arc<str>),
    Blocking(usize),
}

impl TrackOf {
    fn track(self, events: Vec<Event>) -> Track {
        let (worker, blocking, thread) = match self {
            Self::Worker(worker) => (Some(worker), None, None),
            Self::Others => (None, None, None),
            Self::Thread(name) => (None, None, Some(name)),
            Self::Blocking(number) => (None, Some(number), None),
        };
        Track {
            worker,
            blocking,
            thread,
            events,
        }
    }
}

impl PoolRecorder {
    /// Copies what is there.
    pub(crate) fn snapshot(&self, name: &str, workers: usize) -> PoolEvents {
        let recorders = self.workers.iter().enumerate();
        let mut copies: Vec<(TrackOf, Vec<Record>)> = recorders
            .map(|(id, worker)| {
                (
                    TrackOf::Worker(id),
                    merge(worker.sparse.read(), in_order(worker.steps.read())),
                )
            })
            .collect();
        let mut has_lost: Vec<bool> = self
            .workers
            .iter()
            .map(|worker| worker.steps.has_lost())
            .collect();
        let outside = self.outside.lock_unless_lost().map(|outside| {
            has_lost.push(outside.ring.has_lost());
            (outside.ring.read(), outside.threads.all().to_vec())
        });
        let (outside, names) = outside.unwrap_or_default();
        let (outside, blocking) = split_blocking(outside);
        let (outside, threads) = split_threads(outside, names);
        copies.push((TrackOf::Others, outside));
        copies.extend(threads);
        let blocking = blocking.into_iter().enumerate();
        copies.extend(blocking.map(|(number, records)| (TrackOf::Blocking(number), records)));
        // After the copies: no record is later.
        let (scale, now) = self.scale();
        let sites = self.sites.all();
        let mut taken = Vec::new();
        let mut decode = |records: Vec<Record>| {
            let mut events = Vec::with_capacity(records.len());
            let mut last = 0;
            for record in records {
                let Some(parts) = event::parts(record) else {
                    continue;
                };
                // The clock's rounding must not reverse two events.
                last = scale.ns_at(event::whole_stamp(record, now.ticks)).max(last);
                let at = Duration::from_nanos(last);
                let ended = matches!(parts.kind, Kind::Begin | Kind::BeginFiber | Kind::BeginFork);
                if let Some(how) = StepEnd::of(parts.detail).filter(|_| ended) {
                    let kind = EventKind::End { how };
                    events.push(Event { at, kind });
                }
                let event = kind(parts, &sites).map(|kind| Event { at, kind });
                match event::taken_from(parts) {
                    Some(worker) => taken.extend(event.map(|event| (worker, event))),
                    None => events.extend(event),
                }
            }
            events
        };
        let mut tracks: Vec<_> = copies
            .into_iter()
            .map(|(of, records)| of.track(decode(records)))
            .collect();
        give_back(taken, &mut tracks);
        for (track, _) in has_lost.into_iter().enumerate().filter(|(_, is_lost)| *is_lost) {
            mark_loss(&mut tracks, track);
        }
        PoolEvents {
            name: name.to_owned(),
            workers,
            tracks,
        }
    }
}

fn kind(parts: Parts, sites: &[Arc<TaskSite>]) -> Option<EventKind> {
    let (address, site) = event::task_of_word(parts.word);
    let task = TaskKey(address);
    let site = || {
        usize::from(site)
            .checked_sub(1)
            .and_then(|at| sites.get(at).cloned())
    };
    let worker = usize::try_from(parts.word).unwrap_or(usize::MAX);
    let begin = |what| EventKind::Begin {
        what,
        task,
        site: site(),
    };
    Some(match parts.kind {
        Kind::Begin => begin(StepKind::Task),
        Kind::BeginFiber => begin(StepKind::Fiber),
        Kind::BeginFork => begin(StepKind::Fork),
        Kind::End => EventKind::End {
            how: StepEnd::of(parts.detail)?,
        },
        Kind::Push => EventKind::Push {
            task,
            why: Push::of(parts.detail)?,
        },
        Kind::Park => EventKind::Park,
        Kind::Unpark => EventKind::Unpark,
        Kind::WakeWorker => EventKind::WakeWorker {
            worker: (parts.word != ANY_WORKER).then_some(worker),
        },
        Kind::Steal => EventKind::Steal { tasks: parts.word },
        Kind::Overflow => EventKind::Overflow { tasks: parts.word },
        Kind::Transfer => EventKind::Transfer { task },
        Kind::Compensate => EventKind::Compensate { worker },
        Kind::Retire => EventKind::Retire { worker },
        Kind::Stall => EventKind::Stall { worker, report: None },
        Kind::Blocking => match StepEnd::of(parts.detail) {
            Some(how) => EventKind::End { how },
            None => begin(StepKind::Blocking),
        },
    })
}

/// Puts the begins of fibers' turns where their stamps belong: they are written at the ends, after what
/// happened meanwhile.
fn in_order(mut records: Vec<Record>) -> Vec<Record> {
    for at in 1..records.len() {
        let is_late = |parts: Parts| parts.kind == Kind::BeginFiber;
        if event::parts(records[at]).is_some_and(is_late) {
            let stamp = event::stamp_of(records[at]);
            let is_before = |record: &Record| event::stamp_of(*record) <= stamp;
            let place = records[..at]
                .iter()
                .rposition(is_before)
                .map_or(0, |before| before + 1);
            records[place..=at].rotate_right(1);
        }
    }
    records
}

/// Merges two sequences of records. The order within each stays, also where the clocks of two CPUs
/// disagree.
fn merge(sparse: Vec<Record>, steps: Vec<Record>) -> Vec<Record> {
    let mut all = Vec::with_capacity(sparse.len() + steps.len());
    let mut sparse = sparse.into_iter().peekable();
    for step in steps {
        // The stamps of a worker are close enough to compare their lower parts.
        let is_before = |rare: &Record| event::stamp_of(*rare) < event::stamp_of(step);
        while let Some(rare) = sparse.next_if(is_before) {
            all.push(rare);
        }
        all.push(step);
    }
    all.extend(sparse);
    all
}

/// Takes the records of closures that block out of those of other threads, and spreads them over tracks: a
/// track has one closure at a time.
fn split_blocking(records: Vec<Record>) -> (Vec<Record>, Vec<Vec<Record>>) {
    let mut tracks: Vec<(Option<u64>, Vec<Record>)> = Vec::new();
    let mut others = Vec::with_capacity(records.len());
    for record in records {
        let Some(Parts { detail, word, .. }) =
            event::parts(record).filter(|parts| parts.kind == Kind::Blocking)
        else {
            others.push(record);
            continue;
        };
        let wanted = (detail != 0).then_some(word);
        match tracks.iter_mut().find(|(open, _)| *open == wanted) {
            Some((open, track)) => {
                *open = (detail == 0).then_some(word);
                track.push(record);
            }
            None if detail == 0 => tracks.push((Some(word), vec![record])),
            // Its begin was overwritten.
            None => {}
        }
    }
    (others, tracks.into_iter().map(|(_, track)| track).collect())
}

/// Takes what threads with a name pushed out of the records of other threads. Returns the rest, and a track
/// for each of the `names` that pushed something.
fn split_threads(records: Vec<Record>, names: Vec<Arc<str>>) -> (Vec<Record>, Vec<(TrackOf, Vec<Record>)>) {
    let mut tracks: Vec<_> = names
        .into_iter()
        .map(|name| (TrackOf::Thread(name), Vec::new()))
        .collect();
    let mut others = Vec::with_capacity(records.len());
    for record in records {
        let push = event::parts(record).filter(|parts| parts.kind == Kind::Push);
        let number = push.and_then(|push| usize::from(event::task_of_word(push.word).1).checked_sub(1));
        match number.and_then(|number| tracks.get_mut(number)) {
            Some((_, track)) => track.push(record),
            None => others.push(record),
        }
    }
    tracks.retain(|(_, records)| !records.is_empty());
    (others, tracks)
}

/// Moves what thieves recorded to the workers from which they took forks. `taken` has the number of each.
fn give_back(taken: Vec<(usize, Event)>, tracks: &mut [Track]) {
    let own: Vec<usize> = tracks.iter().map(|track| track.events.len()).collect();
    for (worker, event) in taken {
        if let Some(track) = tracks.get_mut(worker) {
            track.events.push(event);
        }
    }
    for (track, own) in tracks.iter_mut().zip(own) {
        let events = &mut track.events;
        if events.len() > own {
            let order = events.iter().enumerate().map(|(place, event)| (ns(event), place));
            let order = by_key(order.collect()).into_iter();
            *events = order.map(|place| events[place].clone()).collect();
        }
    }
}

/// Marks the oldest step or push of a track whose earlier ones were overwritten. Rare events reach further
/// back. That of the other threads is marked before all that threads without a worker recorded.
fn mark_loss(tracks: &mut [Track], track: usize) {
    let is_step = |event: &Event| {
        matches!(
            event.kind,
            EventKind::Begin { .. } | EventKind::End { .. } | EventKind::Push { .. }
        )
    };
    let oldest = if tracks[track].worker.is_some() {
        let at = tracks[track].events.iter().position(is_step);
        at.map(|at| (at, tracks[track].events[at].at))
    } else {
        let outside = tracks.iter().filter(|track| track.worker.is_none());
        let first = outside.filter_map(|track| Some(track.events.first()?.at));
        first.min().map(|first| (0, first))
    };
    if let Some((index, at)) = oldest {
        let kind = EventKind::Lost;
        tracks[track].events.insert(index, Event { at, kind });
    }
}
