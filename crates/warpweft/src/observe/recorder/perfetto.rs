//! A snapshot in the format of Perfetto: the protocol buffers of its `Trace`, written by hand.
//!
//! Each track is a sequence of packets. Names are interned, timestamps are differences, and the track is the
//! sequence's default, so that an event takes 11 bytes and a flow 10 more.

use super::snapshot::{Event, EventKind, PoolEvents, Snapshot, StepKind, TaskKey, Track};
use std::collections::HashMap;
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

/// Flows by the place of an event: pool, track and index.
type Flows = HashMap<(usize, usize, usize), u64>;

/// See [`Snapshot::write_perfetto`].
pub(super) fn write(snapshot: &Snapshot, mut to: impl Write) -> io::Result<()> {
    let (flows, depths) = connect(snapshot);
    let mut sequence = 0;
    for (at, pool) in snapshot.pools.iter().enumerate() {
        let pool_uuid = uuid(at, 0);
        let group = message()
            .number(1, pool_uuid)
            .text(2, &format!("pool {}", pool.name));
        put(&mut to, &message().message(packet::TRACK_DESCRIPTOR, &group))?;
        for (index, track) in pool.tracks.iter().enumerate() {
            // Of compensating workers, those that worked.
            if track.events.is_empty() && track.worker.is_none_or(|worker| worker >= pool.workers) {
                continue;
            }
            sequence += 1;
            let flow = |event| flows.get(&(at, index, event)).copied();
            write_track(&mut to, track, sequence, uuid(at, index + 1), pool_uuid, flow)?;
        }
        sequence += 1;
        write_depths(
            &mut to,
            pool,
            sequence,
            uuid(at, pool.tracks.len() + 1),
            pool_uuid,
            &depths[at],
        )?;
    }
    to.flush()
}

fn uuid(pool: usize, track: usize) -> u64 {
    (pool as u64 + 1) << 32 | track as u64
}

fn put(to: &mut impl Write, packet: &Message) -> io::Result<()> {
    to.write_all(&message().message(PACKET, packet).0)
}

/// A sequence of packets with a track and a clock of its own.
struct Sequence<W> {
    to: W,
    id: u64,
    last_ns: u64,
    names: HashMap<String, u64>,
}

impl<W: Write> Sequence<W> {
    fn begin(mut to: W, id: u64, uuid: u64, track: &Message, start_ns: u64) -> io::Result<Self> {
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
        put(&mut to, &first)?;
        let track = message()
            .number(packet::SEQUENCE_ID, id)
            .message(packet::TRACK_DESCRIPTOR, track);
        put(&mut to, &track)?;
        Ok(Self {
            to,
            id,
            last_ns: start_ns,
            names: HashMap::new(),
        })
    }

    /// Returns the number of a name. The first use writes it.
    fn name(&mut self, name: &str) -> io::Result<u64> {
        if let Some(&iid) = self.names.get(name) {
            return Ok(iid);
        }
        let iid = self.names.len() as u64 + 1;
        self.names.insert(name.to_owned(), iid);
        let interned = message().message(2, &message().number(1, iid).text(2, name));
        let packet = message()
            .number(packet::SEQUENCE_ID, self.id)
            .message(packet::INTERNED_DATA, &interned);
        put(&mut self.to, &packet)?;
        Ok(iid)
    }

    fn event(&mut self, ns: u64, kind: u64, rest: impl FnOnce(Message) -> Message) -> io::Result<()> {
        let event = rest(message().number(track_event::TYPE, kind));
        let packet = message()
            .number(packet::TIMESTAMP, ns - self.last_ns)
            .number(packet::SEQUENCE_ID, self.id)
            .message(packet::TRACK_EVENT, &event);
        self.last_ns = ns;
        put(&mut self.to, &packet)
    }
}

fn ns(event: &Event) -> u64 {
    u64::try_from(event.at.as_nanos()).unwrap_or(u64::MAX)
}

fn write_track(
    to: &mut impl Write,
    track: &Track,
    id: u64,
    uuid: u64,
    pool_uuid: u64,
    flow: impl Fn(usize) -> Option<u64>,
) -> io::Result<()> {
    let name = match track.worker {
        Some(worker) => format!("worker {worker}"),
        None => "other threads".to_owned(),
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
        let iid = sequence.name(&label(&event.kind))?;
        let flow = flow(index);
        let named = |event: Message| event.number(track_event::NAME_IID, iid);
        if begins {
            is_open = true;
            sequence.event(ns, track_event::SLICE_BEGIN, |event| {
                named(event).with(|event| match flow {
                    Some(flow) => event.fixed(track_event::TERMINATING_FLOW_IDS, flow),
                    None => event,
                })
            })?;
        } else {
            sequence.event(ns, track_event::INSTANT, |event| {
                named(event).with(|event| match flow {
                    Some(flow) => event.fixed(track_event::FLOW_IDS, flow),
                    None => event,
                })
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
        EventKind::Stall { worker } => format!("worker {worker} is stuck"),
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
    to: &mut impl Write,
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

/// Connects each push with the first step of its task that follows, by a number, and counts the runnable
/// tasks of each pool over time.
fn connect(snapshot: &Snapshot) -> (Flows, Vec<Vec<(u64, u64)>>) {
    let mut flows = Flows::new();
    let mut depths = Vec::new();
    let mut next_flow = 0;
    for (pool, events) in snapshot.pools.iter().enumerate() {
        let mut all = Vec::new();
        for (track, events) in events.tracks.iter().enumerate() {
            for (index, event) in events.events.iter().enumerate() {
                match event.kind {
                    // At the same time a push comes first.
                    EventKind::Push { task, .. } => all.push((ns(event), 0, task, (pool, track, index))),
                    EventKind::Begin {
                        what: StepKind::Task,
                        task,
                        ..
                    } => {
                        all.push((ns(event), 1, task, (pool, track, index)));
                    }
                    _ => {}
                }
            }
        }
        all.sort_unstable_by_key(|&(ns, order, _, place)| (ns, order, place));
        let mut pushed: HashMap<TaskKey, (usize, usize, usize)> = HashMap::new();
        let mut depth = Vec::with_capacity(all.len());
        for (ns, order, task, place) in all {
            if order == 0 {
                pushed.insert(task, place);
            } else if let Some(push) = pushed.remove(&task) {
                next_flow += 1;
                flows.insert(push, next_flow);
                flows.insert(place, next_flow);
            }
            depth.push((ns, pushed.len() as u64));
        }
        depths.push(thin(depth));
    }
    (flows, depths)
}

/// Leaves out values that follow each other too closely.
fn thin(values: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let span = values.last().map_or(0, |last| last.0 - values[0].0);
    let least = (span / DEPTHS).max(10_000);
    let mut kept: Vec<(u64, u64)> = Vec::new();
    for value in values {
        if kept.last().is_none_or(|last| value.0 - last.0 >= least) {
            kept.push(value);
        }
    }
    kept
}
