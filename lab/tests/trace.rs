//! Traces of the flight recorder: the page, the picture and the replay.

mod common;

use common::{Folder, complaint, records, say};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warpweft::sync::{Mutex, oneshot};
use warpweft::{Builder, Pool, Runtime, TaskBuilder, spawn_job, time::sleep};

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
fn a_page_is_written_for_what_is_whole() {
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
    for command in ["view", "svg"] {
        let text = complaint(folder.path(), &format!("trace {command} good -o ./good"), 2);
        assert!(text.contains("`./good` is the trace itself"), "{text}");
    }
    assert_eq!(
        std::fs::read(folder.path().join("good")).expect("it is there"),
        good
    );

    folder.file("cut", &good[..good.len() - 3]);
    for (command, out) in [("view", "cut.html"), ("svg", "cut.svg"), ("slowest", "`root`")] {
        let said = say(folder.path(), &format!("trace {command} cut"));
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.out.contains(out), "{}", said.out);
        assert!(
            said.err.starts_with("warning: cut: it is cut off"),
            "{}",
            said.err
        );
    }
    let page = std::fs::read_to_string(folder.path().join("cut.html")).expect("a page");
    assert!(page.contains("it is cut off"));

    folder.file("foreign", b"\x7fELF\x02\x01\x01");
    for (name, part) in [("foreign", "no trace"), ("missing", "No such file")] {
        let text = complaint(folder.path(), &format!("trace view {name}"), 1);
        assert!(text.contains(part) && text.contains(name), "{text}");
        assert!(!folder.path().join(format!("{name}.html")).exists());
    }
}

#[test]
fn a_budget_that_is_too_small_ends_after_the_first_round_and_says_what_helps() {
    let folder = Folder::new("replay-budget");
    folder.file("a.perfetto-trace", &recorded(true));
    let said = say(
        folder.path(),
        "explore trace:a.perfetto-trace --budget 0 --policy fifo,lifo --workers 1,2",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("over 1 interleaved rounds"), "{}", said.out);
    assert!(
        said.out.contains("(1 counted, 6 are needed: a round of "),
        "{}",
        said.out
    );
    assert!(
        said.out.contains("advice needs 7 rounds: `--budget "),
        "{}",
        said.out
    );
}

#[test]
fn a_small_replay_runs_on_all_runtimes() {
    let folder = Folder::new("replay-smoke");
    folder.file("a.perfetto-trace", &recorded(true));
    for words in ["explore trace --smoke", "explore trace:a.perfetto-trace --smoke"] {
        let said = say(folder.path(), words);
        assert!(!said.err.contains("panicked"), "{words}: {}", said.err);
        assert_eq!(said.code, Some(0), "{words}: {}", said.err);
        assert!(said.out.contains("tokio"), "{}", said.out);
        // The load is open.
        assert!(
            !said.out.contains("× best peer") && !said.out.contains("× best policy"),
            "{}",
            said.out
        );
        assert!(said.out.contains("× best p99"), "{}", said.out);
    }
}

/// Records what `scenario` does on two workers, and returns the list of the slowest tasks.
fn slowest<F: Future<Output = ()> + Send + 'static>(
    name: &str,
    builder: impl FnOnce(Builder) -> Builder,
    scenario: impl FnOnce() -> F + Send + 'static,
) -> String {
    let runtime = builder(Runtime::builder().workers(2).name("web"))
        .build()
        .expect("a runtime");
    let recorder = runtime.recorder();
    recorder.record_steps(true);
    runtime.block_on(async move { scenario().await });
    drop(runtime);
    let mut file = Vec::new();
    recorder.snapshot().write_perfetto(&mut file).expect("memory");
    let folder = Folder::new(&format!("slowest-{name}"));
    folder.file("trace", &file);
    let said = say(folder.path(), "trace slowest trace --top 20");
    assert_eq!(said.code, Some(0), "{}", said.err);
    let page = say(folder.path(), "trace view trace");
    assert_eq!(page.code, Some(0), "{}", page.err);
    let page = std::fs::read_to_string(folder.path().join("trace.html")).expect("a page");
    assert!(page.contains("Slowest tasks") && page.contains("\"cause\":"));
    said.out
}

/// The line that says the main cause of a task.
fn cause(list: &str, name: &str) -> String {
    let mut lines = list
        .lines()
        .skip_while(|line| !line.contains(&format!("  `{name}` (")));
    lines
        .nth(1)
        .unwrap_or_else(|| panic!("{name} is not in:\n{list}"))
        .trim()
        .to_owned()
}

/// Computes for so long.
fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

const LONG: Duration = Duration::from_millis(60);

/// A task that waits for a lock which another one holds while it does `hold`.
async fn contend<F: Future<Output = ()> + Send + 'static>(hold: impl FnOnce() -> F + Send + 'static) {
    let lock = Arc::new(Mutex::new(()));
    let wants_it = Arc::new(AtomicBool::new(false));
    let (has_it, held) = oneshot::channel();
    let (holders, wanted) = (Arc::clone(&lock), Arc::clone(&wants_it));
    let holder = TaskBuilder::new().name("holder").spawn(async move {
        let guard = holders.lock().await;
        let _ = has_it.send(());
        while !wanted.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(1)).await;
        }
        hold().await;
        drop(guard);
    });
    held.await.expect("the holder has it");
    let request = TaskBuilder::new().name("request").spawn(async move {
        wants_it.store(true, Ordering::Relaxed);
        drop(lock.lock().await);
    });
    request.await.expect("no panic");
    holder.await.expect("no panic");
}

