//! The variables of Warpweft's builder, and those of rayon. Each case is a child process, because the
//! environment belongs to the whole process.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what went wrong by its place"
)]

use std::process::Command;

const CASE: &str = "RAYON_TEST_CASE";
const VARIABLES: [&str; 5] = [
    "WARPWEFT_POLICY",
    "WARPWEFT_WORKERS",
    "WARPWEFT_STATS",
    "RAYON_NUM_THREADS",
    "RAYON_RS_NUM_CPUS",
];

/// Runs a case in a child process: its exit code, what it printed, and the lines of its pools.
fn child(case: &str, variables: &[(&str, &str)]) -> (bool, String, String) {
    let stats = std::env::temp_dir().join(format!("warpweft-rayon-{}-{}", std::process::id(), unique()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "cases", "--nocapture"]);
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    command.envs(variables.iter().copied());
    let output = command
        .env(CASE, case)
        .env("WARPWEFT_STATS", &stats)
        .output()
        .unwrap();
    let lines = std::fs::read_to_string(&stats).unwrap_or_default();
    drop(std::fs::remove_file(&stats));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned(), lines)
}

/// A number that no other test of this process has.
fn unique() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Does nothing but in a child.
#[test]
fn cases() {
    let Ok(case) = std::env::var(CASE) else { return };
    match case.as_str() {
        "global" => {
            let (a, b) = rayon_core::join(|| 1, || 2);
            println!("{} threads, {}", rayon_core::current_num_threads(), a + b);
        }
        "processors" => println!("{} threads, 3", std::thread::available_parallelism().unwrap()),
        "three threads" => {
            let pool = rayon_core::ThreadPoolBuilder::new()
                .num_threads(3)
                .build()
                .unwrap();
            println!("{} threads", pool.install(rayon_core::current_num_threads));
        }
        other => unreachable!("no case {other}"),
    }
}

#[test]
fn without_variables_the_policy_is_the_crates() {
    let (ended, text, lines) = child("global", &[]);
    assert!(ended && text.contains("threads, 3"), "{text}");
    assert!(
        lines.contains(r#""pool":"rayon""#) && lines.contains(r#""policy_from":"default""#),
        "{lines}"
    );
}

#[test]
fn the_variables_replace_policy_and_threads() {
    let (ended, text, lines) = child(
        "global",
        &[("WARPWEFT_POLICY", "fifo"), ("WARPWEFT_WORKERS", "5")],
    );
    assert!(ended && text.contains("5 threads, 3"), "{text}");
    for part in [
        r#""policy":"fifo+"#,
        r#""policy_from":"WARPWEFT_POLICY","workers":5,"workers_from":"WARPWEFT_WORKERS""#,
    ] {
        assert!(lines.contains(part), "{lines}");
    }
}

#[test]
fn what_the_program_or_rayons_own_variable_says_wins() {
    let (_, text, lines) = child("three threads", &[("WARPWEFT_WORKERS", "5")]);
    assert!(
        text.contains("3 threads") && lines.contains(r#""workers_from":"program""#),
        "{text}{lines}"
    );
    let (_, text, _) = child("global", &[("WARPWEFT_WORKERS", "5"), ("RAYON_NUM_THREADS", "4")]);
    assert!(text.contains("4 threads, 3"), "{text}");
}

/// As in the original: the older variable counts if the newer one says nothing.
#[test]
fn rayons_older_variable_counts_without_the_newer_one() {
    for (variables, threads) in [
        (&[("RAYON_RS_NUM_CPUS", "3")][..], 3),
        (&[("RAYON_RS_NUM_CPUS", "3"), ("WARPWEFT_WORKERS", "5")], 3),
        (&[("RAYON_RS_NUM_CPUS", "3"), ("RAYON_NUM_THREADS", "4")], 4),
        (&[("RAYON_RS_NUM_CPUS", "3"), ("RAYON_NUM_THREADS", "four")], 3),
    ] {
        let (_, text, _) = child("global", variables);
        assert!(
            text.contains(&format!("{threads} threads, 3")),
            "{variables:?}: {text}"
        );
    }
}

#[test]
fn zero_threads_are_as_many_as_processors() {
    let (_, expected, _) = child("processors", &[]);
    let variables = [
        ("RAYON_NUM_THREADS", "0"),
        ("RAYON_RS_NUM_CPUS", "17"),
        ("WARPWEFT_WORKERS", "19"),
    ];
    let (_, text, _) = child("global", &variables);
    let line = expected.lines().find(|line| line.contains(" threads, 3"));
    assert!(text.contains(line.expect("the child counts")), "{text}");
}

#[test]
fn a_wrong_text_is_an_error_that_names_the_variable() {
    for (variable, wrong) in [("WARPWEFT_POLICY", "lifoo"), ("WARPWEFT_WORKERS", "9999")] {
        let (ended, text, lines) = child("global", &[(variable, wrong)]);
        assert!(
            !ended && text.contains("cannot be built") && text.contains(variable),
            "{text}"
        );
        assert!(lines.contains(r#""error":"#) && lines.contains(wrong), "{lines}");
    }
}
