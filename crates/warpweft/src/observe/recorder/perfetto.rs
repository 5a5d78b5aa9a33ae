//! A snapshot in the format of Perfetto: the protocol buffers of its `Trace`, written by hand.
//!
//! Each track is a sequence of packets. Names are interned, timestamps are differences, and the track is
//! the sequence's default, so that an event takes 11 bytes and a flow 10 more.
//!
//! | of a task | where it is in the trace |
//! |---|---|
//! | number | the upper 40 bits of the id of the flow that ends at a slice; the annotation `task` without a flow |
//! | step | a slice of a worker's track; its category says how it ended: `ended`, `waits`, `again`, `left` |
//! | runnable | the instant `spawned`, `injected`, `woken` or `taken` at which the flow begins |
//! | what the report of a stall says | the annotation `report` of the instant `worker N is stuck` |
//! | spawner, waker | the slice around that instant; none on the tracks of threads without a worker |

use super::event::StepEnd;
use super::numbers::{EventLink, link};
use super::sites::Numbers;
use super::snapshot::{Event, EventKind, PoolEvents, Snapshot, StepKind, Track};
use std::io::{self, Write};

/// `Trace.packet`.
const PACKET: u32 = 1;

/// Fields of `TracePacket`.
mod packet {
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const CLOCK_ID: u32 = 58;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
}

/// Fields of `TrackEvent`.
mod track_event {
    pub(super) const CATEGORY_IIDS: u32 = 3;
    pub(super) const DEBUG_ANNOTATIONS: u32 = 4;
    pub(super) const TYPE: u32 = 9;
    pub(super) const NAME_IID: u32 = 10;
    pub(super) const COUNTER_VALUE: u32 = 30;
    pub(super) const FLOW_IDS: u32 = 47;
    pub(super) const TERMINATING_FLOW_IDS: u32 = 48;
    pub(super) const SLICE_BEGIN: u64 = 1;
    pub(super) const SLICE_END: u64 = 2;
    pub(super) const INSTANT: u64 = 3;
    pub(super) const COUNTER: u64 = 4;
}

/// Fields of `InternedData`.
mod interned {
    pub(super) const CATEGORIES: u32 = 1;
    pub(super) const NAMES: u32 = 2;
    pub(super) const ANNOTATION_NAMES: u32 = 3;
}

/// Fields of `DebugAnnotation`.
mod annotation {
    pub(super) const NAME_IID: u32 = 1;
    pub(super) const UINT_VALUE: u32 = 3;
    pub(super) const STRING_VALUE: u32 = 6;
}

/// Fields of `TracePacketDefaults` and its `TrackEventDefaults`.
mod defaults {
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const TRACK_UUID: u32 = 11;
}

