//! Traces of the flight recorder: the page, the picture and the replay.

mod common;

use common::{Folder, complaint, records, say};
use std::time::{Duration, Instant};
use warpweft::{Runtime, TaskBuilder, spawn_job, time::sleep};

/// How long each job computes.
const WORK: Duration = Duration::from_micros(300);
const JOBS: u64 = 20;

/// Records a task that spawns jobs which compute, waits for them, sleeps, and yields.
fn recorded(steps: bool) -> Vec<u8> {
    let runtime = Runtime::builder()
        .workers(2)
        .stuck_after(None)
        .build()
        .expect("a runtime");
    let recorder = runtime.recorder();
    recorder.record_steps(steps);
    let root = TaskBuilder::new().on(&runtime).name("root").spawn(async {
        let compute = || {
            let start = Instant::now();
            while start.elapsed() < WORK {
                std::hint::spin_loop();
            }
        };
        let jobs: Vec<_> = (0..JOBS).map(|_| spawn_job(compute)).collect();
        for job in jobs {
            job.await.expect("no panic");
        }
        sleep(Duration::from_millis(20)).await;
        warpweft::yield_now().await;
    });
    root.wait().expect("no panic");
    drop(runtime);
    let mut file = Vec::new();
    recorder.snapshot().write_perfetto(&mut file).expect("memory");
    file
}

#[test]
fn a_recorded_program_is_replayed_on_every_runtime_with_timers() {
    let folder = Folder::new("replay");
    folder.file("a.perfetto-trace", &recorded(true));
    let words = "trace:a.perfetto-trace --runtime warpweft,tokio --policy fifo,lifo --workers 1,2 --repeat 1";
    let records = records(&folder, words);
    assert_eq!(records.len(), 6);
    let first = &records[0]["measures"];
    for record in &records {
        let measure = |name: &str| record["measures"][name].as_f64().unwrap_or_default();
        assert_eq!(record["operations"], JOBS + 1, "the root and its jobs: {record}");
        // Each step is a latency. The root has at least its begin, after the sleep, after the yield.
        let steps = measure("steps");
        assert!(steps >= (JOBS + 3) as f64, "{record}");
        assert_eq!(record["latency"]["count"].as_f64(), Some(steps), "{record}");
        assert_eq!(Some(steps), first["steps"].as_f64(), "the same work for all");
        // At least what was computed, and not much more than the trace says.
        let work = measure("work_ms");
        assert!(work >= JOBS as f64 * 0.3, "{record}");
        // The sleep is in the schedule.
        let seconds = record["seconds"].as_f64().unwrap_or_default();
        assert!((0.020..10.0).contains(&seconds), "{record}");
    }
    let work = |at: usize| records[at]["measures"]["work_ms"].as_f64().unwrap_or_default();
    for at in 1..records.len() {
        assert!(work(at) < 2.0 * work(0) + 5.0, "{} and {}", work(at), work(0));
    }
}

#[test]
fn the_speed_of_a_replay_can_be_set() {
    let folder = Folder::new("replay-speed");
    folder.file("a.perfetto-trace", &recorded(true));
    let seconds = |speed: u64| {
        let words = format!("trace --trace a.perfetto-trace speed={speed} --workers 2 --repeat 1");
        let records = records(&folder, &words);
        assert_eq!(records[0]["parameters"]["speed"], speed, "{}", records[0]);
        records[0]["seconds"].as_f64().unwrap_or_default()
    };
    // The sleep alone is 20 ms of the trace.
    assert!(seconds(10) >= 0.2);
}

#[test]
fn what_is_no_trace_is_refused_before_anything_is_measured() {
    let folder = Folder::new("no-trace");
    let good = recorded(true);
    folder.file("cut", &good[..good.len() - 3]);
    folder.file("foreign", b"{\"traceEvents\":[]}");
    folder.file("empty", b"");
    folder.file("sparse", &recorded(false));
    folder.file("packed", &[0x1f, 0x8b, 8, 0, 0]);
    for (name, said) in [
        ("missing", "No such file"),
        ("cut", "cut off"),
        ("foreign", "no trace in Perfetto's format"),
        ("empty", "it is empty"),
        ("packed", "decompress it first"),
        ("sparse", "record_steps(true)"),
    ] {
        for words in [
            format!("bench trace:{name}"),
            format!("explore --smoke trace:{name}"),
            format!("bench trace --trace {name}"),
        ] {
            let text = complaint(folder.path(), &words, 1);
            assert!(text.contains(said) && text.contains(name), "{words}: {text}");
        }
    }
    let text = complaint(folder.path(), "bench packet --trace cut", 2);
    assert!(text.contains("is for the workload trace"), "{text}");
    assert!(!folder.path().join("reports").exists());
}

#[test]
fn a_page_is_written_for_a_whole_trace_only() {
    let folder = Folder::new("trace-view");
    let good = recorded(true);
    folder.file("good", &good);
    let said = say(folder.path(), "trace view good");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.out.contains("3 lanes") && said.out.contains("good.html"),
        "{}",
        said.out
    );
    let page = std::fs::read_to_string(folder.path().join("good.html")).expect("a page");
    for part in [
        "<canvas",
        "\"root\"",
        "worker 1",
        "\"woken\"",
        "Longest delays",
        "</html>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Rare events alone are a timeline, too.
    folder.file("sparse", &recorded(false));
    assert_eq!(say(folder.path(), "trace view sparse -o s.html").code, Some(0));
    assert!(folder.path().join("s.html").exists());

    folder.file("cut", &good[..good.len() - 3]);
    folder.file("foreign", b"\x7fELF\x02\x01\x01");
    for (name, part) in [
        ("cut", "cut off"),
        ("foreign", "no trace"),
        ("missing", "No such file"),
    ] {
        let text = complaint(folder.path(), &format!("trace view {name}"), 1);
        assert!(text.contains(part) && text.contains(name), "{text}");
        assert!(!folder.path().join(format!("{name}.html")).exists());
    }
}

#[test]
fn a_picture_is_drawn_of_the_part_that_is_asked_for() {
    let folder = Folder::new("trace-svg");
    folder.file("good", &recorded(true));
    let said = say(folder.path(), "trace svg good -o all.svg");
    assert_eq!(said.code, Some(0), "{}", said.err);
    let picture = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a picture");
    let all = picture("all.svg");
    assert!(all.starts_with("<svg ") && all.contains("worker 1") && all.contains(">root<"));
    assert_eq!(
        say(folder.path(), "trace svg good --from 15 --to 16").code,
        Some(0)
    );
    let part = picture("good.svg");
    let bars = |svg: &str| svg.matches("<rect").count();
    assert!(bars(&part) < bars(&all), "the root sleeps then");
    for part in ["--from 5 --to 5", "--from nan", "--from 9999"] {
        let text = complaint(folder.path(), &format!("trace svg good {part}"), 2);
        assert!(text.contains("before its end"), "{text}");
    }
    folder.file("foreign", b"PK\x03\x04");
    assert!(complaint(folder.path(), "trace svg foreign", 1).contains("no trace"));
}
