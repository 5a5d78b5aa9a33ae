//! The environment variables that replace a builder's defaults: what wins, where it is printed, and what a
//! wrong text gets. Each case is a child process, because the environment belongs to the whole process.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use std::ffi::OsStr;
use std::process::Command;
use warpweft::{BuildError, Lifo, Runtime};

/// Set in a child: the case that it is.
const CASE: &str = "WARPWEFT_TEST_CASE";
const WORKERS: &str = "WARPWEFT_WORKERS";
const POLICY: &str = "WARPWEFT_POLICY";
const STATS: &str = "WARPWEFT_STATS";
const MEASURE: &str = "WARPWEFT_MEASURE_STEPS";

/// Runs this very test in a child process, and returns what the case has printed there.
fn child(case: &str, variables: &[(&str, &OsStr)]) -> String {
    let executable = std::env::current_exe().expect("a test executable");
    let output = Command::new(executable)
        .args(["--exact", "cases", "--nocapture"])
        .env_remove(WORKERS)
        .env_remove(POLICY)
        .env_remove(STATS)
        .env_remove(MEASURE)
        .envs(variables.iter().copied())
        .env(CASE, case)
        .output()
        .expect("a child process");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{case}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

fn with(case: &str, variables: &[(&str, &str)]) -> String {
    let variables: Vec<_> = variables
        .iter()
        .map(|&(name, text)| (name, OsStr::new(text)))
        .collect();
    child(case, &variables)
}

#[track_caller]
fn says(text: &str, what: &[&str]) {
    for what in what {
        assert!(text.contains(what), "`{what}` is missing in: {text}");
    }
}

#[track_caller]
fn print_built(builder: warpweft::Builder) {
    println!("{builder:?}");
    match builder.build() {
        Ok(runtime) => {
            for pool in runtime.pools() {
                println!("{} has {} x {}", pool.name(), pool.workers(), pool.policy());
            }
            println!("{runtime:?}");
        }
        Err(error) => {
            let wrapped = matches!(error, BuildError::Environment { .. });
            println!("environment {wrapped}: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(error) = source {
                println!("source: {error}");
                source = error.source();
            }
        }
    }
}

/// Does nothing but in a child.
#[test]
fn cases() {
    let Some(case) = std::env::var_os(CASE) else {
        return;
    };
    match case.to_str().expect("a case") {
        "plain" => print_built(Runtime::builder()),
        "explicit" => print_built(
            Runtime::builder()
                .workers(2)
                .policy_spec("fifo".parse().expect("a policy")),
        ),
        "defaults" => print_built(Runtime::builder().default_workers(5).default_policy(Lifo::new())),
        "own policy" => print_built(Runtime::builder().policy(Lifo::new())),
        "pools" => print_built(
            Runtime::builder()
                .name("a")
                .then("b", Runtime::builder().workers(1))
                .then("c", Runtime::builder().policy(Lifo::new()))
                .silos("s", 1, |_| Runtime::builder()),
        ),
        "default runtime" => match warpweft::try_default_runtime() {
            Ok(runtime) => println!("{} x {}", runtime.workers(), runtime.policy()),
            Err(error) => println!("no default: {error}"),
        },
        #[cfg(feature = "macros")]
        "main" => {
            fn print(who: &str) {
                let pool = warpweft::Pool::current().expect("it is entered");
                println!("{who} {} x {}", pool.workers(), pool.policy());
            }
            {
                #[warpweft::main]
                async fn main() {
                    print("plain");
                }
                main();
            }
            {
                #[warpweft::main(workers = 1, policy = "fifo+steal=one")]
                async fn main() {
                    print("explicit");
                }
                main();
            }
        }
        "shut down twice" => {
            let runtime = Runtime::builder()
                .name("a \"b\"")
                .workers(2)
                .then("c", Runtime::builder().workers(1))
                .build()
                .expect("two pools");
            for number in 0..7 {
                assert_eq!(runtime.spawn_job(move || number).wait().ok(), Some(number));
            }
            runtime.shutdown();
            drop(runtime);
        }
        "left alone" => {
            assert_eq!(warpweft::spawn_job(|| 1).wait().ok(), Some(1));
            std::mem::forget(Runtime::builder().name("leaked").build().expect("a runtime"));
            drop(Runtime::builder().name("ended").build().expect("a runtime"));
        }
        "exits in a task" => {
            let job = warpweft::spawn_job(|| std::process::exit(0));
            let _ = job.wait();
        }
        #[cfg(unix)]
        "forks" => {
            let runtime = Runtime::builder().name("parents").build().expect("a runtime");
            // SAFETY: the child calls nothing but `exit`.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                std::process::exit(0);
            }
            let mut status = 0;
            // SAFETY: it waits for the child that was just made; `status` is valid for a write.
            let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
            assert_eq!((waited, status), (pid, 0));
            drop(runtime);
        }
        other => unreachable!("no case {other}"),
    }
}

