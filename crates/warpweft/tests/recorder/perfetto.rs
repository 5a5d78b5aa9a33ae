//! Trace files, read by another implementation of protocol buffers.

use prost::Message;
use std::collections::{BTreeSet, HashMap};
use std::process::Command;
use warpweft::{EventKind, Push, Runtime, Snapshot, StepKind, spawn, spawn_job};

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
    #[prost(uint64, repeated, tag = "3")]
    categories: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    annotations: Vec<Annotation>,
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
struct Annotation {
    #[prost(uint64, tag = "1")]
    name: u64,
    #[prost(uint64, optional, tag = "3")]
    value: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Interned {
    #[prost(message, repeated, tag = "1")]
    categories: Vec<Name>,
    #[prost(message, repeated, tag = "2")]
    names: Vec<Name>,
    #[prost(message, repeated, tag = "3")]
    annotations: Vec<Name>,
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
    category: Option<String>,
    /// The number of the task of a step.
    task: Option<u64>,
    event: TrackEvent,
}

/// Reads a trace as Perfetto does: clocks, names and tracks belong to the sequence of a packet.
fn read(bytes: &[u8]) -> (Vec<Found>, BTreeSet<String>) {
    let trace = Trace::decode(bytes).expect("protocol buffers");
    let (mut found, mut tracks) = (Vec::new(), HashMap::new());
    let mut clocks: HashMap<u32, u64> = HashMap::new();
    let mut defaults: HashMap<u32, u64> = HashMap::new();
    let mut names: HashMap<(u32, u8, u64), String> = HashMap::new();
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
        let interned = packet.interned.unwrap_or_default();
        for (kind, all) in [
            (0, interned.names),
            (1, interned.categories),
            (2, interned.annotations),
        ] {
            for name in all {
                assert!(names.insert((sequence, kind, name.iid), name.name).is_none());
            }
        }
        if let Some(event) = packet.event {
            let clock = clocks.get_mut(&sequence).expect("a clock before events");
            *clock += packet.timestamp.expect("each event has one");
            let track = &tracks[&defaults[&sequence]];
            assert!(tracks.contains_key(&track.parent.expect("in a group")));
            let is_counter = event.kind == COUNTER;
            assert_eq!(track.counter.is_some(), is_counter);
            let has_name = matches!(event.kind, BEGIN | INSTANT);
            let of_flow = event.flow_ends.first().map(|flow| flow >> 24);
            let annotated = event.annotations.first().map(|annotation| {
                assert_eq!(names[&(sequence, 2, annotation.name)], "task");
                annotation.value.expect("a number")
            });
            assert!(of_flow.is_none() || annotated.is_none(), "once is enough");
            let category = event.categories.first();
            found.push(Found {
                category: category.map(|iid| names[&(sequence, 1, *iid)].clone()),
                task: of_flow.or(annotated),
                ns: *clock,
                track: track.name.clone(),
                name: if has_name {
                    names[&(sequence, 0, event.name)].clone()
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

/// An arrow of a trace.
pub(crate) struct Flow {
    /// The name of the instant at which it begins.
    pub(crate) why: String,
    /// The name of the slice to which it leads.
    pub(crate) to: String,
    /// The tracks of both.
    pub(crate) tracks: (String, String),
}

/// Returns the flows of the trace that a snapshot makes.
pub(crate) fn flows(snapshot: &Snapshot) -> Vec<Flow> {
    let (found, _) = read(&write(snapshot));
    let mut ends = HashMap::new();
    for found in &found {
        for &flow in &found.event.flow_ends {
            assert!(ends.insert(flow, found).is_none(), "it ends once");
        }
    }
    let mut flows = Vec::new();
    for found in &found {
        for flow in &found.event.flows {
            let end = ends.remove(flow).expect("a flow ends");
            assert!(end.ns >= found.ns);
            flows.push(Flow {
                why: found.name.clone(),
                to: end.name.clone(),
                tracks: (found.track.clone(), end.track.clone()),
            });
        }
    }
    assert!(ends.is_empty(), "each flow begins");
    flows
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
    let here = std::thread::current();
    let own = format!("thread {}", here.name().expect("tests have names"));
    let mut expected = vec![
        "pool main",
        "runnable tasks of main",
        &own,
        "worker 0",
        "worker 1",
    ];
    // Of rare events it is not known which thread they are of.
    if tracks.iter().any(|track| track == "other threads") {
        expected.insert(0, "other threads");
    }
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

/// What a replay needs: which slices are steps of one task, how each ended, and which task pushed it.
#[test]
fn slices_say_their_task_and_how_they_ended() {
    let snapshot = recorded(500);
    let (found, _) = read(&write(&snapshot));
    let mut steps: HashMap<u64, Vec<&Found>> = HashMap::new();
    let begins = |found: &&Found| found.event.kind == BEGIN && found.name != "sleeps";
    for step in found.iter().filter(begins) {
        let task = step.task.expect("each step has its task");
        steps.entry(task).or_default().push(step);
    }
    // 250 jobs, 250 futures and the root.
    assert_eq!(steps.len(), 501);
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for steps in steps.values_mut() {
        steps.sort_by_key(|step| step.ns);
        let (last, others) = steps.split_last().expect("a step");
        assert_eq!(last.category.as_deref(), Some("ended"));
        for step in others {
            assert!(matches!(step.category.as_deref(), Some("waits" | "again")));
        }
        assert!(steps.iter().all(|step| step.name == steps[0].name));
        *lengths.entry(steps.len()).or_default() += 1;
    }
    // Closures, and futures that yield once. A yield returns at once if nothing else is ready for its worker.
    assert_eq!(lengths[&1] + lengths[&2], 500, "{lengths:?}");
    assert!((200..=250).contains(&lengths[&2]), "{lengths:?}");
    // The root spawned all others: the instant is inside of a slice of the root, on its track.
    let root = found
        .iter()
        .find(|found| found.name == "injected")
        .and_then(|found| found.event.flows.first())
        .expect("a flow")
        >> 24;
    for spawn in found.iter().filter(|found| found.name == "spawned") {
        let mut before = found
            .iter()
            .filter(|other| other.track == spawn.track && other.ns <= spawn.ns);
        let around = before.rfind(begins).expect("a slice");
        assert_eq!(around.task, Some(root));
    }
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

/// Perfetto's own schema, where the package `perfetto` of Python's is installed. With this variable, which
/// names the interpreter, it must be: `cargo xtask perfetto` sets it.
const PYTHON: &str = "WARPWEFT_PERFETTO_PYTHON";

const SCRIPT: &str = "
import sys
try:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
except ImportError:
    sys.exit(42)
trace = schema.Trace()
trace.ParseFromString(open(sys.argv[1], 'rb').read())
tracks, default, names, categories, begins, kinds = {}, {}, {}, {}, {}, [0] * 5
flows, ends, tasks = {}, {}, {}
for packet in trace.packet:
    id = packet.trusted_packet_sequence_id
    if packet.HasField('track_descriptor'):
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
    if packet.HasField('trace_packet_defaults'):
        assert packet.trace_packet_defaults.timestamp_clock_id == 64
        default[id] = packet.trace_packet_defaults.track_event_defaults.track_uuid
    if packet.HasField('clock_snapshot'):
        assert packet.clock_snapshot.clocks[0].is_incremental
        assert packet.sequence_flags == 3
    for name in packet.interned_data.event_names:
        names[id, name.iid] = name.name
    for name in packet.interned_data.event_categories:
        categories[id, name.iid] = name.name
    for name in packet.interned_data.debug_annotation_names:
        assert name.name == 'task'
    if packet.HasField('track_event'):
        event = packet.track_event
        assert packet.HasField('timestamp')
        kinds[event.type] += 1
        for flow in event.flow_ids:
            assert flow not in flows and event.type == 3
            flows[flow] = names[id, event.name_iid]
        for flow in event.terminating_flow_ids:
            assert flow not in ends and event.type == 1
            ends[flow] = default[id]
        if event.type == 1 and names[id, event.name_iid] != 'sleeps':
            numbers = [flow >> 24 for flow in event.terminating_flow_ids]
            numbers += [note.uint_value for note in event.debug_annotations]
            assert len(numbers) == 1, numbers
            assert [categories[id, iid] for iid in event.category_iids][0] in ('ended', 'waits', 'again')
            tasks[numbers[0]] = tasks.get(numbers[0], 0) + 1
            assert tracks[default[id]].startswith('worker ')
assert flows.keys() == ends.keys(), (len(flows), len(ends))
woken = sum(why == 'woken' for why in flows.values())
workers = sorted(name for name in tracks.values() if name.startswith('worker '))
print(kinds[1], kinds[3], len(flows), woken, len(tasks), sum(tasks.values()), ','.join(workers))
";

#[test]
fn perfettos_schema_agrees_where_it_is_installed() {
    let snapshot = recorded(300);
    let path = std::env::temp_dir().join(format!("warpweft-{}.perfetto-trace", std::process::id()));
    std::fs::write(&path, write(&snapshot)).expect("a file");
    let required = std::env::var_os(PYTHON);
    let python = required.clone().unwrap_or_else(|| "python3".into());
    let output = Command::new(&python).args(["-c", SCRIPT]).arg(&path).output();
    std::fs::remove_file(&path).expect("it is there");
    let is_missing = match &output {
        Err(_) => Some("there is no such interpreter"),
        Ok(output) if output.status.code() == Some(42) => Some("it has no package `perfetto`"),
        Ok(_) => None,
    };
    if let Some(reason) = is_missing {
        assert!(required.is_none(), "{PYTHON} is {}: {reason}", python.display());
        return eprintln!("{}: {reason}: skipped", python.display());
    }
    let output = output.expect("it ran");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let (found, _) = read(&write(&snapshot));
    let count = |kind| found.iter().filter(|found| found.event.kind == kind).count();
    let pushes = |wanted: Option<Push>| {
        let is_one = |kind: &EventKind| matches!(kind, EventKind::Push { why, .. } if wanted.is_none_or(|wanted| wanted == *why));
        snapshot.events().filter(|event| is_one(&event.kind)).count()
    };
    let is_step = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::Begin {
                what: StepKind::Task,
                ..
            }
        )
    };
    let steps = snapshot.events().filter(|event| is_step(&event.kind)).count();
    // A slice for each of 300 tasks and the root, a flow for each wake, every worker.
    let expected = format!(
        "{} {} {} {} 301 {steps} worker 0,worker 1",
        count(BEGIN),
        count(INSTANT),
        pushes(None),
        pushes(Some(Push::Woken)),
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected);
}
