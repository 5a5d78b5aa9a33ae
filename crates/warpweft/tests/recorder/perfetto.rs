//! Trace files, read by another implementation of protocol buffers.

use prost::Message;
use std::collections::{BTreeSet, HashMap};
use std::process::Command;
use warpweft::{EventKind, Runtime, Snapshot, StepKind, spawn, spawn_job};

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(message, optional, tag = "6")]
    clocks: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    sequence: Option<u32>,
    #[prost(message, optional, tag = "11")]
    event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned: Option<Interned>,
    #[prost(uint32, optional, tag = "13")]
    flags: Option<u32>,
    #[prost(message, optional, tag = "59")]
    defaults: Option<Defaults>,
    #[prost(message, optional, tag = "60")]
    track: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
}

#[derive(Clone, PartialEq, Message)]
struct Clock {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(uint64, tag = "2")]
    timestamp: u64,
    #[prost(bool, tag = "3")]
    is_incremental: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Defaults {
    #[prost(message, optional, tag = "11")]
    event: Option<EventDefaults>,
    #[prost(uint32, tag = "58")]
    clock: u32,
}

#[derive(Clone, PartialEq, Message)]
struct EventDefaults {
    #[prost(uint64, tag = "11")]
    track: u64,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(uint32, tag = "9")]
    kind: u32,
    #[prost(uint64, tag = "10")]
    name: u64,
    #[prost(int64, optional, tag = "30")]
    counter: Option<i64>,
    #[prost(fixed64, repeated, tag = "47")]
    flows: Vec<u64>,
    #[prost(fixed64, repeated, tag = "48")]
    flow_ends: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Interned {
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
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, optional, tag = "5")]
    parent: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<Empty>,
}

#[derive(Clone, PartialEq, Message)]
struct Empty {}

const BEGIN: u32 = 1;
const END: u32 = 2;
const INSTANT: u32 = 3;
const COUNTER: u32 = 4;

/// An event with its time, its track's name and its own.
struct Found {
    ns: u64,
    track: String,
    name: String,
    event: TrackEvent,
}

/// Reads a trace as Perfetto does: clocks, names and tracks belong to the sequence of a packet.
fn read(bytes: &[u8]) -> (Vec<Found>, BTreeSet<String>) {
    let trace = Trace::decode(bytes).expect("protocol buffers");
    let (mut found, mut tracks) = (Vec::new(), HashMap::new());
    let mut clocks: HashMap<u32, u64> = HashMap::new();
    let mut defaults: HashMap<u32, u64> = HashMap::new();
    let mut names: HashMap<(u32, u64), String> = HashMap::new();
    for packet in trace.packet {
        let sequence = packet.sequence.unwrap_or(0);
        if let Some(snapshot) = &packet.clocks {
            assert_eq!(packet.flags, Some(3), "the first packet of its sequence");
            let own = &snapshot.clocks[0];
            assert!(own.id == 64 && own.is_incremental);
            assert_eq!(
                (snapshot.clocks[1].id, snapshot.clocks[1].timestamp),
                (6, own.timestamp)
            );
            assert!(clocks.insert(sequence, own.timestamp).is_none());
        }
        if let Some(given) = &packet.defaults {
            assert_eq!(given.clock, 64);
            defaults.insert(sequence, given.event.as_ref().expect("a track").track);
        }
        if let Some(track) = packet.track {
            assert!(tracks.insert(track.uuid, track).is_none(), "each track once");
        }
        for name in packet.interned.into_iter().flat_map(|interned| interned.names) {
            assert!(names.insert((sequence, name.iid), name.name).is_none());
        }
        if let Some(event) = packet.event {
            let clock = clocks.get_mut(&sequence).expect("a clock before events");
            *clock += packet.timestamp.expect("each event has one");
            let track = &tracks[&defaults[&sequence]];
            assert!(tracks.contains_key(&track.parent.expect("in a group")));
            let is_counter = event.kind == COUNTER;
            assert_eq!(track.counter.is_some(), is_counter);
            let has_name = matches!(event.kind, BEGIN | INSTANT);
            found.push(Found {
                ns: *clock,
                track: track.name.clone(),
                name: if has_name {
                    names[&(sequence, event.name)].clone()
                } else {
                    String::new()
                },
                event,
            });
        }
    }
    (found, tracks.into_values().map(|track| track.name).collect())
}

fn write(snapshot: &Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot.write_perfetto(&mut bytes).expect("memory");
    bytes
}

/// What a program with many steps and wakes leaves.
fn recorded(tasks: usize) -> Snapshot {
    let runtime = Runtime::builder()
        .workers(2)
        .name("main")
        .stuck_after(None)
        .build()
        .expect("a runtime");
    let recorder = runtime.recorder();
    recorder.record_steps(true);
    let root = runtime.spawn(async move {
        for _ in 0..tasks / 10 {
            let tasks: Vec<_> = (0..5).map(|n| spawn_job(move || n)).collect();
            let futures: Vec<_> = (0..5).map(|_| spawn(warpweft::yield_now())).collect();
            for task in tasks {
                task.await.expect("no panic");
            }
            for future in futures {
                future.await.expect("no panic");
            }
        }
    });
    root.wait().expect("no panic");
    drop(runtime);
    recorder.snapshot()
}

