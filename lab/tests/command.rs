//! The command itself: what it lists, completes, suggests and writes.

mod common;

#[cfg(target_os = "linux")]
use common::command;
use common::{Folder, complaint, say};
use serde_json::Value;

#[test]
fn a_list_has_what_its_words_say() {
    let folder = Folder::new("list");
    let list = |words: &str| {
        let said = say(folder.path(), &format!("list {words}"));
        assert_eq!(said.code, Some(0), "{words}: {}", said.err);
        said.out
    };
    let packet = list("packet");
    assert!(
        packet.contains("packet-bimodal") && packet.contains("window="),
        "{packet}"
    );
    assert!(
        !packet.contains("\n  churn\n") && !packet.contains("Runtimes"),
        "{packet}"
    );
    let policies = list("policies");
    assert!(
        policies.contains("POLICY = a name or an order") && !policies.contains("Workloads"),
        "{policies}"
    );
    // A word that is in no name is looked for in the descriptions.
    assert!(list("replayed").contains("pcap"));
    let both = list("lifo rayon");
    assert!(both.contains("Runtimes") && both.contains("Policies"), "{both}");
    let whole = list("");
    assert!(whole.lines().count() > 3 * packet.lines().count());
}

#[test]
fn a_list_of_nothing_says_what_was_meant() {
    let folder = Folder::new("list-nothing");
    let text = complaint(folder.path(), "list pakcet", 2);
    assert!(text.contains("did you mean `packet`?"), "{text}");
}

