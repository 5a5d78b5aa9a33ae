//! Findings that say the same of many tasks, and which findings are certain.

use super::{cycle, dump_with, named, runtime};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;
use warpweft::sync::{Mutex, Notify, channel};
use warpweft::{Dump, Finding};

/// How many tasks wait for one object.
const MANY: usize = 1000;

#[track_caller]
fn unattended(dump: &Dump) -> usize {
    let is_it = |finding: &&Finding| matches!(finding, Finding::Unattended { .. });
    dump.findings
        .iter()
        .filter(is_it)
        .flat_map(Finding::tasks)
        .count()
}

/// Tasks that wait for one object are one finding, which shows some of them.
#[test]
fn many_that_wait_for_one_object_are_one_finding() {
    let runtime = ManuallyDrop::new(runtime(2));
    let notify = Arc::new(Notify::new());
    let lock = Arc::new(Mutex::new(()));
    for _ in 0..MANY {
        let waits_on = notify.clone();
        drop(named(&runtime, "leaked").spawn(async move { waits_on.notified().await }));
    }
    // A circle comes after them in the list of tasks.
    drop(named(&runtime, "twice").spawn(async move {
        let _first = lock.lock().await;
        drop(lock.lock().await);
    }));
    drop(named(&runtime, "ticks").spawn(async {
        loop {
            warpweft::time::sleep(Duration::from_millis(20)).await;
        }
    }));
    let dump = dump_with("all wait", &runtime, |dump| unattended(dump) == MANY);
    assert_eq!(dump.findings.len(), 2, "{dump}");
    let text = dump.to_string();
    assert!(
        text.contains("NO TASK IS KNOWN TO END THE WAIT of 1000 tasks for "),
        "{text}"
    );
    assert!(text.contains("    … and 990 more\n"), "{text}");
    let json = dump.to_json();
    assert_eq!(json.matches("\"finding\":\"unattended\"").count(), 1);
    assert_eq!(
        json.matches("\"finding\":\"unattended\",\"certain\":false")
            .count(),
        1
    );
}

/// Of a circle and suspicions the circle comes first, and it is the one to alert on.
#[test]
fn what_is_certain_comes_first() {
    let runtime = ManuallyDrop::new(runtime(2));
    let (sender, receiver) = channel::bounded::<u32>(1);
    drop(named(&runtime, "receives").spawn(async move { receiver.recv().await }));
    let lock = Arc::new(Mutex::new(()));
    drop(named(&runtime, "twice").spawn(async move {
        let _first = lock.lock().await;
        drop(lock.lock().await);
    }));
    let dump = dump_with("both", &runtime, |dump| {
        cycle(dump).is_some() && dump.findings.len() > 1
    });
    let certain: Vec<bool> = dump.findings.iter().map(Finding::is_certain).collect();
    assert!(
        certain[0] && certain[1..].iter().all(|is_certain| !is_certain),
        "{dump}"
    );
    let text = dump.to_string();
    assert!(text.starts_with("DEADLOCK: 1 task cannot go on"), "{text}");
    let json = dump.to_json();
    assert!(json.contains("\"finding\":\"cycle\",\"certain\":true"), "{json}");
    drop(sender);
}