/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE`.
const FIRST_OF_SEQUENCE: u64 = 1 | 2;
/// A clock of a sequence, in differences of nanoseconds.
const CLOCK: u64 = 64;
/// `BUILTIN_CLOCK_BOOTTIME`, the clock of a trace by default.
const TRACE_CLOCK: u64 = 6;
/// The number of runnable tasks is written at most this often in a trace.
const DEPTHS: u64 = 4000;

/// A message of protocol buffers.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field << 3));
        self.varint(value);
        self
    }

    fn fixed(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field << 3 | 1));
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.varint(u64::from(field << 3 | 2));
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    fn message(self, field: u32, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    fn with(self, add: impl FnOnce(Self) -> Self) -> Self {
        add(self)
    }
}

fn message() -> Message {
    Message::default()
}

/// See [`Snapshot::write_perfetto`].
pub(super) fn write(snapshot: &Snapshot, to: &mut dyn Write) -> io::Result<()> {
    let linked = link(snapshot);
    let mut sequence = 0;
    for (at, pool) in snapshot.pools.iter().enumerate() {
        let pool_uuid = uuid(at, 0);
        let group = message()
            .number(1, pool_uuid)
            .text(2, &format!("pool {}", pool.name));
        put(to, &message().message(packet::TRACK_DESCRIPTOR, &group))?;
        for (index, track) in pool.tracks.iter().enumerate() {
            // Of compensating workers, those that worked.
            if track.events.is_empty() && track.worker.is_none_or(|worker| worker >= pool.workers) {
                continue;
            }
            sequence += 1;
            let links = &linked.links[at][index];
            write_track(to, track, sequence, uuid(at, index + 1), pool_uuid, links)?;
        }
        sequence += 1;
        write_depths(
            to,
            pool,
            sequence,
            uuid(at, pool.tracks.len() + 1),
            pool_uuid,
            &thin(&linked.depths[at]),
        )?;
    }
    to.flush()
}

fn uuid(pool: usize, track: usize) -> u64 {
    (pool as u64 + 1) << 32 | track as u64
}

fn put(to: &mut dyn Write, packet: &Message) -> io::Result<()> {
    to.write_all(&message().message(PACKET, packet).0)
}

/// A sequence of packets with a track and a clock of its own.
struct Sequence<'a> {
    to: &'a mut dyn Write,
    id: u64,
    last_ns: u64,
    /// By field of `InternedData`.
    names: [Numbers<str>; 4],
}

impl<'a> Sequence<'a> {
    fn begin(to: &'a mut dyn Write, id: u64, uuid: u64, track: &Message, start_ns: u64) -> io::Result<Self> {
        let clock = |id, ns| message().number(1, id).number(2, ns);
        let clocks = message()
            .message(1, &clock(CLOCK, start_ns).number(3, 1))
            .message(1, &clock(TRACE_CLOCK, start_ns))
            .number(2, TRACE_CLOCK);
        let defaults = message()
            .message(
                defaults::TRACK_EVENT,
                &message().number(defaults::TRACK_UUID, uuid),
            )
            .number(packet::CLOCK_ID, CLOCK);
        let first = message()
            .number(packet::SEQUENCE_ID, id)
            .number(packet::SEQUENCE_FLAGS, FIRST_OF_SEQUENCE)
            .message(packet::CLOCK_SNAPSHOT, &clocks)
            .message(packet::DEFAULTS, &defaults);
        put(to, &first)?;
        let track = message()
            .number(packet::SEQUENCE_ID, id)
            .message(packet::TRACK_DESCRIPTOR, track);
        put(to, &track)?;
        Ok(Self {
            to,
            id,
            last_ns: start_ns,
            names: Default::default(),
        })
    }

    /// Returns the number of a text in that field of `InternedData`. The first use writes it.
    fn intern(&mut self, field: u32, text: &str) -> io::Result<u64> {
        let names = &mut self.names[field as usize];
        let known = names.all().len();
        let iid = names.number(text).into();
        if names.all().len() == known {
            return Ok(iid);
        }
        let interned = message().message(field, &message().number(1, iid).text(2, text));
        let packet = message()
            .number(packet::SEQUENCE_ID, self.id)
            .message(packet::INTERNED_DATA, &interned);
        put(self.to, &packet)?;
        Ok(iid)
    }

    fn event(&mut self, ns: u64, kind: u64, rest: impl FnOnce(Message) -> Message) -> io::Result<()> {
        let event = rest(message().number(track_event::TYPE, kind));
        let packet = message()
            .number(packet::TIMESTAMP, ns - self.last_ns)
            .number(packet::SEQUENCE_ID, self.id)
            .message(packet::TRACK_EVENT, &event);
        self.last_ns = ns;
        put(self.to, &packet)
    }
}

pub(super) fn ns(event: &Event) -> u64 {
    u64::try_from(event.at.as_nanos()).unwrap_or(u64::MAX)
}

fn write_track(
    to: &mut dyn Write,
    track: &Track,
    id: u64,
    uuid: u64,
    pool_uuid: u64,
    links: &[EventLink],
) -> io::Result<()> {
    let name = match (track.worker, track.blocking, &track.thread) {
        (Some(worker), _, _) => format!("worker {worker}"),
        (None, Some(number), _) => format!("blocking {number}"),
        (None, None, Some(name)) => format!("thread {name}"),
        (None, None, None) => "other threads".to_owned(),
    };
    let descriptor = message().number(1, uuid).text(2, &name).number(5, pool_uuid);
    let start = track.events.first().map_or(0, ns);
    let mut sequence = Sequence::begin(to, id, uuid, &descriptor, start)?;
    // A track has one slice at a time: a step, or a sleep.
    let mut is_open = false;
    for (index, event) in track.events.iter().enumerate() {
        let ns = ns(event);
        let begins = matches!(event.kind, EventKind::Begin { .. } | EventKind::Park);
        let ends = matches!(event.kind, EventKind::End { .. } | EventKind::Unpark);
        if is_open && (begins || ends) {
            sequence.event(ns, track_event::SLICE_END, |event| event)?;
            is_open = false;
        }
        if ends {
            continue;
        }
        let iid = sequence.intern(interned::NAMES, &label(&event.kind))?;
        let EventLink { flow, task } = links[index];
        let named = |event: Message| event.number(track_event::NAME_IID, iid);
        if begins {
            is_open = true;
            let category = match step_end(&track.events[index..]) {
                Some(how) => Some(sequence.intern(interned::CATEGORIES, how.name())?),
                None => None,
            };
            // The flow has the number of the task as well.
            let annotation = match task.filter(|_| flow.is_none()) {
                Some(task) => {
                    let iid = sequence.intern(interned::ANNOTATION_NAMES, "task")?;
                    let named = message().number(annotation::NAME_IID, iid);
                    Some(named.number(annotation::UINT_VALUE, task))
                }
                None => None,
            };
            sequence.event(ns, track_event::SLICE_BEGIN, |event| {
                let event = named(event)
                    .with(|event| match category {
                        Some(iid) => event.number(track_event::CATEGORY_IIDS, iid),
                        None => event,
                    })
                    .with(|event| match &annotation {
                        Some(task) => event.message(track_event::DEBUG_ANNOTATIONS, task),
                        None => event,
                    });
                match flow {
                    Some(flow) => event.fixed(track_event::TERMINATING_FLOW_IDS, flow),
                    None => event,
                }
            })?;
        } else {
            let report = match &event.kind {
                EventKind::Stall {
                    report: Some(report), ..
                } => {
                    let iid = sequence.intern(interned::ANNOTATION_NAMES, "report")?;
                    let named = message().number(annotation::NAME_IID, iid);
                    Some(named.text(annotation::STRING_VALUE, report))
                }
                _ => None,
            };
            sequence.event(ns, track_event::INSTANT, |event| {
                let event = named(event).with(|event| match &report {
                    Some(report) => event.message(track_event::DEBUG_ANNOTATIONS, report),
                    None => event,
                });
                match flow {
                    Some(flow) => event.fixed(track_event::FLOW_IDS, flow),
                    None => event,
                }
            })?;
        }
    }
    Ok(())
}

/// The name of a slice or an instant.
fn label(kind: &EventKind) -> String {
    match kind {
        EventKind::Begin { site: Some(site), .. } => site.to_string(),
        EventKind::Begin {
            what: StepKind::Task, ..
        } => "task".to_owned(),
        EventKind::Begin { what, .. } => what.name().to_owned(),
        EventKind::Park => "sleeps".to_owned(),
        EventKind::Push { why, .. } => why.name().to_owned(),
        EventKind::Steal { tasks } => format!("{} stolen", about(*tasks)),
        EventKind::Overflow { tasks } => format!("{} overflowed", about(*tasks)),
        EventKind::WakeWorker { worker: Some(worker) } => format!("wakes worker {worker}"),
        EventKind::WakeWorker { worker: None } => "wakes a worker".to_owned(),
        EventKind::Compensate { worker } => format!("sends worker {worker}"),
        EventKind::Retire { worker } => format!("worker {worker} retires"),
        EventKind::Stall { worker, .. } => format!("worker {worker} is stuck"),
        EventKind::Lost => "earlier events are lost".to_owned(),
        other => other.name().to_owned(),
    }
}

/// A number of which there are few different texts, because each is a name.
fn about(tasks: u64) -> String {
    if tasks < 10 {
        tasks.to_string()
    } else {
        format!("≥ {}", 10_u64.pow(tasks.ilog10()))
    }
}

fn write_depths(
    to: &mut dyn Write,
    pool: &PoolEvents,
    id: u64,
    uuid: u64,
    pool_uuid: u64,
    depths: &[(u64, u64)],
) -> io::Result<()> {
    let Some(&(start, _)) = depths.first() else {
        return Ok(());
    };
    let descriptor = message()
        .number(1, uuid)
        .text(2, &format!("runnable tasks of {}", pool.name))
        .number(5, pool_uuid)
        .message(8, &message());
    let mut sequence = Sequence::begin(to, id, uuid, &descriptor, start)?;
    for &(ns, depth) in depths {
        sequence.event(ns, track_event::COUNTER, |event| {
            event.number(track_event::COUNTER_VALUE, depth)
        })?;
    }
    Ok(())
}

/// Returns how the step ended with which these events begin.
pub(super) fn step_end(events: &[Event]) -> Option<StepEnd> {
    let [begin, rest @ ..] = events else {
        return None;
    };
    if !matches!(begin.kind, EventKind::Begin { .. }) {
        return None;
    }
    rest.iter().find_map(|event| match event.kind {
        EventKind::End { how } => Some(Some(how)),
        EventKind::Begin { .. } | EventKind::Park => Some(None),
        _ => None,
    })?
}

/// Leaves out values that follow each other too closely.
fn thin(values: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let span = values.last().map_or(0, |last| last.0 - values[0].0);
    let least = (span / DEPTHS).max(10_000);
    let mut kept: Vec<(u64, u64)> = Vec::new();
    for &value in values {
        if kept.last().is_none_or(|last| value.0 - last.0 >= least) {
            kept.push(value);
        }
    }
    kept
}