#[test]
fn a_list_as_json_has_all_of_it() {
    let folder = Folder::new("list-json");
    let document = |words: &str| -> Value {
        let said = say(folder.path(), &format!("list --json {words}"));
        serde_json::from_str(&said.out).expect("JSON")
    };
    let names = |document: &Value, kind: &str| -> Vec<String> {
        let all = document[kind].as_array().expect("an array");
        all.iter()
            .map(|one| one["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    let all = document("");
    assert!(names(&all, "workloads").contains(&String::from("packet")));
    assert!(names(&all, "runtimes").contains(&String::from("rayon")));
    assert!(names(&all, "policies").contains(&String::from("fifo")));
    let packet = document("packet");
    let workloads = packet["workloads"].as_array().expect("an array");
    let plain = workloads
        .iter()
        .find(|one| one["name"] == "packet")
        .expect("it is there");
    assert!(
        plain["parameters"]
            .as_array()
            .expect("an array")
            .iter()
            .any(|param| param["name"] == "window")
    );
    assert!(names(&packet, "policies").is_empty());
}

#[test]
fn completions_name_the_commands_and_the_flags_of_workloads() {
    let folder = Folder::new("completions");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = say(folder.path(), &format!("completions {shell}"));
        assert_eq!(said.code, Some(0), "{}", said.err);
        for word in ["explore", "compare", "despite-load", "pcap"] {
            assert!(said.out.contains(word), "{shell}: {word}");
        }
        assert!(!said.out.contains("run-one"), "{shell}");
    }
    let text = complaint(folder.path(), "completions bsh", 2);
    assert!(text.contains("bash"), "{text}");
}

#[test]
fn what_is_nearly_right_is_suggested() {
    let folder = Folder::new("suggested");
    let complaint = |words: &str| complaint(folder.path(), words, 2);
    for (words, meant) in [
        ("bench packet --policy lifoo", "lifo"),
        ("bench packet --policy lifo+stael=one", "lifo+steal=one"),
        ("explore packet -p fifo+victims=randon", "fifo+victims=random"),
        ("try -p lfio -- true", "lifo"),
        ("bench packet windw=5", "window"),
        ("bench pakcet", "packet"),
        ("bench packet/heavyer", "heavier"),
    ] {
        let text = complaint(words);
        assert!(
            text.contains(&format!("did you mean `{meant}`?")),
            "{words}: {text}"
        );
    }
    assert!(complaint("bench packet --polcy fifo").contains("--policy"));
}

/// Writes a trace with a step.
fn recorded_trace(folder: &Folder) -> std::path::PathBuf {
    let runtime = warpweft::Runtime::builder()
        .workers(1)
        .build()
        .expect("a runtime");
    runtime.recorder().record_steps(true);
    runtime.spawn_job(|| ()).wait().expect("no panic");
    let mut bytes = Vec::new();
    let snapshot = runtime.recorder().snapshot();
    snapshot.write_perfetto(&mut bytes).expect("memory");
    folder.file("my.perfetto-trace", &bytes)
}

#[test]
fn the_examples_of_the_help_are_right() {
    let folder = Folder::new("examples");
    // The examples have no files, but for this one.
    let trace = recorded_trace(&folder);
    let lab = warpweft_lab::lab([]);
    let mut planned = 0;
    for verb in ["explore", "bench", "compare", "try", "list"] {
        let said = say(folder.path(), &format!("{verb} --help"));
        assert_eq!(said.code, Some(0), "{}", said.err);
        let (_, examples) = said.out.split_once("Examples:").expect("examples");
        for line in examples
            .lines()
            .filter_map(|line| line.trim().strip_prefix("warpweft "))
        {
            let words = line.split("  ").next().unwrap_or_default();
            assert!(words.starts_with(verb), "{words}");
            // These take their rows from a baseline and not from a plan; `against` tests them.
            if words.contains("--against") || words.contains("--baseline") {
                continue;
            }
            let words = &words.replace("my.perfetto-trace", &trace.to_string_lossy());
            let jobs = lab.plan(words).unwrap_or_else(|error| panic!("{words}: {error}"));
            assert_eq!(jobs.is_empty(), verb == "try" || verb == "list", "{words}");
            planned += 1;
        }
    }
    assert!(planned >= 15, "{planned} examples");
}

#[test]
fn a_folder_that_is_missing_is_said_and_only_our_own_is_made() {
    let folder = Folder::new("missing");
    let small = "packet n=50 --policy fifo --runtime warpweft --workers 1 --repeat 1";
    for flag in ["--report", "--json", "--runs"] {
        let text = complaint(folder.path(), &format!("explore {small} {flag} no/such/file"), 1);
        assert!(
            text.contains("`no/such` does not exist") && text.contains("mkdir -p no/such"),
            "{text}"
        );
        assert!(!folder.path().join("no").exists());
    }
    let said = say(folder.path(), &format!("explore {small}"));
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("made the folder reports"), "{}", said.err);
    assert!(folder.path().join("reports/explore-packet.html").exists());
    let again = say(folder.path(), &format!("explore {small}"));
    assert!(!again.err.contains("made the folder"), "{}", again.err);
}

#[test]
fn runs_are_written_as_lines_and_bench_has_a_report() {
    let folder = Folder::new("csv");
    let said = say(
        folder.path(),
        "bench packet n=50 --policy fifo,lifo --workers 1 --repeat 3 --runs runs.csv --report bench.html",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.out.contains("Report: bench.html") && said.out.contains("CSV:    runs.csv"),
        "{}",
        said.out
    );
    let text = std::fs::read_to_string(folder.path().join("runs.csv")).expect("a table");
    let mut lines = text.lines();
    assert!(
        lines
            .next()
            .expect("names")
            .starts_with("workload,parameters,runtime,policy,workers,round")
    );
    let lines: Vec<&str> = lines.collect();
    assert!(
        lines.len() >= 6 && lines.iter().filter(|line| line.contains(",lifo,1,")).count() >= 3,
        "{text}"
    );
    let html = std::fs::read_to_string(folder.path().join("bench.html")).expect("a report");
    assert!(
        html.contains("warpweft bench") && html.contains("<svg"),
        "no chart"
    );
    assert!(!html.contains("class=\"advice\""), "bench advises nothing");
    // Records only on standard output.
    let said = say(
        folder.path(),
        "bench packet n=50 --workers 1 --repeat 1 --json --runs again.csv",
    );
    assert!(said.out.lines().all(|line| line.starts_with('{')), "{}", said.out);
    assert!(said.err.contains("CSV:    again.csv"), "{}", said.err);
    let text = complaint(folder.path(), "bench packet n=50 --open", 2);
    assert!(text.contains("--report FILE"), "{text}");
}

/// The command that opens files here is a script, which notes what it is given.
#[cfg(target_os = "linux")]
#[test]
fn a_report_is_opened_on_request() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{Duration, Instant};
    let folder = Folder::new("open");
    let script = "#!/bin/sh\nprintf '%s' \"$1\" > noted.part && mv noted.part noted\n";
    let opener = folder.file("xdg-open", script.as_bytes());
    let may_run = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(opener, may_run).expect("it is ours");
    let mut folders = folder.path().as_os_str().to_owned();
    folders.push(":");
    folders.push(std::env::var_os("PATH").unwrap_or_default());
    let noted = folder.path().join("noted");
    let run = |words: &str| {
        let output = command(folder.path())
            .args(words.split_whitespace())
            .env("PATH", &folders)
            .output()
            .expect("the command starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    let opened = |words: &str| {
        run(words);
        let start = Instant::now();
        // It is not waited for.
        while !noted.exists() && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let path = std::fs::read_to_string(&noted).expect("it was called");
        std::fs::remove_file(&noted).expect("it is ours");
        path
    };
    let bench = "bench packet n=50 --runtime warpweft --workers 1 --repeat 1";
    let path = opened(&format!("{bench} --report here.html --open"));
    assert_eq!(path, "here.html");
    let html = std::fs::read_to_string(folder.path().join(&path)).expect("a report");
    assert!(html.contains("warpweft bench"), "{html}");
    // A report of which only the command knows where it is.
    let path = opened("explore packet n=50 --policy fifo --workers 1 --repeat 1 --runtime warpweft --open");
    let html = std::fs::read_to_string(folder.path().join(&path)).expect("a report");
    assert!(
        path.starts_with("reports/") && html.contains("warpweft explore"),
        "{path}"
    );
    // Without the flag nothing is opened.
    run(&format!("{bench} --report again.html"));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!noted.exists());
}

