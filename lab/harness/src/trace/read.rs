//! Reads a trace in Perfetto's format, as far as the flight recorder uses it.

use std::collections::{BTreeMap, HashMap};

use prost::Message;

use super::timeline::{Counter, End, Flow, Lane, Slice, Timeline};

/// Why a file is no trace.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum NoTrace {
    #[error("it is empty; a trace is what `Snapshot::write_perfetto` writes")]
    Empty,
    #[error("it is compressed by gzip; decompress it first")]
    Compressed,
    #[error(
        "it is no trace in Perfetto's format: byte {at} begins no packet; a trace is what `Snapshot::write_perfetto` writes"
    )]
    Foreign { at: usize },
    #[error(
        "it is cut off: packet {packet}, at byte {at}, needs {needed} bytes, and {left} are left; write it again"
    )]
    Cut {
        packet: usize,
        at: usize,
        needed: usize,
        left: usize,
    },
    #[error("packet {packet}, at byte {at}, is damaged: {reason}")]
    Damaged {
        packet: usize,
        at: usize,
        reason: String,
    },
    #[error("packet {packet} {what}: the trace is not one of the flight recorder")]
    Unknown { packet: usize, what: &'static str },
    #[error("it is a trace without tracks of workers: was it written by `Snapshot::write_perfetto`?")]
    NoTracks,
    #[error(
        "it has no steps of tasks, only rare events: call `runtime.recorder().record_steps(true)` before what is to be recorded"
    )]
    NoSteps,
}

/// The bits of a flow's id that count the flows of a task. The number of the task is above.
const FLOW_BITS: u32 = 24;

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(message, optional, tag = "6")]
    clocks: Option<ClockSnapshot>,
    #[prost(uint64, tag = "8")]
    timestamp: u64,
    #[prost(uint32, tag = "10")]
    sequence: u32,
    #[prost(message, optional, tag = "11")]
    event: Option<Event>,
    #[prost(message, optional, tag = "12")]
    interned: Option<Interned>,
    #[prost(message, optional, tag = "59")]
    defaults: Option<TraceDefaults>,
    #[prost(message, optional, tag = "60")]
    track: Option<Track>,
}

#[derive(Clone, PartialEq, Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
}

#[derive(Clone, PartialEq, Message)]
struct Clock {
    #[prost(uint64, tag = "2")]
    timestamp: u64,
    #[prost(bool, tag = "3")]
    is_incremental: bool,
}

#[derive(Clone, PartialEq, Message)]
struct TraceDefaults {
    #[prost(message, optional, tag = "11")]
    event: Option<EventDefaults>,
}

#[derive(Clone, PartialEq, Message)]
struct EventDefaults {
    #[prost(uint64, tag = "11")]
    track: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(uint64, repeated, tag = "3")]
    categories: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    annotations: Vec<Annotation>,
    #[prost(uint32, tag = "9")]
    kind: u32,
    #[prost(uint64, tag = "10")]
    name: u64,
    #[prost(int64, tag = "30")]
    value: i64,
    #[prost(fixed64, repeated, tag = "47")]
    flows: Vec<u64>,
    #[prost(fixed64, repeated, tag = "48")]
    flow_ends: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(uint64, tag = "3")]
    value: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Interned {
    #[prost(message, repeated, tag = "1")]
    categories: Vec<Name>,
    #[prost(message, repeated, tag = "2")]
    names: Vec<Name>,
}

#[derive(Clone, PartialEq, Message)]
struct Name {
    #[prost(uint64, tag = "1")]
    iid: u64,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Track {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, tag = "5")]
    parent: u64,
    #[prost(message, optional, tag = "8")]
    counter: Option<Empty>,
}

#[derive(Clone, PartialEq, Message)]
struct Empty {}

const SLICE_BEGIN: u32 = 1;
const SLICE_END: u32 = 2;
const INSTANT: u32 = 3;
const COUNTER: u32 = 4;

/// The key of a packet in a trace: field 1, of a known length.
const PACKET: u8 = 1 << 3 | 2;

/// What is known of a sequence of packets.
#[derive(Debug, Default)]
struct Sequence {
    now: Option<u64>,
    names: HashMap<u64, usize>,
    ends: HashMap<u64, End>,
    target: Option<TrackTarget>,
    /// The slice that is open. It lasts 0.
    open: Option<Slice>,
}

