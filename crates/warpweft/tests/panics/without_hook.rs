//! What is written to the standard error, and what aborts. Each case is a child process.

use crate::eventually::eventually;
use crate::kinds::{KINDS, Kind, PanicBy, WAYS};
use std::process::{Command, ExitStatus};
use warpweft::{Builder, PanicPolicy, Runtime};

/// Set in a child: the case that it is.
const CASE: &str = "WARPWEFT_TEST_CASE";

/// Runs a case in a child process. Returns how it ended, and its standard error.
fn child(case: &str) -> (ExitStatus, String) {
    let executable = std::env::current_exe().expect("a test executable");
    let output = Command::new(executable)
        .args(["--exact", "without_hook::cases", "--nocapture"])
        .env(CASE, case)
        .output()
        .expect("a child process");
    (
        output.status,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn builder() -> Builder {
    Runtime::builder().workers(1).name("kitchen")
}

/// Does nothing but in a child.
#[test]
fn cases() {
    let Some(case) = std::env::var_os(CASE) else {
        return;
    };
    let case = case.to_str().expect("a case");
    if case == "dropped" || case == "kept" || case == "dropped later" || case == "hook" {
        let builder = if case == "hook" {
            builder().on_panic(|_| ())
        } else {
            builder()
        };
        let runtime = builder.build().expect("a runtime");
        for kind in KINDS {
            let handle = kind.spawn(&runtime, || PanicBy::ResumeUnwind.panic());
            // The last task before it on its worker, or the thread for closures that block, is done then.
            let done = || {
                runtime.spawn_job(|| ()).wait().expect("no panic");
                runtime
                    .try_spawn_blocking(|| ())
                    .expect("room")
                    .wait()
                    .expect("no panic");
                wait_until_idle(&runtime);
            };
            match (case, handle) {
                ("kept", Some(handle)) => drop(handle.wait()),
                ("dropped later", Some(handle)) => {
                    eventually("it ends", || handle.is_finished());
                }
                (_, handle) => {
                    drop(handle);
                    done();
                }
            }
        }
        return;
    }
    let (policy, rest) = case.split_once(' ').expect("a policy");
    let policy = match policy {
        "abort" => PanicPolicy::Abort,
        _ => PanicPolicy::ShutDown,
    };
    let builder = builder().panic_policy(policy);
    let builder = match rest.strip_prefix("told ") {
        Some(_) => builder.on_panic(|report| eprintln!("told of {report}")),
        None => builder,
    };
    let runtime = builder.build().expect("a runtime");
    let number: usize = rest.trim_start_matches("told ").parse().expect("a number");
    let kind = KINDS[number % KINDS.len()];
    let way = WAYS[number / KINDS.len()];
    let other = runtime.spawn(std::future::pending::<()>());
    drop(kind.spawn(&runtime, move || way.panic()));
    assert!(other.wait().is_err());
}

/// Waits until the runtime is idle: what was spawned has ended.
fn wait_until_idle(runtime: &Runtime) {
    eventually("the worker sleeps", || runtime.idle_workers().1 == 1);
}

fn lines(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| line.ends_with("panicked: beans"))
        .collect()
}

#[test]
fn a_panic_whose_handle_is_gone_is_a_line_on_the_standard_error() {
    for case in ["dropped", "dropped later"] {
        let (status, text) = child(case);
        assert!(status.success(), "{text}");
        let lines = lines(&text);
        assert_eq!(lines.len(), KINDS.len(), "{case}: {text}");
        for (line, kind) in lines.iter().zip(KINDS) {
            let told = match kind {
                Kind::Blocking => String::from("the blocking closure, spawned at "),
                kind => format!("the {} `soup`, spawned at ", kind.told()),
            };
            assert!(
                line.starts_with(&told) && line.contains("without_hook.rs"),
                "{line}"
            );
        }
    }
}

#[test]
fn nothing_is_written_if_a_joiner_or_a_hook_has_it() {
    let (status, text) = child("hook");
    assert!(status.success() && lines(&text).is_empty(), "{text}");
    let (status, text) = child("kept");
    // A detached job has no joiner.
    assert!(status.success() && lines(&text).len() == 1, "{text}");
    assert!(lines(&text)[0].starts_with("the job `soup`"), "{text}");
}

#[test]
fn abort_ends_the_process_after_the_report() {
    for number in 0..KINDS.len() * WAYS.len() {
        let (status, text) = child(&format!("abort {number}"));
        #[cfg(unix)]
        {
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(status.signal(), Some(libc::SIGABRT), "{text}");
        }
        assert!(!status.success(), "{text}");
        assert!(text.contains("panicked: beans; the process is aborted"), "{text}");
        assert!(text.contains("pool `kitchen`: the "), "{text}");
    }
    let (status, text) = child("abort told 0");
    assert!(
        !status.success() && text.contains("told of pool `kitchen`: the future `soup`"),
        "{text}"
    );
    assert!(!text.contains("the process is aborted"), "{text}");
}

#[test]
fn shut_down_says_why() {
    let (status, text) = child("end 0");
    assert!(status.success(), "{text}");
    assert_eq!(
        text.matches("panicked: beans; the runtime shuts down").count(),
        1,
        "{text}"
    );
    let (status, text) = child("end told 0");
    assert!(
        status.success() && text.contains("told of pool `kitchen`"),
        "{text}"
    );
    assert!(!text.contains("the runtime shuts down"), "{text}");
}