#[test]
fn a_lock_that_was_held_names_the_task_that_held_it() {
    let list = slowest("lock", |builder| builder, || contend(|| sleep(LONG)));
    let text = cause(&list, "request");
    for part in [
        "% of the time it waited",
        "woken by `holder` (task ",
        "had itself waited for",
    ] {
        assert!(text.contains(part), "{part}: {list}");
    }
}

#[test]
fn a_lock_whose_holder_blocked_its_worker_says_so() {
    let hold = || async {
        let stalls = || Pool::current().expect("a task of a pool").metrics().stalls;
        let (before, start) = (stalls(), Instant::now());
        // On a busy machine the monitor looks late.
        loop {
            std::thread::sleep(LONG);
            if stalls() > before || start.elapsed() > Duration::from_secs(60) {
                break;
            }
        }
    };
    let list = slowest(
        "stuck",
        |builder| builder.stuck_after(Some(Duration::from_millis(5))),
        move || contend(hold),
    );
    let text = cause(&list, "request");
    for part in [
        "woken by `holder` (task ",
        "which had run for",
        "its worker was reported stuck",
    ] {
        assert!(text.contains(part), "{part}: {list}");
    }
    let text = cause(&list, "holder");
    assert!(
        text.contains("% of the time it ran, ") && text.contains("the worker was reported stuck"),
        "{list}"
    );
}

#[test]
fn a_task_behind_another_one_names_that_one() {
    let list = slowest(
        "behind",
        |builder| builder.workers(1).stuck_after(None),
        || async {
            let before = TaskBuilder::new().name("compress").spawn_job(|| compute(LONG));
            let request = TaskBuilder::new().name("request").spawn(async {});
            request.await.expect("no panic");
            before.await.expect("no panic");
        },
    );
    let text = cause(&list, "request");
    assert!(text.contains("it was ready but did not run"), "{list}");
    assert!(
        text.contains("behind `compress` (task ") && text.contains("worker 0"),
        "{list}"
    );
}

#[test]
fn a_late_wake_by_a_thread_of_the_program_says_so() {
    let list = slowest(
        "late",
        |builder| builder,
        || async {
            let request = TaskBuilder::new().name("request").spawn(async {
                let (send, receive) = oneshot::channel();
                let thread = std::thread::spawn(move || {
                    std::thread::sleep(LONG);
                    let _ = send.send(());
                });
                receive.await.expect("it is sent");
                thread.join().expect("no panic");
            });
            request.await.expect("no panic");
        },
    );
    let text = cause(&list, "request");
    assert!(
        text.contains("woken by a thread outside of the runtime's workers"),
        "{list}"
    );
}

#[test]
fn a_ring_that_lost_its_beginning_says_from_when_on_wakes_are_known() {
    let runtime = Runtime::builder()
        .workers(1)
        .recorder_bytes(64 << 10)
        .build()
        .expect("a runtime");
    let recorder = runtime.recorder();
    recorder.record_steps(true);
    for _ in 0..5_000 {
        runtime.spawn_job(|| ()).wait().expect("no panic");
    }
    drop(runtime);
    let mut file = Vec::new();
    recorder.snapshot().write_perfetto(&mut file).expect("memory");
    let folder = Folder::new("slowest-lost");
    folder.file("trace", &file);
    for command in ["slowest", "view", "svg"] {
        let said = say(folder.path(), &format!("trace {command} trace"));
        assert_eq!(said.code, Some(0), "{}", said.err);
        let text = "wakes by threads outside of the runtime are known from ";
        assert!(said.err.contains(text), "{}", said.err);
        assert!(
            said.err
                .contains("steps on `warpweft / worker 0` are known from "),
            "{}",
            said.err
        );
    }
    let page = std::fs::read_to_string(folder.path().join("trace.html")).expect("a page");
    assert!(page.contains("are known from"));
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
    let said_part = say(folder.path(), "trace svg good --from 15 --to 16");
    assert_eq!(said_part.code, Some(0), "{}", said_part.err);
    assert!(said_part.out.contains("over 1.000 ms"), "{}", said_part.out);
    let part = picture("good.svg");
    assert!(
        !said_part
            .out
            .contains(said.out.split(" in ").next().unwrap_or_default()),
        "of the part only"
    );
    let bars = |svg: &str| svg.matches("<rect").count();
    assert!(bars(&part) < bars(&all), "the root sleeps then");
    for part in ["--from 5 --to 5", "--from nan", "--from 9999"] {
        let text = complaint(folder.path(), &format!("trace svg good {part}"), 2);
        assert!(text.contains("before its end"), "{text}");
    }
    folder.file("foreign", b"PK\x03\x04");
    assert!(complaint(folder.path(), "trace svg foreign", 1).contains("no trace"));
}
