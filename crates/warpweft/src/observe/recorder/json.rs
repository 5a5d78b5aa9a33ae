//! A snapshot as JSON, by a small writer.

use super::snapshot::{Event, EventKind, Snapshot};
use crate::observe::json::Text;
use std::io::{self, Write};

/// See [`Snapshot::write_json`].
pub(super) fn write(snapshot: &Snapshot, to: &mut dyn Write) -> io::Result<()> {
    write!(to, "{{\"pools\":[")?;
    for (at, pool) in snapshot.pools.iter().enumerate() {
        write!(to, "{}{{\"name\":{},\"tracks\":[", comma(at), Text(&pool.name))?;
        for (at, track) in pool.tracks.iter().enumerate() {
            write!(to, "{}{{\"worker\":", comma(at))?;
            match track.worker {
                Some(worker) => write!(to, "{worker}")?,
                None => write!(to, "null")?,
            }
            if let Some(number) = track.blocking {
                write!(to, ",\"blocking\":{number}")?;
            }
            if let Some(name) = &track.thread {
                write!(to, ",\"thread\":{}", Text(name))?;
            }
            write!(to, ",\"events\":[")?;
            for (at, event) in track.events.iter().enumerate() {
                write!(to, "{}", comma(at))?;
                write_event(event, to)?;
            }
            write!(to, "]}}")?;
        }
        write!(to, "]}}")?;
    }
    writeln!(to, "]}}")
}

fn comma(at: usize) -> &'static str {
    if at == 0 { "" } else { "," }
}

fn write_event(event: &Event, to: &mut dyn Write) -> io::Result<()> {
    let (at, name) = (event.at.as_nanos(), event.kind.name());
    write!(to, "{{\"at_ns\":{at},\"kind\":\"{name}\"")?;
    match &event.kind {
        EventKind::Begin { what, task, site } => {
            write!(to, ",\"what\":\"{}\",\"task\":\"{task}\"", what.name())?;
            if let Some(site) = site {
                if let Some(name) = &site.name {
                    write!(to, ",\"name\":{}", Text(name))?;
                }
                write!(to, ",\"spawned_at\":{}", Text(&site.spawned_at.to_string()))?;
            }
        }
        EventKind::End { how } => write!(to, ",\"how\":\"{}\"", how.name())?,
        EventKind::Push { task, why } => write!(to, ",\"task\":\"{task}\",\"why\":\"{}\"", why.name())?,
        EventKind::Transfer { task } => write!(to, ",\"task\":\"{task}\"")?,
        EventKind::Steal { tasks } | EventKind::Overflow { tasks } => write!(to, ",\"tasks\":{tasks}")?,
        EventKind::WakeWorker { worker: Some(worker) }
        | EventKind::Compensate { worker }
        | EventKind::Retire { worker } => write!(to, ",\"worker\":{worker}")?,
        EventKind::Stall { worker, report } => {
            write!(to, ",\"worker\":{worker}")?;
            if let Some(report) = report {
                write!(to, ",\"report\":{}", Text(report))?;
            }
        }
        EventKind::WakeWorker { worker: None } | EventKind::Park | EventKind::Unpark | EventKind::Lost => {}
    }
    write!(to, "}}")
}
