//! `try` runs programs that know nothing of it: a server with its clients, fibers, and programs that hang,
//! crash or decide for themselves. Each program is a case of this very test's executable.

mod common;

use std::error::Error;
use std::io::{Read, Write};
use std::process::Output;
use std::time::Duration;

use common::{Folder, Said, command};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use serde_json::Value;
use warpweft::net::TcpListener;
use warpweft::{Lifo, Runtime};

/// Set in a program: the case that it is.
const CASE: &str = "TRY_CASE";

/// Does nothing but in a program.
#[test]
fn programs() {
    let Ok(case) = std::env::var(CASE) else { return };
    let result = match case.as_str() {
        "http" => http(),
        "fibers" => fibers(),
        "hangs with lifo" => {
            if std::env::var("WARPWEFT_POLICY").is_ok_and(|policy| policy == "lifo") {
                std::thread::sleep(Duration::from_secs(600));
            }
            fibers()
        }
        "panics" => {
            let runtime = Runtime::builder().build().expect("a runtime");
            runtime.install(|_| panic!("it was meant")).expect("it is open");
            Ok(())
        }
        "decides" => decides(Runtime::builder()),
        "decides all" => decides(Runtime::builder().workers(2)),
        "decides one of two" => decides(Runtime::builder()).and_then(|()| fibers()),
        "is alone" => Ok(()),
        other => panic!("no case {other}"),
    };
    result.expect("the program ends well");
}

/// A server by hyper on a runtime that says neither policy nor workers, and clients that ask it.
fn http() -> Result<(), Box<dyn Error>> {
    async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
        let (a, b) = warpweft::join(|| (0..500_u64).sum::<u64>(), || 1);
        Ok(Response::new(Full::from((a + b).to_string())))
    }
    let runtime = Runtime::builder().name("http").build()?;
    let (listener, address) = runtime.block_on(async {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
        let address = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, address))
    })?;
    let server =
        runtime.spawn(async move { warpweft_tokio::serve_hyper(listener, service_fn(answer)).await });
    let clients: Vec<_> = (0..3)
        .map(|_| {
            std::thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(address)?;
                let mut answers = Vec::new();
                for turn in 0..40 {
                    let last = if turn == 39 { "Connection: close\r\n" } else { "" };
                    write!(stream, "GET / HTTP/1.1\r\nHost: x\r\n{last}\r\n")?;
                }
                stream.read_to_end(&mut answers)?;
                Ok::<_, std::io::Error>(String::from_utf8_lossy(&answers).matches("124751").count())
            })
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().map_err(|_| "a client panicked")??, 40);
    }
    drop(server);
    Ok(())
}

/// Fibers of the default runtime that wait for each other.
fn fibers() -> Result<(), Box<dyn Error>> {
    let fibers: Vec<_> = (0..200_u64)
        .map(|number| {
            warpweft::fiber::spawn(move || {
                let inner = warpweft::fiber::spawn(move || number * 2);
                warpweft::fiber::wait(warpweft::yield_soft());
                warpweft::fiber::wait(inner).expect("it returns")
            })
        })
        .collect();
    let mut sum = 0;
    for fiber in fibers {
        sum += fiber.wait()?;
    }
    assert_eq!(sum, 39_800);
    Ok(())
}

/// Sets its policy in the code.
fn decides(builder: warpweft::Builder) -> Result<(), Box<dyn Error>> {
    let runtime = builder.name("mine").policy(Lifo::new()).build()?;
    assert_eq!(runtime.spawn_job(|| 1).wait()?, 1);
    Ok(())
}

/// Tries a case with these words.
fn attempt(folder: &Folder, case: &str, words: &str) -> Said {
    let program = std::env::current_exe().expect("a test executable");
    let output: Output = command(folder.path())
        .arg("try")
        .args(words.split_whitespace())
        .args(["--report", "try.html", "--json", "try.json", "--"])
        .arg(program)
        .args(["--exact", "programs", "--nocapture"])
        .env(CASE, case)
        .env("RAYON_NUM_THREADS", "1")
        .output()
        .expect("the command starts");
    output.into()
}

fn document(folder: &Folder) -> Value {
    let text = std::fs::read_to_string(folder.path().join("try.json")).expect("a document");
    serde_json::from_str(&text).expect("JSON")
}