#[test]
fn variables_replace_defaults_and_say_so() {
    let text = with("plain", &[(WORKERS, " 3 "), (POLICY, "fifo+steal=one")]);
    says(
        &text,
        &[
            "workers:  3  (from WARPWEFT_WORKERS)",
            "policy: fifo+steal=one (from WARPWEFT_POLICY)",
            "warpweft has 3 x fifo+steal=one",
            "policy: fifo+steal=one+overflow=grow+capacity=256+yield=local (from WARPWEFT_POLICY)",
            "workers: 3 (from WARPWEFT_WORKERS)",
        ],
    );
    let text = with("plain", &[]);
    says(&text, &["workers: (the default)", "policy: (the default)"]);
    says(
        &text,
        &["(the default), max_workers: ", "capacity: None, closed: false"],
    );
    assert!(!text.contains("WARPWEFT_"), "{text}");
}

#[test]
fn a_value_that_the_program_sets_wins() {
    // The variables are wrong, and nobody reads them.
    let text = with("explicit", &[(WORKERS, "0"), (POLICY, "nonsense")]);
    says(
        &text,
        &[
            "workers: 2 (set by the program)",
            "yield=local (set by the program)",
            "warpweft has 2 x fifo",
        ],
    );
    let text = with("own policy", &[(WORKERS, "2"), (POLICY, "nonsense")]);
    says(
        &text,
        &["workers: 2 (from WARPWEFT_WORKERS)", "(set by the program)"],
    );
}

#[test]
fn a_default_of_the_program_is_replaced() {
    let text = with("defaults", &[(WORKERS, "2"), (POLICY, "fifo+steal=one")]);
    says(
        &text,
        &[
            "workers: 2 (from WARPWEFT_WORKERS)",
            "warpweft has 2 x fifo+steal=one",
            "yield=local (from WARPWEFT_POLICY)",
        ],
    );
    let text = with("defaults", &[]);
    says(
        &text,
        &["workers: 5 (the default)", "warpweft has 5 x warpweft_policy::"],
    );
    says(&text, &["> (the default)"]);
    assert!(!text.contains("set by the program"), "{text}");
}

#[test]
fn each_pool_that_sets_nothing_follows() {
    let text = with("pools", &[(WORKERS, "2"), (POLICY, "fifo+steal=one")]);
    says(
        &text,
        &[
            "a has 2 x fifo+steal=one",
            "b has 1 x fifo+steal=one",
            "s-0 has 2 x fifo+steal=one",
        ],
    );
    says(&text, &["c has 2 x warpweft_policy::"]);
}

#[test]
fn the_default_runtime_follows() {
    let text = with("default runtime", &[(WORKERS, "3"), (POLICY, "fifo+steal=one")]);
    says(&text, &["3 x fifo+steal=one"]);
    let text = with("default runtime", &[(WORKERS, "many")]);
    says(
        &text,
        &["no default: the environment variable WARPWEFT_WORKERS is `many`"],
    );
}

#[cfg(feature = "macros")]
#[test]
fn the_attributes_follow_but_for_what_they_say() {
    let text = with("main", &[(WORKERS, "3"), (POLICY, "fifo+capacity=64")]);
    says(
        &text,
        &[
            "plain 3 x fifo+steal=half+overflow=grow+capacity=64",
            "explicit 1 x fifo+steal=one",
        ],
    );
}

#[test]
fn a_wrong_number_of_workers_is_an_error_that_names_the_variable() {
    for wrong in [
        "0",
        "abc",
        "",
        "-1",
        "4097",
        "99999999999999999999999",
        "2.5",
        "0x2",
    ] {
        let text = with("plain", &[(WORKERS, wrong)]);
        says(
            &text,
            &[
                &format!("environment true: the environment variable WARPWEFT_WORKERS is `{wrong}`"),
                "a pool may have 1 to 4096 (this process may use ",
                "source: which is no number of workers",
            ],
        );
    }
}

#[test]
fn a_wrong_policy_is_an_error_with_the_policys_own_reason() {
    for (wrong, reason) in [
        ("", "the order is missing"),
        ("fifoo", "`fifoo` is not an order"),
        ("fifo+stael=one", "at position 5"),
        ("fifo+steal=two", "steal= takes one of: one, half"),
    ] {
        let text = with("plain", &[(POLICY, wrong)]);
        let name = format!("environment true: the environment variable WARPWEFT_POLICY is `{wrong}`");
        says(&text, &[&name, reason, "source: policy `"]);
    }
    // A wrong variable concerns no pool in particular.
    let text = with("pools", &[(POLICY, "fifoo")]);
    says(
        &text,
        &["environment true: the environment variable WARPWEFT_POLICY is `fifoo`"],
    );
}

#[test]
fn a_policy_whose_feature_is_off_is_an_error_that_names_the_feature() {
    // Which features the policies of this build have depends on the whole build, so it is found by parsing.
    for name in ["lifo", "go"] {
        let text = with("plain", &[(POLICY, name)]);
        match name.parse::<warpweft::PolicySpec>() {
            Ok(spec) => says(&text, &["warpweft has", &spec.to_string()]),
            Err(error) => says(
                &text,
                &["WARPWEFT_POLICY", "needs the feature", &error.to_string()],
            ),
        }
    }
}