#[derive(Debug, Clone, Copy)]
enum TrackTarget {
    Lane(usize),
    Counter(usize),
}

/// Reads a trace.
pub(super) fn timeline(bytes: &[u8]) -> Result<Timeline, NoTrace> {
    match bytes {
        [] => return Err(NoTrace::Empty),
        [0x1f, 0x8b, ..] => return Err(NoTrace::Compressed),
        _ => {}
    }
    let mut reader = Reader::default();
    let (mut at, mut packet) = (0, 0);
    while at < bytes.len() {
        packet += 1;
        if bytes[at] != PACKET {
            return Err(NoTrace::Foreign { at });
        }
        let (needed, start) = match varint(&bytes[at + 1..]) {
            Some((length, used)) => (usize::try_from(length).unwrap_or(usize::MAX), at + 1 + used),
            // The length itself is cut off.
            None if bytes.len() - at <= 10 => (bytes.len() - at, at + 1),
            None => return Err(NoTrace::Foreign { at }),
        };
        let end = start.checked_add(needed);
        let Some(contents) = end.and_then(|end| bytes.get(start..end)) else {
            // What begins like a packet and is longer than anything that we write is of another kind.
            if packet == 1 && needed > 1 << 20 {
                return Err(NoTrace::Foreign { at });
            }
            let cut = NoTrace::Cut {
                packet,
                at,
                needed,
                left: bytes.len() - start,
            };
            if reader.timeline.lanes.is_empty() {
                return Err(cut);
            }
            reader.timeline.cut = Some(cut.to_string());
            break;
        };
        let decoded = Packet::decode(contents).map_err(|error| match packet {
            1 => NoTrace::Foreign { at },
            _ => NoTrace::Damaged {
                packet,
                at,
                reason: error.to_string(),
            },
        })?;
        reader
            .take(decoded)
            .map_err(|what| NoTrace::Unknown { packet, what })?;
        at = start + needed;
    }
    reader.finish()
}

/// Reads a number of variable length. Returns it, and how many bytes it has.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}

/// How many characters of a name are shown.
const SHOWN: usize = 200;

/// A name of the program, for a terminal or a picture: one line, and not longer than a few of them. A spawn
/// site has its line at the end, so the middle is left out.
fn shown(name: &str) -> String {
    let characters = name.chars().count();
    let (first, last) = (SHOWN / 2, characters.saturating_sub(SHOWN / 2));
    let mut shown = String::new();
    for (at, character) in name.chars().enumerate() {
        match character {
            _ if characters > SHOWN && (first..last).contains(&at) => {
                if at == first {
                    shown.push('…');
                }
            }
            character if character.is_control() => shown.extend(character.escape_default()),
            character => shown.push(character),
        }
    }
    shown
}

#[derive(Debug, Default)]
struct Reader {
    sequences: BTreeMap<u32, Sequence>,
    groups: HashMap<u64, String>,
    tracks: HashMap<u64, TrackTarget>,
    names: HashMap<String, usize>,
    starts: HashMap<u64, (usize, u64, usize)>,
    ends: Vec<(u64, usize, u64)>,
    timeline: Timeline,
}