#[test]
fn a_comparison_has_plots() {
    let folder = Folder::new("plots");
    let said = say(
        folder.path(),
        "compare churn/few --quick --runtime warpweft --policy fifo,lifo --workers 1,2 --repeat 1 --report c.html --runs c.csv",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    let html = std::fs::read_to_string(folder.path().join("c.html")).expect("a report");
    // Over the workers, and for each of the two numbers of them.
    assert_eq!(
        html.matches("<svg viewBox=\"0 0 960").count() + html.matches("<svg viewBox=\"0 0 760").count(),
        3
    );
    for foreign in ["<script", "http://", "NaN"] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    assert!(
        std::fs::read_to_string(folder.path().join("c.csv"))
            .expect("a table")
            .lines()
            .count()
            >= 5
    );
}

#[cfg(unix)]
#[test]
fn an_interrupted_exploration_prints_the_finished_rounds() {
    let folder = Folder::new("explore-interrupted");
    let words = "explore spawn n=100 --runtime warpweft --policy fifo,lifo --workers 1 --repeat 10000 --budget 600 \
                 --report r.html --runs r.csv";
    let mut command = command(folder.path());
    command.args(words.split_whitespace());
    let said = common::interrupted(&command, std::time::Duration::from_secs(5));
    assert_eq!(said.code, Some(130), "{}{}", said.out, said.err);
    assert!(said.out.contains("warpweft lifo"), "{}", said.out);
    assert!(
        said.out.contains("(10000 asked for; interrupted)"),
        "{}",
        said.out
    );
    assert!(
        said.err.contains("error: interrupted") && !said.err.contains("did not complete"),
        "{}",
        said.err
    );
    let lines = std::fs::read_to_string(folder.path().join("r.csv")).expect("a table");
    assert!(lines.lines().count() > 2, "{lines}");
    assert!(folder.path().join("r.html").exists());
}