#[test]
fn every_worker_step_and_push_is_in_the_trace() {
    let snapshot = recorded(500);
    let (found, tracks) = read(&write(&snapshot));
    let expected = [
        "other threads",
        "pool main",
        "runnable tasks of main",
        "worker 0",
        "worker 1",
    ];
    assert_eq!(tracks.iter().map(String::as_str).collect::<Vec<_>>(), expected);

    let steps = snapshot
        .events()
        .filter(|event| matches!(event.kind, EventKind::Begin { .. }))
        .count();
    let here = |found: &&Found| found.event.kind == BEGIN && found.name.contains("perfetto.rs:");
    assert_eq!(found.iter().filter(here).count(), steps);
    assert!(steps >= 500);

    // Each track has one slice at a time, and times that ascend.
    for track in &tracks {
        let (mut open, mut last) = (0_i32, 0);
        for found in found.iter().filter(|found| found.track == *track) {
            assert!(found.ns >= last);
            last = found.ns;
            open += i32::from(found.event.kind == BEGIN) - i32::from(found.event.kind == END);
            assert!((0..=1).contains(&open), "{track}");
        }
    }

    // Each flow has one begin, one end, and does not go back in time.
    let mut flows = HashMap::new();
    for found in &found {
        for flow in &found.event.flows {
            assert!(matches!(found.name.as_str(), "spawned" | "woken" | "injected"));
            assert!(flows.insert(*flow, (found.ns, None)).is_none());
        }
    }
    for found in &found {
        for flow in &found.event.flow_ends {
            let (start, end) = flows.get_mut(flow).expect("a flow that begins");
            assert!(found.ns >= *start && end.replace(found.ns).is_none());
        }
    }
    let pushes = snapshot
        .events()
        .filter(|event| matches!(event.kind, EventKind::Push { .. }))
        .count();
    assert_eq!(flows.len(), pushes, "every task ran");
    assert!(flows.values().all(|(_, end)| end.is_some()));
    assert!(
        found
            .iter()
            .any(|found| found.event.counter.is_some_and(|depth| depth > 0))
    );
}

#[test]
fn an_event_takes_twenty_bytes() {
    let bytes = write(&recorded(20_000));
    let (found, _) = read(&bytes);
    let each = bytes.len() as f64 / found.len() as f64;
    assert!(
        found.len() > 20_000 && each <= 20.0,
        "{each:.2} bytes for each of {} events",
        found.len()
    );
}

#[test]
fn a_trace_without_steps_is_a_trace() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    runtime.spawn_job(|| ()).wait().expect("no panic");
    let (found, tracks) = read(&write(&runtime.recorder().snapshot()));
    assert!(tracks.contains("worker 0"));
    assert!(
        found
            .iter()
            .all(|found| found.track != "worker 0" || found.event.counter.is_none())
    );
    let other = Runtime::builder()
        .workers(1)
        .recorder_bytes(0)
        .build()
        .expect("a runtime");
    let (found, tracks) = read(&write(&other.recorder().snapshot()));
    assert!(found.is_empty() && tracks.contains("worker 0"));
}

/// Perfetto's own schema, where the package `perfetto` of Python's is installed. It is not needed otherwise.
#[test]
fn perfettos_schema_agrees_where_it_is_installed() {
    const SCRIPT: &str = "
import sys
try:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
except ImportError:
    sys.exit(42)
trace = schema.Trace()
trace.ParseFromString(open(sys.argv[1], 'rb').read())
kinds = [0] * 5
flows, ends, names, tracks, unknown = set(), set(), {}, set(), 0
for packet in trace.packet:
    if packet.HasField('track_descriptor'):
        tracks.add(packet.track_descriptor.name)
    if packet.HasField('track_event'):
        kinds[packet.track_event.type] += 1
        flows.update(packet.track_event.flow_ids)
        ends.update(packet.track_event.terminating_flow_ids)
        assert packet.HasField('timestamp')
    if packet.HasField('trace_packet_defaults'):
        assert packet.trace_packet_defaults.timestamp_clock_id == 64
        assert packet.trace_packet_defaults.track_event_defaults.track_uuid
    if packet.HasField('clock_snapshot'):
        assert packet.clock_snapshot.clocks[0].is_incremental
        assert packet.sequence_flags == 3
assert flows == ends, (len(flows), len(ends))
print(kinds[1], kinds[3], len(flows), sorted(tracks)[-1])
";
    let snapshot = recorded(300);
    let path = std::env::temp_dir().join(format!("warpweft-{}.perfetto-trace", std::process::id()));
    std::fs::write(&path, write(&snapshot)).expect("a file");
    let output = Command::new("python3").args(["-c", SCRIPT]).arg(&path).output();
    std::fs::remove_file(&path).expect("it is there");
    let Ok(output) = output else {
        return eprintln!("python3 is not installed: skipped");
    };
    if output.status.code() == Some(42) {
        return eprintln!("the Python package `perfetto` is not installed: skipped");
    }
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (found, _) = read(&write(&snapshot));
    let count = |kind| found.iter().filter(|found| found.event.kind == kind).count();
    let pushes = snapshot
        .events()
        .filter(|event| matches!(event.kind, EventKind::Push { .. }))
        .count();
    let expected = format!("{} {} {pushes} worker 1", count(BEGIN), count(INSTANT));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected);
    let is_task = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::Begin {
                what: StepKind::Task,
                ..
            }
        )
    };
    assert!(snapshot.events().any(|event| is_task(&event.kind)));
}