/// A program that follows the environment has a table, a report, and advice.
#[track_caller]
fn gets_advice(case: &str) {
    let folder = Folder::new(&format!("try-{case}"));
    let detail = format!(
        "shortest on {} worker",
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    let words = "--policies lifo,fifo+steal=one --workers 1,2 --repeat 10 --despite-load --budget 30";
    let said = attempt(&folder, case, words);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    for part in [
        "as it is",
        "lifo on 1 worker",
        "fifo+steal=one on 2 workers",
        "CPU time",
        "queue delay p50 / p99",
        "run time",
        &detail,
        "quartiles",
    ] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    let document = document(&folder);
    let settings = document["settings"].as_array().expect("settings");
    assert_eq!(settings.len(), 5);
    for setting in settings {
        assert!(
            setting["wall_seconds"]["median"].as_f64() > Some(0.0),
            "{setting}"
        );
        assert!(setting["cpu_seconds"]["median"].as_f64() > Some(0.0), "{setting}");
        assert!(setting["counters"]["ran"].as_f64() > Some(2.0), "{setting}");
        for delay in ["queue_delay", "run_time"] {
            let delay = &setting["delays"][delay];
            let [count, p50, p99] = ["count", "p50_ns", "p99_ns"].map(|name| delay[name].as_u64());
            assert!(count > Some(0) && p50 > Some(0) && p99 >= p50, "{setting}");
        }
        // Of all rounds that count.
        let runs = setting["runs"].as_array().expect("runs");
        for delay in ["queue_delay", "run_time"] {
            let count = |of: &Value| of["delays"][delay]["count"].as_u64().unwrap_or(0);
            assert_eq!(runs.iter().map(count).sum::<u64>(), count(setting), "{setting}");
            assert!(
                runs.iter().filter(|run| !run.is_null()).all(|run| count(run) > 0),
                "{setting}"
            );
        }
    }
    let advice = document["advice"].as_str().expect("advice");
    let rounds = document["rounds"].as_u64().expect("rounds");
    let known = ["Take ", "Leave it as it is ("]
        .iter()
        .any(|begin| advice.starts_with(begin));
    assert!(
        known || rounds < 9 && advice.contains("so few rounds"),
        "{advice}"
    );
    assert!(said.out.contains(advice), "{}", said.out);
    let html = std::fs::read_to_string(folder.path().join("try.html")).expect("a report");
    assert!(
        html.contains("Processor time")
            && html.contains("Scheduler counters")
            && html.contains("run times of steps")
    );
}

#[test]
fn a_server_by_hyper_gets_a_table_and_advice() {
    gets_advice("http");
}

#[test]
fn fibers_get_a_table_and_advice() {
    gets_advice("fibers");
}

/// One worker, half of the machine's, and all of them, each under each policy.
#[test]
fn without_numbers_of_workers_those_of_the_machine_are_tried() {
    let folder = Folder::new("try-usual");
    let words = "--policies lifo,fifo+steal=one --repeat 2 --without-delays";
    let said = attempt(&folder, "fibers", words);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let mut counts = vec![1, (all / 2).max(1), all];
    counts.dedup();
    let document = document(&folder);
    let settings = document["settings"].as_array().expect("settings");
    assert_eq!(settings.len(), 1 + 2 * counts.len(), "{}", said.out);
    for (at, setting) in settings.iter().skip(1).enumerate() {
        let policy = ["lifo", "fifo+steal=one"][at % 2];
        let is = (
            setting["setting"]["policy"].as_str(),
            setting["setting"]["workers"].as_u64(),
        );
        assert_eq!(is, (Some(policy), Some(counts[at / 2] as u64)));
        assert!(setting["delays"]["run_time"].is_null(), "{setting}");
    }
    assert!(!said.out.contains("queue delay"), "{}", said.out);
    // What sets its policy is tried with other numbers of workers.
    if all > 1 {
        let said = attempt(&folder, "decides", "--policies fifo --repeat 2");
        assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
        assert!(said.out.contains("its own policy on 1 worker"), "{}", said.out);
    }
}

#[test]
fn a_setting_under_which_the_program_hangs_is_named_and_the_others_have_figures() {
    let folder = Folder::new("try-hangs");
    let words = "--policies lifo,fifo+steal=one --workers 2 --repeat 2 --timeout 5";
    let said = attempt(&folder, "hangs with lifo", words);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(
        said.err.contains("`lifo` on 2 workers: no end within 5 s"),
        "{}",
        said.err
    );
    let document = document(&folder);
    let [own, lifo, fifo] = [0, 1, 2].map(|at| document["settings"][at].clone());
    assert!(own["wall_seconds"].is_object() && fifo["wall_seconds"].is_object());
    assert!(lifo["wall_seconds"].is_null() && lifo["failure"].is_string());
}

#[test]
fn a_program_that_crashes_is_quoted() {
    let folder = Folder::new("try-panics");
    let said = attempt(&folder, "panics", "--policies lifo --repeat 2");
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(
        said.err.contains("as it is: it ended with exit status: 101"),
        "{}",
        said.err
    );
    assert!(said.err.contains("it was meant"), "{}", said.err);
    assert!(said.out.contains("Nothing completed"), "{}", said.out);
}

#[test]
fn a_program_that_does_not_follow_is_told_so_and_what_it_is_is_measured() {
    let folder = Folder::new("try-alone");
    let said = attempt(&folder, "is alone", "--repeat 2");
    assert_eq!(said.code, Some(2), "{}{}", said.out, said.err);
    assert!(
        said.err.contains("the program ignores the environment"),
        "{}",
        said.err
    );
    assert!(said.out.contains("as it is"), "{}", said.out);
    let said = attempt(&folder, "decides all", "--policies fifo --repeat 2");
    assert_eq!(said.code, Some(2), "{}{}", said.out, said.err);
    assert!(
        said.err.contains("sets the workers of `mine` itself"),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("sets the policy of `mine` itself"),
        "{}",
        said.err
    );
    assert!(said.err.contains("Builder::default_policy"), "{}", said.err);
    // Its workers are still to be chosen.
    let said = attempt(&folder, "decides", "--policies fifo --workers 1,3 --repeat 2");
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("its own policy on 3 workers"), "{}", said.out);
    assert!(
        said.out.contains("sets the policy of `mine` itself"),
        "{}",
        said.out
    );
}