#[cfg(unix)]
#[test]
fn a_text_that_is_not_unicode_is_an_error() {
    use std::os::unix::ffi::OsStrExt;
    for variable in [WORKERS, POLICY] {
        let text = child("plain", &[(variable, OsStr::from_bytes(b"4\xff"))]);
        says(
            &text,
            &[&format!(
                "environment true: the environment variable {variable} is `4\u{fffd}`, which is not Unicode"
            )],
        );
    }
}

/// Runs a case with a file for the figures, and returns its lines.
fn stats(case: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let name = format!("warpweft-stats-{}-{}", case.replace(' ', "-"), std::process::id());
    let path = std::env::temp_dir().join(name);
    let path = path.to_str().expect("a text");
    let variables: Vec<_> = variables.iter().copied().chain([(STATS, path)]).collect();
    with(case, &variables);
    let text = std::fs::read_to_string(path).expect("a file of figures");
    std::fs::remove_file(path).expect("it is ours");
    assert!(text.is_empty() || text.ends_with("}\n"), "{text}");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn each_pool_of_a_runtime_that_ends_has_one_line() {
    let lines = stats("shut down twice", &[(POLICY, "fifo+steal=one"), (WORKERS, "3")]);
    let [first, second] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    says(
        first,
        &[
            r#"{"warpweft":1,"pid":"#,
            r#""runtime":1,"pool":"a \"b\"","policy":"fifo+steal=one"#,
            r#""policy_from":"WARPWEFT_POLICY","workers":2,"workers_from":"program","max_workers":2,"written":"shutdown","seconds":"#,
            r#""injected":7,"ran":7,"#,
        ],
    );
    says(
        second,
        &[r#""runtime":1,"pool":"c","#, r#""workers":1"#, r#""ran":0,"#],
    );
}

#[cfg(unix)]
#[test]
fn runtimes_that_the_process_leaves_alone_have_their_lines_at_its_end() {
    let lines = stats("left alone", &[]);
    let [ended, default, leaked] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    says(
        ended,
        &[r#""runtime":3,"pool":"ended""#, r#""written":"shutdown""#],
    );
    says(
        default,
        &[
            r#""runtime":1,"pool":"warpweft""#,
            r#""policy_from":"default""#,
            r#""workers_from":"default""#,
            r#""written":"exit""#,
            r#""ran":1,"#,
        ],
    );
    says(leaked, &[r#""runtime":2,"pool":"leaked""#, r#""written":"exit""#]);
    // A worker ends the process.
    let lines = stats("exits in a task", &[]);
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[cfg(unix)]
#[test]
fn a_forked_child_writes_no_line_of_its_parents_runtimes() {
    let lines = stats("forks", &[]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    says(&lines[0], &[r#""pool":"parents""#, r#""written":"shutdown""#]);
}

#[test]
fn a_runtime_that_is_not_built_has_a_line_with_the_reason() {
    let lines = stats("plain", &[(POLICY, "lifoo")]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    says(
        &lines[0],
        &[r#""error":"the environment variable WARPWEFT_POLICY is `lifoo`"#],
    );
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_of_the_build() {
    let text = with("plain", &[(STATS, "/nowhere/stats.jsonl")]);
    says(
        &text,
        &[
            "environment true: the environment variable WARPWEFT_STATS is `/nowhere/stats.jsonl`, which is no file",
        ],
    );
}

/// Measured steps are in the line; without the variable they are not, and a wrong text is an error.
#[test]
fn steps_are_measured_if_the_environment_says_so() {
    let lines = stats("shut down twice", &[(MEASURE, "1")]);
    let measured = r#""run_time":{"count":7,"p50_ns":"#;
    says(&lines[0], &[r#""queue_delay":{"count":"#, measured]);
    // The buckets have all of them.
    let buckets = lines[0].split(r#""run_time":"#).nth(1).expect("it is there");
    let buckets = buckets.split(r#""buckets":[["#).nth(1).expect("it has buckets");
    let buckets = buckets.split("]]").next().expect("they end").split("],[");
    let counts = buckets.map(|bucket| bucket.split(',').nth(1).expect("a count"));
    let counts = counts.map(|count| count.parse::<u64>().expect("a number"));
    assert_eq!(counts.sum::<u64>(), 7, "{}", lines[0]);
    assert!(!lines[1].contains("run_time"), "no step ran there: {}", lines[1]);
    for variables in [&[][..], &[(MEASURE, "0")]] {
        let lines = stats("shut down twice", variables);
        assert!(!lines[0].contains("run_time"), "{}", lines[0]);
    }
    let text = with("plain", &[(MEASURE, "yes")]);
    let error = "the environment variable WARPWEFT_MEASURE_STEPS is `yes`, which is neither 0 nor 1";
    says(&text, &[error]);
}