impl Reader {
    fn take(&mut self, packet: Packet) -> Result<(), &'static str> {
        let sequence = self.sequences.entry(packet.sequence).or_default();
        if let Some(snapshot) = &packet.clocks {
            let own = snapshot.clocks.iter().find(|clock| clock.is_incremental);
            sequence.now = own.map(|clock| clock.timestamp);
        }
        let interned = packet.interned.unwrap_or_default();
        for end in interned.categories {
            sequence.ends.insert(end.iid, End::named(&end.name));
        }
        for name in interned.names {
            let next = self.names.len();
            let index = *self.names.entry(name.name.clone()).or_insert(next);
            if index == next {
                self.timeline.names.push(shown(&name.name));
            }
            sequence.names.insert(name.iid, index);
        }
        let default = packet.defaults.and_then(|defaults| defaults.event);
        if let Some(track) = packet.track {
            if packet.sequence == 0 {
                self.groups.insert(track.uuid, track.name);
                return Ok(());
            }
            let target = if track.counter.is_some() {
                self.timeline.counters.push(Counter {
                    name: track.name,
                    values: Vec::new(),
                });
                TrackTarget::Counter(self.timeline.counters.len() - 1)
            } else {
                let group = self.groups.get(&track.parent);
                let name = match group {
                    Some(group) => {
                        let pool = group.strip_prefix("pool ").unwrap_or(group);
                        format!("{} / {}", shown(pool), shown(&track.name))
                    }
                    None => shown(&track.name),
                };
                self.timeline.lanes.push(Lane {
                    name,
                    ..Lane::default()
                });
                TrackTarget::Lane(self.timeline.lanes.len() - 1)
            };
            self.tracks.insert(track.uuid, target);
            sequence.target = Some(target);
        } else if let Some(default) = default
            && let Some(target) = self.tracks.get(&default.track)
        {
            sequence.target = Some(*target);
        }
        match packet.event {
            Some(event) => self.event(packet.sequence, packet.timestamp, &event),
            None => Ok(()),
        }
    }

    fn event(&mut self, sequence: u32, timestamp: u64, event: &Event) -> Result<(), &'static str> {
        let sequence = self.sequences.entry(sequence).or_default();
        let now = sequence
            .now
            .as_mut()
            .ok_or("has a time without a clock of differences")?;
        *now = now.checked_add(timestamp).ok_or("has a time beyond all")?;
        let now = *now;
        let target = sequence.target.ok_or("has an event without a track")?;
        let name = sequence.names.get(&event.name).copied();
        let lane = match target {
            TrackTarget::Counter(at) if event.kind == COUNTER => {
                self.timeline.counters[at].values.push((now, event.value));
                return Ok(());
            }
            TrackTarget::Lane(lane) => lane,
            TrackTarget::Counter(_) => return Err("has an event on the track of a counter"),
        };
        let slices = &mut self.timeline.lanes[lane].slices;
        match event.kind {
            SLICE_BEGIN => {
                let of_flow = event.flow_ends.first().map(|flow| flow >> FLOW_BITS);
                let annotated = event.annotations.first().map(|task| task.value);
                let end = event.categories.first().and_then(|iid| sequence.ends.get(iid));
                sequence.open = Some(Slice {
                    start: now,
                    lasts: 0,
                    name: name.ok_or("has a slice without a name")?,
                    task: of_flow.or(annotated).unwrap_or(0),
                    end: end.copied().unwrap_or_default(),
                });
            }
            SLICE_END => {
                let open = sequence.open.take().ok_or("ends a slice that has not begun")?;
                let lasts = now - open.start;
                slices.push(Slice { lasts, ..open });
            }
            INSTANT => {
                let name = name.ok_or("has an event without a name")?;
                self.timeline.lanes[lane].instants.push((now, name));
            }
            _ => return Err("has an event of an unknown kind"),
        }
        for flow in &event.flows {
            let why = name.ok_or("has a flow without a name")?;
            self.starts.insert(*flow, (lane, now, why));
        }
        for flow in &event.flow_ends {
            self.ends.push((*flow, lane, now));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Timeline, NoTrace> {
        if self.timeline.lanes.is_empty() {
            return Err(NoTrace::NoTracks);
        }
        for (flow, to, at) in self.ends {
            if let Some(&(from, since, why)) = self.starts.get(&flow) {
                self.timeline.flows.push(Flow {
                    from,
                    since,
                    to,
                    at,
                    why,
                });
            }
        }
        // A slice that is still open lasts to the end.
        let last = self
            .sequences
            .values()
            .filter_map(|sequence| sequence.now)
            .max()
            .unwrap_or(0);
        for sequence in self.sequences.values() {
            if let (Some(open), Some(TrackTarget::Lane(lane))) = (sequence.open, sequence.target) {
                let lasts = last - open.start;
                self.timeline.lanes[lane].slices.push(Slice { lasts, ..open });
            }
        }
        self.timeline.shift();
        Ok(self.timeline)
    }
}

#[cfg(test)]
mod tests {
    use super::{NoTrace, shown, timeline};
    use crate::trace::EXAMPLE as TRACE;
    use crate::trace::page;
    use crate::trace::slowest::slowest;