/// A program that takes some time, and says that it follows.
const FOLLOWS: &str = r#"sleep 0.05; echo "{\"pool\":\"p\",\"policy\":\"fifo\",\"policy_from\":\"WARPWEFT_POLICY\",\"workers\":9,\"workers_from\":\"WARPWEFT_WORKERS\"}" >> $WARPWEFT_STATS"#;

#[cfg(unix)]
#[test]
fn an_interrupt_prints_the_finished_rounds_and_accuses_nobody() {
    let folder = Folder::new("try-interrupted");
    let words = "try --policies lifo --workers 1 --repeat 1000 --report r.html --runs r.csv -- sh -c";
    let mut command = command(folder.path());
    command.args(words.split_whitespace()).arg(FOLLOWS);
    let said = common::interrupted(&command, Duration::from_secs(4));
    assert_eq!(said.code, Some(130), "{}{}", said.out, said.err);
    assert!(
        said.out.contains("as it is") && said.out.contains("lifo on 1 worker"),
        "{}",
        said.out
    );
    assert!(said.out.contains("(1000 asked for; interrupted)"), "{}", said.out);
    assert!(said.err.contains("error: interrupted"), "{}", said.err);
    for text in [&said.out, &said.err] {
        assert!(
            !text.contains("did not complete") && !text.contains("signal"),
            "{text}"
        );
    }
    let lines = std::fs::read_to_string(folder.path().join("r.csv")).expect("a table");
    assert!(lines.lines().count() > 2, "{lines}");
    assert!(folder.path().join("r.html").exists());
}

#[cfg(unix)]
#[test]
fn an_interrupt_of_the_first_run_says_that_nothing_is_finished() {
    let folder = Folder::new("try-interrupted-first");
    let mut command = command(folder.path());
    command.args(["try", "--", "sh", "-c", "touch begun; sleep 60"]);
    let start = std::time::Instant::now();
    let said = common::interrupted_after(&command, || {
        // It listens to the signal before it starts a run.
        while !folder.path().join("begun").exists() {
            assert!(start.elapsed() < Duration::from_secs(30), "nothing is run");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    assert_eq!(said.code, Some(130), "{}{}", said.out, said.err);
    assert!(
        said.err.contains("error: interrupted: no round was finished"),
        "{}",
        said.err
    );
    assert!(start.elapsed() < Duration::from_secs(30), "the child was ended");
}

#[test]
fn a_program_of_which_one_pool_is_fixed_is_told_so() {
    let folder = Folder::new("try-one-fixed");
    let words = "--policies lifo --workers 1 --repeat 1";
    let said = attempt(&folder, "decides one of two", words);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let text = "sets the policy of `mine` itself: there it stays as it is";
    assert_eq!(said.out.matches(text).count(), 1, "{}", said.out);
    assert!(said.out.contains("lifo on 1 worker"), "{}", said.out);
    assert!(said.out.contains("which no text names"), "{}", said.out);
}

#[test]
fn wrong_words_are_answered_before_anything_runs() {
    let folder = Folder::new("try-words");
    for (words, answer) in [
        ("try -- ./no-such-program", "cannot start `./no-such-program`"),
        ("try --policies lifoo -- true", "lifoo"),
        ("try --workers 0 -- true", "from 1 to"),
        ("try --repeat 0 -- true", "at least one"),
        ("try --timeout 0 -- true", "some time"),
        ("try --timeout -1 -- true", "some time"),
        ("try --budget -1 -- true", "a whole number of seconds from 0 on"),
        ("try --input nope -- true", "cannot read the input `nope`"),
        ("try", "PROGRAM"),
    ] {
        let said = common::say(folder.path(), words);
        assert!(
            said.err.starts_with("error: ") && said.err.contains(answer),
            "{words}: {}",
            said.err
        );
        assert!(said.code == Some(1) || said.code == Some(2), "{words}");
        assert!(said.out.is_empty(), "{words}: {}", said.out);
    }
}
