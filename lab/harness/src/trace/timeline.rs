//! A trace as the page and a replay need it.

use serde::{Serialize, Serializer};

/// A trace: lanes with what is in them, all times in nanoseconds since its beginning.
#[derive(Debug, Default, Serialize)]
pub(super) struct Timeline {
    pub(super) span: u64,
    pub(super) names: Vec<String>,
    pub(super) lanes: Vec<Lane>,
    pub(super) counters: Vec<Counter>,
    pub(super) flows: Vec<Flow>,
    /// Why the end is missing, if the file is cut off.
    #[serde(skip)]
    pub(super) cut: Option<String>,
}

/// The event with which a track begins whose earlier records were overwritten.
const LOST: &str = "earlier events are lost";

#[derive(Debug, Default, Serialize)]
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) slices: Vec<Slice>,
    /// When, name.
    pub(super) instants: Vec<(u64, usize)>,
}

/// A step of a task, or a sleep of a worker. In the page it is a list of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) start: u64,
    pub(super) lasts: u64,
    pub(super) name: usize,
    /// The number of the task; 0 if it has none.
    pub(super) task: u64,
    pub(super) end: End,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) enum End {
    /// The step had not ended, or it is not known.
    #[default]
    #[serde(rename = "")]
    Unknown,
    #[serde(rename = "ended")]
    Ended,
    #[serde(rename = "waits")]
    Waits,
    #[serde(rename = "again")]
    Again,
    #[serde(rename = "left")]
    Left,
}

impl End {
    pub(super) fn named(name: &str) -> Self {
        match name {
            "ended" => Self::Ended,
            "waits" => Self::Waits,
            "again" => Self::Again,
            "left" => Self::Left,
            _ => Self::Unknown,
        }
    }
}

impl Serialize for Slice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.start, self.lasts, self.name, self.task, self.end).serialize(serializer)
    }
}

/// From a push to the step that follows. In the page it is a list of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    /// The lane of the push, and when.
    pub(super) from: usize,
    pub(super) since: u64,
    /// The lane of the step, and when it began.
    pub(super) to: usize,
    pub(super) at: u64,
    /// The name of the push: `spawned`, `injected` or `woken`.
    pub(super) why: usize,
}

impl Serialize for Flow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.from, self.since, self.to, self.at, self.why).serialize(serializer)
    }
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Counter {
    pub(super) name: String,
    pub(super) values: Vec<(u64, i64)>,
}

impl Timeline {
    /// Lets all times begin at 0.
    pub(super) fn shift(&mut self) {
        let lanes = self.lanes.iter();
        let slices = lanes.clone().flat_map(|lane| {
            lane.slices
                .iter()
                .map(|slice| (slice.start, slice.start + slice.lasts))
        });
        let instants = lanes.flat_map(|lane| lane.instants.iter().map(|instant| (instant.0, instant.0)));
        let all = slices.chain(instants).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (start, end) = all.unwrap_or_default();
        for lane in &mut self.lanes {
            lane.slices.iter_mut().for_each(|slice| slice.start -= start);
            lane.instants.iter_mut().for_each(|instant| instant.0 -= start);
        }
        for counter in &mut self.counters {
            counter
                .values
                .iter_mut()
                .for_each(|value| value.0 = value.0.saturating_sub(start));
        }
        for flow in &mut self.flows {
            flow.since -= start;
            flow.at -= start;
        }
        self.span = end - start;
    }

    /// What a reader must know of the trace: that its end is missing, and from when on a lane is complete.
    pub(super) fn lacks(&self) -> Vec<String> {
        let cut = self.cut.iter();
        let mut lacks: Vec<String> = cut
            .map(|cut| {
                format!("{cut}. Only what is before that place is shown, and lanes behind it are missing")
            })
            .collect();
        for lane in &self.lanes {
            let mut lost = lane.instants.iter().filter(|(_, name)| self.names[*name] == LOST);
            let Some((since, _)) = lost.next() else {
                continue;
            };
            let since = *since as f64 / 1e6;
            lacks.push(if lane.name.ends_with("other threads") {
                format!(
                    "spawns and wakes by threads outside of the runtime are known from {since:.3} ms on: earlier ones \
                     were overwritten in the ring of `{}`, so what woke a task before is not recorded",
                    lane.name
                )
            } else {
                format!(
                    "steps on `{}` are known from {since:.3} ms on: earlier ones were overwritten in its ring",
                    lane.name
                )
            });
        }
        lacks
    }

    /// One line about it, or about the part between two moments.
    pub(super) fn summary(&self, part: Option<(u64, u64)>) -> String {
        let (from, to) = part.unwrap_or((0, u64::MAX));
        let slices = self.lanes.iter().flat_map(|lane| &lane.slices);
        let slices = slices.filter(|slice| slice.start <= to && slice.start + slice.lasts >= from);
        let arrows = self
            .flows
            .iter()
            .filter(|flow| flow.since <= to && flow.at >= from);
        let span = part.map_or(self.span, |(from, to)| to - from);
        format!(
            "{} lanes, {} slices, {} arrows over {:.3} ms",
            self.lanes.len(),
            slices.count(),
            arrows.count(),
            span as f64 / 1e6
        )
    }
}