    #[test]
    fn a_trace_becomes_lanes_slices_and_arrows() {
        let timeline = timeline(TRACE).expect("a trace");
        let lanes: Vec<_> = timeline.lanes.iter().map(|lane| lane.name.as_str()).collect();
        assert_eq!(
            lanes,
            ["main / worker 0", "main / worker 1", "main / other threads"]
        );
        let slices: usize = timeline.lanes.iter().map(|lane| lane.slices.len()).sum();
        assert!(slices > 10 && timeline.flows.len() > 10);
        for lane in &timeline.lanes {
            assert!(
                lane.slices
                    .iter()
                    .all(|slice| slice.start + slice.lasts <= timeline.span)
            );
        }
        assert!(
            timeline
                .flows
                .iter()
                .all(|flow| flow.since <= flow.at && flow.at <= timeline.span)
        );
        assert!(timeline.counters[0].values.iter().any(|value| value.1 > 0));
        assert!(timeline.names.iter().any(|name| name == "answer"));
        assert!(
            timeline.summary(None).starts_with("3 lanes"),
            "{}",
            timeline.summary(None)
        );
    }

    #[test]
    fn names_are_shown_in_one_line() {
        assert_eq!(shown("src/main.rs:31:9 ü"), "src/main.rs:31:9 ü");
        // A name of the program could clear the terminal of the reader, or look like a part of the report.
        assert_eq!(shown("a\u{1b}[2J\n  1. b"), "a\\u{1b}[2J\\n  1. b");
        let long = format!("a{}src/main.rs:31:9", "ü".repeat(100_000));
        let text = shown(&long);
        assert_eq!(text.chars().count(), 201);
        assert!(
            text.starts_with("aü") && text.ends_with("üsrc/main.rs:31:9"),
            "{text}"
        );
    }

    #[test]
    fn the_page_is_whole_and_names_cannot_break_out() {
        let mut timeline = timeline(TRACE).expect("a trace");
        timeline.names.push("</script><b>&".to_owned());
        let page = page::page(&timeline, "<file>").expect("it is written");
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.contains("&lt;file&gt;") && page.ends_with("</html>\n"));
        assert!(
            !page.contains("http://") && !page.contains("https://"),
            "nothing is loaded"
        );
    }

    #[test]
    fn a_cut_file_is_read_as_far_as_it_is_whole_and_says_where_it_ends() {
        let mut shown = 0;
        for length in 1..TRACE.len() {
            match timeline(&TRACE[..length]) {
                Err(NoTrace::Cut { packet, .. }) => assert!(packet > 0),
                Ok(timeline) if timeline.cut.is_some() => {
                    shown += 1;
                    let text = timeline.lacks().join(" ");
                    assert!(text.contains("cut off") && text.contains("are left"), "{text}");
                }
                // Cut between two packets.
                Ok(_) | Err(NoTrace::NoTracks) => {}
                Err(other) => panic!("{length}: {other}"),
            }
        }
        assert!(shown > TRACE.len() / 2, "what is whole is shown: {shown}");
    }

    #[test]
    fn foreign_files_are_refused() {
        assert_eq!(timeline(b"").err(), Some(NoTrace::Empty));
        assert_eq!(timeline(&[0x1f, 0x8b, 8]).err(), Some(NoTrace::Compressed));
        for foreign in [
            &b"{\"traceEvents\":[]}"[..],
            b"\x7fELF\x02\x01\x01",
            b"\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            assert!(
                matches!(timeline(foreign), Err(NoTrace::Foreign { at: 0 })),
                "{foreign:?}"
            );
        }
        // A text that begins with a line break begins like a packet.
        let text = timeline(b"\nHello, this is a text with some lines.\nAnd another one.\n");
        assert!(text.is_err());
        // A packet of other data only.
        assert_eq!(timeline(&[0x0a, 2, 0x50, 1]).err(), Some(NoTrace::NoTracks));
    }

    #[test]
    fn damaged_bytes_are_an_error_or_another_trace_but_no_panic() {
        for at in 0..TRACE.len() {
            for bits in [0xff, 0x80, 0x01] {
                let mut damaged = TRACE.to_vec();
                damaged[at] ^= bits;
                if let Ok(timeline) = timeline(&damaged) {
                    let _ = slowest(&timeline, 3).text();
                }
            }
        }
    }
}
