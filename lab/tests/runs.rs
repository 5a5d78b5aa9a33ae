//! Every workload on every runtime that can run it, in tiny sizes. Each run checks its own result; these
//! tests check that what is reported is complete and that contestants agree on it.

mod common;

use common::{Folder, command, each_runs, records, say};
use serde_json::Value;

/// All runtimes but Go, which may be missing.
const RUNTIMES: &str = "warpweft,rayon,rayon-fifo,tokio,smol,threads";

/// Those that serve HTTP.
const SERVERS: &str = "warpweft,tokio,tokio+rayon,monoio";

#[test]
fn http_runs_on_those_that_serve() {
    each_runs("http n=2000 connections=7 clients=3", SERVERS, 2000);
    each_runs("http/hello n=500 connections=1 clients=4", SERVERS, 500);
}

#[test]
fn http_fans_out_to_backends_that_take_their_time() {
    each_runs(
        "http/fan-out n=300 connections=7 clients=2 delay=300",
        SERVERS,
        300,
    );
    let folder = Folder::new("fan-out");
    // Those that compute do not ask the backends.
    let words = format!(
        "http/fan-out n=100 connections=20 heavy=10 delay=20000 --runtime {SERVERS} --workers 1 --repeat 1"
    );
    for record in records(&folder, &words) {
        let light = record["measures"]["light_p50_us"].as_f64().unwrap_or_default();
        let seconds = record["seconds"].as_f64().unwrap_or_default();
        assert!(light >= 20_000.0, "{record}");
        // Ninety of them, twenty at once. One after the other, and each backend after the other, would be 5.4
        // s.
        assert!((0.09..5.0).contains(&seconds), "{record}");
    }
}

#[test]
fn http_tells_the_light_requests_from_those_that_compute() {
    let folder = Folder::new("http-compute");
    let words = format!("http/compute n=400 --runtime {SERVERS} --workers 2 --repeat 1");
    each_runs("http/compute n=400 compute=20", SERVERS, 400);
    for record in records(&folder, &words) {
        let measure = |name: &str| record["measures"][name].as_f64().unwrap_or_default();
        assert_eq!(record["latency"]["count"], 400, "{record}");
        assert!(0.0 < measure("light_p50_us") && measure("light_p50_us") <= measure("light_p99_us"));
        assert!(
            measure("heavy_p99_us") >= 100.0,
            "they compute for about 200 us: {record}"
        );
        assert!(measure("light_max_us") >= measure("light_p999_us"), "{record}");
        assert!(measure("heavy_max_us") >= measure("heavy_p99_us"), "{record}");
    }
}

#[test]
fn monoio_says_by_which_driver_and_serves_by_both() {
    let folder = Folder::new("monoio");
    for (forced, driver) in [("0", "by "), ("1", "by epoll")] {
        let output = command(folder.path())
            .args("bench http n=500 --runtime monoio --workers 2 --repeat 1".split(' '))
            .env("MONOIO_FORCE_LEGACY_DRIVER", forced)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(driver), "{said}");
    }
}

#[test]
fn loops_run_where_there_are_parallel_loops() {
    for program in ["sum", "map", "each"] {
        each_runs(
            &format!("loops/{program} n=500 loops=4"),
            "warpweft,rayon,sequential",
            2000,
        );
    }
    // Its pool has a thread for each CPU, and no more.
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let folder = Folder::new("loops");
    for variant in ["sum", "map", "each", "skewed", "small piece=9"] {
        let found = records(
            &folder,
            &format!("loops/{variant} n=500 loops=4 --runtime orx-parallel --workers 1,{cpus} --repeat 1"),
        );
        assert!(!found.is_empty());
        for record in found {
            assert_eq!(record["operations"], 2000, "{record}");
            assert!(record["measures"]["us_per_loop"].as_f64() > Some(0.0), "{record}");
        }
    }
}

#[test]
fn packet_runs_everywhere() {
    each_runs("packet n=300 window=32", RUNTIMES, 300);
}

#[test]
fn packet_without_a_window_runs_everywhere() {
    each_runs("packet/spawners4 n=400 window=0", RUNTIMES, 400);
}

#[test]
fn packet_heavier_and_the_null_run_work() {
    each_runs("packet/heavier n=100", RUNTIMES, 100);
    for workload in ["packet", "pcap", "packet-cache"] {
        each_runs(&format!("{workload}/null n=200"), RUNTIMES, 200);
    }
}

#[test]
fn pcap_runs_everywhere() {
    each_runs("pcap n=2000 spawners=2", RUNTIMES, 2000);
}

#[test]
fn packet_cache_runs_everywhere() {
    each_runs("packet-cache n=100 window=20", RUNTIMES, 100);
}

#[test]
fn fib_promise_runs_everywhere() {
    each_runs("fib-promise n=10", RUNTIMES, 177);
}

#[test]
fn spawn_runs_everywhere_in_all_modes() {
    let variants = [
        "batch",
        "one",
        "fire",
        "backlog",
        "outside",
        "one-outside",
        "fire-outside",
        "backlog from=outside",
    ];
    for variant in variants {
        each_runs(&format!("spawn/{variant} n=200"), RUNTIMES, 200);
    }
}

#[test]
fn spawn_runs_in_a_scope_where_there_is_one() {
    each_runs("spawn/scope n=200", "warpweft,rayon", 200);
}

#[test]
fn ticks_run_on_tasks_and_on_jobs() {
    each_runs("ticks n=20", "warpweft,tokio,smol,rayon,threads", 20);
}

#[test]
fn parked_runs_where_tasks_can_wait() {
    each_runs("parked n=500", "warpweft,tokio,smol,threads", 500);
    each_runs("parked/semaphore n=300", "warpweft,tokio,smol,may,threads", 300);
}

#[test]
fn pingpong_runs_where_tasks_can_wait_for_each_other() {
    for (words, operations) in [
        ("pingpong n=200", 200),
        ("pingpong n=200 capacity=64", 200),
        ("pingpong/oneshot n=200", 200),
        ("pingpong/fan n=50 fan=5", 250),
        ("pingpong/fan n=50 fan=1", 50),
    ] {
        each_runs(words, "warpweft,tokio,smol,may", operations);
        each_runs(&format!("{words} style=fibers"), "warpweft,tokio", operations);
    }
}

#[test]
fn lock_runs_with_all_locks() {
    for locks in ["local", "global"] {
        // 300 operations over 7 tasks are 42 each.
        let words = format!("lock n=300 tasks=7 locks={locks}");
        each_runs(&words, "warpweft,tokio,smol,may", 294);
        each_runs(&format!("{words} style=fibers"), "warpweft,tokio", 294);
        each_runs(&format!("{words} mutex=std"), "warpweft,tokio,smol", 294);
    }
    each_runs("lock n=1 tasks=9", "warpweft,tokio,smol", 9);
}

#[test]
fn timers_run_and_say_what_a_task_takes() {
    // The lead is long: this process may have to wait for a processor.
    for words in [
        "n=300 spread=20 lead=1000",
        "n=300 spread=20 lead=1000 io=thread",
        "n=300 spread=1 lead=0",
    ] {
        each_runs(&format!("timers {words}"), "warpweft,tokio,may", 300);
    }
    let folder = Folder::new("timers");
    let said = say(
        folder.path(),
        "bench timers n=5000 spread=10 lead=3000 --runtime warpweft,tokio --workers 1 --repeat 1",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    for part in ["bytes per task", "p99", "sleeps/s", "whole milliseconds"] {
        assert!(said.out.contains(part), "{part} is missing: {}", said.out);
    }
}

/// Those that wait and compute.
const HIDING: &str = "warpweft,rayon,tokio,tokio+rayon";

#[test]
fn maps_over_remote_items_say_how_far_from_the_limit_they_are() {
    each_runs("mapreducefib n=30 wait=4 fib=14 base=8", HIDING, 30);
    each_runs(
        "mapreducefib/skewed n=30 wait=4 fib=8 base=6 heavy=3 heavy-fib=14",
        HIDING,
        30,
    );
    each_runs("mapreducefib/tcp n=30 wait=4 fib=14 base=8", HIDING, 30);
    each_runs("mapreducefib/tcp n=1 wait=0 fib=3", HIDING, 1);
    // More heavy items than items, one item, nothing above the base, nothing to compute.
    each_runs("mapreducefib n=5 wait=1 heavy=9 heavy-fib=12 base=8", HIDING, 5);
    each_runs("mapreducefib n=1 wait=1 fib=12", HIDING, 1);
    each_runs("overhead n=30 fib=14 base=8", HIDING, 30);
    each_runs("overhead n=7 fib=0 base=0", HIDING, 7);
    let folder = Folder::new("mapreducefib");
    let words = "mapreducefib n=2000 wait=100 fib=10 --runtime warpweft,rayon --workers 2 --repeat 1";
    for record in records(&folder, words) {
        let ratio = record["measures"]["ratio_to_limit"].as_f64().expect("a ratio");
        assert!(ratio > 0.5, "{record}");
        if record["runtime"] == "rayon" {
            // Its workers sleep: 20 s at most, so that there are fewer items.
            assert_eq!(record["operations"], 200);
            assert!(ratio > 50.0, "{record}");
        } else {
            assert_eq!(record["operations"], 2000);
        }
    }
}

#[test]
fn a_sweep_says_what_was_hidden() {
    each_runs("sweep n=7 work=2", HIDING, 21);
    each_runs("sweep/none n=6 work=1", HIDING, 13);
    each_runs("sweep/all n=2 work=1", HIDING, 2);
    let folder = Folder::new("sweep");
    let ratio = |words: &str| {
        let record = records(
            &folder,
            &format!("sweep n=8 work=20 {words} --workers 2 --repeat 1"),
        )
        .remove(0);
        record["measures"]["ratio_to_classic"].as_f64().expect("a ratio")
    };
    // 34 leaves of 20 ms on two workers.
    assert!(ratio("share=0") >= 0.99);
    assert!(ratio("share=50 --runtime rayon") >= 0.99);
    let hidden = ratio("share=100");
    assert!(hidden < 0.9, "{hidden}");
}

#[test]
fn timers_that_have_no_time_to_fall_asleep_say_so() {
    let folder = Folder::new("lead");
    let said = say(
        folder.path(),
        "bench timers n=300k lead=1 --runtime warpweft,tokio --workers 2 --repeat 1",
    );
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert!(said.err.contains("such as lead=2"), "{}", said.err);
}

#[test]
fn mixed_runs_in_both_forms() {
    let folder = Folder::new("mixed");
    for io in ["inline", "thread"] {
        let beside = records(
            &folder,
            &format!(
                "mixed numbers=3000 connections=3 rate=500 millis=60 io={io} --runtime warpweft,tokio+rayon \
                 --workers 1,2 --repeat 1"
            ),
        );
        assert!(beside.len() >= 4);
        for record in &beside {
            // Half of a thousand in 60 ms, over three connections.
            assert_eq!(record["latency"]["count"], 30, "{record}");
            assert!(
                record["operations"].as_u64().is_some_and(|sorts| sorts > 0),
                "{record}"
            );
            for measure in [
                "cpu_kept",
                "sorts_per_s_alone",
                "wake_alone_p99_us",
                "trip_p99_us",
                "trip_alone_p99_us",
                "wake_alone_max_us",
                "trip_max_us",
                "trip_alone_max_us",
            ] {
                assert!(
                    record["measures"][measure]
                        .as_f64()
                        .is_some_and(|value| value > 0.0),
                    "{measure}: {record}"
                );
            }
        }
        each_runs(
            &format!("mixed/request n=25 numbers=3000 connections=4 io={io}"),
            "warpweft,tokio+rayon",
            25,
        );
    }
    // More clients than requests, and sorts of one number.
    each_runs(
        "mixed/request n=3 numbers=1 connections=9",
        "warpweft,tokio+rayon",
        3,
    );
}

#[test]
fn fork_join_runs_where_there_is_a_join() {
    for (words, operations) in [
        ("fork-join n=12", 232),
        ("fork-join/quicksort n=9000", 9000),
        ("fork-join/mergesort n=9000", 9000),
        ("fork-join/matmul n=70", 343_000),
        ("fork-join/nbody n=50", 2500),
        ("fork-join/treesum n=100 sums=7", 700),
    ] {
        each_runs(words, "warpweft,rayon,chili,forte,sequential", operations);
    }
    each_runs("fork-join n=12 form=free", "warpweft,rayon", 232);
}

#[test]
fn fork_join_says_what_each_operation_took_and_what_each_contestant_is() {
    let folder = Folder::new("joins");
    let said = say(
        folder.path(),
        "bench fork-join/treesum n=1 sums=1000 --runtime warpweft,rayon,chili,sequential --workers 1 --repeat 1",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    for part in [
        "program=treesum sums=1000",
        "nodes/s",
        "ns per node",
        "ns per sum",
        "the caller is one of the workers",
        "nothing is forked",
    ] {
        assert!(said.out.contains(part), "{part} is missing: {}", said.out);
    }
}

#[test]
fn fork_join_can_be_explored() {
    let folder = Folder::new("explore-joins");
    let said = say(
        folder.path(),
        "explore fork-join/quicksort --smoke --runtime warpweft,rayon,chili,sequential --workers 1,2",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    for part in [
        "chili",
        "elements/s",
        "sequential is left out",
        "Report: reports/explore-fork-join-quicksort.html",
    ] {
        assert!(
            said.out.contains(part) || said.err.contains(part),
            "{part} is missing: {}{}",
            said.out,
            said.err
        );
    }
}

#[test]
fn what_waits_can_be_explored() {
    let folder = Folder::new("explore-waits");
    for workload in [
        "http/compute",
        "http/fan-out",
        "mixed",
        "mixed/request",
        "pingpong",
        "lock/global",
        "timers",
    ] {
        let said = say(
            folder.path(),
            &format!("explore {workload} --smoke --runtime warpweft,tokio --policy fifo --workers 1"),
        );
        assert_eq!(said.code, Some(0), "{workload}: {}", said.err);
        let page = format!("reports/explore-{}.html", workload.replace('/', "-"));
        assert!(said.out.contains(&format!("Report: {page}")), "{}", said.out);
        let html = std::fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(html.trim_end().ends_with("</html>") && html.contains("fifo"));
        // The light requests' own tail is in the table and in the report.
        if workload == "http/compute" {
            assert!(
                said.out.contains("light p99 us") && html.contains("light p99 us"),
                "{}",
                said.out
            );
        }
    }
}

#[test]
fn go_runs_what_it_can_if_it_is_installed() {
    let folder = Folder::new("go");
    for words in [
        "packet n=300",
        "packet-cache n=100",
        "fib-promise n=10",
        "spawn n=200",
        "spawn/one n=50",
        "parked n=100",
        "pingpong n=100",
        "pingpong/oneshot n=100",
        "pingpong/fan n=20",
        "lock/local n=1000",
        "lock/global n=1000",
        "timers n=500 spread=20 lead=2000",
        "timers/at-once n=500 spread=20",
        "mapreducefib n=40 wait=5 fib=15 base=10",
        "mapreducefib/skewed n=40 wait=5 fib=12 base=10 heavy-fib=16",
        "overhead n=20 fib=15 base=10",
        "sweep n=6 work=2",
        "http n=500 connections=5",
        "http/compute n=500 compute=20",
        "http/fan-out n=100 connections=10 delay=500",
        "mixed/request n=25 numbers=5000 connections=4",
        "mixer n=5 conferences=3 pace=2",
        "mixer/flat-out n=50 conferences=3 participants=5",
    ] {
        let said = say(
            folder.path(),
            &format!("bench {words} --runtime go --workers 2 --repeat 1 --json"),
        );
        if said.err.contains("not installed") {
            assert_eq!(said.code, Some(2));
            return;
        }
        assert_eq!(said.code, Some(0), "{words}: {}", said.err);
    }
}

#[test]
fn a_record_holds_everything_that_is_needed_to_judge_it() {
    let folder = Folder::new("record");
    let records = records(
        &folder,
        "packet n=500 --policy lifo+steal=one --workers 2 --repeat 2",
    );
    let kept: Vec<bool> = records
        .iter()
        .filter_map(|record| record["kept"].as_bool())
        .collect();
    assert!(
        !kept[0] && kept[kept.len() - 1],
        "the first round does not count: {kept:?}"
    );
    let record = &records[records.len() - 1];
    assert_eq!(record["workload"], "packet");
    assert_eq!(record["parameters"]["n"], 500);
    assert_eq!(record["parameters"]["window"], 1024);
    assert_eq!(record["runtime"], "warpweft");
    assert_eq!(record["policy"], "lifo+steal=one");
    assert_eq!(record["workers"], 2);
    assert_eq!(record["operations"], 500);
    let number = |path: &str| {
        record
            .pointer(path)
            .and_then(Value::as_f64)
            .unwrap_or_else(|| panic!("{path} is missing in {record}"))
    };
    assert!((number("/throughput") * number("/seconds") - 500.0).abs() < 0.5);
    assert_eq!(number("/latency/count"), 500.0);
    let percentiles = ["p50", "p99", "p999", "p9999", "max"].map(|name| number(&format!("/latency/{name}")));
    assert!(percentiles.is_sorted() && percentiles[0] > 0.0, "{percentiles:?}");
    let total = record["counters"]["total"].as_object().unwrap();
    assert!(total.len() >= 10, "{total:?}");
    assert_eq!(record["counters"]["workers"].as_array().map(Vec::len), Some(2));
    for path in [
        "/versions/rustc",
        "/versions/tokio",
        "/versions/allocator",
        "/machine/processor",
        "/machine/system",
    ] {
        assert!(
            record
                .pointer(path)
                .is_some_and(|value| value.as_str().is_some_and(|text| !text.is_empty())),
            "{path}"
        );
    }
    assert!(number("/machine/cpus") >= 1.0);
    if number("/machine/cpus") > 1.0 {
        assert!(number("/probe_ns") > 1.0 && number("/probe_usual_ns") > 1.0);
    }
}

#[test]
fn counters_count_the_measured_part() {
    let folder = Folder::new("counters");
    let record = &records(&folder, "packet n=1000 --policy fifo --workers 1 --repeat 1")[0];
    let ran = record["counters"]["total"]["ran"].as_u64().unwrap();
    // The handlers and the listener, which may be run several times because it yields; not the warm-up.
    assert!((1000..1400).contains(&ran), "{ran} of 1000 handlers");
}

#[test]
fn contestants_agree_on_what_the_capture_holds() {
    let folder = Folder::new("agree");
    let all = records(
        &folder,
        "pcap n=5000 --runtime warpweft,rayon,tokio,smol --workers 2 --repeat 1",
    );
    let found = |record: &Value| {
        ["tcp_segments", "http_requests", "http_responses"]
            .map(|name| record["measures"][name].as_f64().unwrap_or(-1.0))
    };
    let first = found(&all[0]);
    assert!(first.iter().all(|count| *count > 0.0), "{first:?}");
    assert!(all.iter().all(|record| found(record) == first));
}

#[test]
fn the_summary_goes_where_the_records_do_not() {
    let folder = Folder::new("summary");
    let said = say(
        folder.path(),
        "bench packet n=200 --runtime rayon,tokio --workers 2 --repeat 2",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.out.contains("rayon") && said.out.contains("× best peer"),
        "{}",
        said.out
    );
    let said = say(
        folder.path(),
        "bench packet n=200 --runtime rayon --workers 2 --repeat 2 --json",
    );
    assert!(
        said.out.lines().all(|line| line.starts_with('{')) && said.err.contains("packets/s"),
        "{}",
        said.err
    );
}

#[test]
fn exploring_writes_table_report_and_document() {
    let folder = Folder::new("explore");
    let said = say(folder.path(), "explore --smoke --workers 1,2 --json all.json");
    assert_eq!(said.code, Some(0), "{}", said.err);
    for part in [
        "fifo",
        "lifo",
        "rayon",
        "tokio",
        "smol",
        "Report: reports/explore-pcap.html",
    ] {
        assert!(said.out.contains(part), "{part} is missing: {}", said.out);
    }
    let html = std::fs::read_to_string(folder.path().join("reports/explore-pcap.html")).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    for foreign in ["<script", "http://", "https://"] {
        assert!(!html.contains(foreign), "{foreign} in the report");
    }
    let document: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("all.json")).unwrap()).unwrap();
    assert!(!document["frontier"].as_array().unwrap().is_empty());
    assert!(document["runs"].as_array().unwrap().len() >= document["rows"].as_array().unwrap().len());
    let advice = document["advice"].as_str().unwrap();
    assert!(
        advice.starts_with("Nothing can be told apart in so few rounds") && said.out.contains(advice),
        "{advice}"
    );
}

#[test]
fn the_report_of_latency_hiding_draws_the_ideal() {
    let folder = Folder::new("explore-hiding");
    let said = say(
        folder.path(),
        "explore mapreducefib --smoke --runtime warpweft,rayon,tokio --policy lifo --workers 1,2",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    let html = std::fs::read_to_string(folder.path().join("reports/explore-mapreducefib.html")).unwrap();
    assert!(html.contains("Speed-up over workers") && html.contains("ideal: nothing to wait for"));
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    assert!(!html.contains("NaN") && !html.contains("inf"));
    // Where there is nothing to hide there is no ideal.
    let said = say(
        folder.path(),
        "explore overhead --smoke --runtime warpweft,rayon --policy lifo --workers 1",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    let html = std::fs::read_to_string(folder.path().join("reports/explore-overhead.html")).unwrap();
    assert!(!html.contains("Speed-up over workers") && html.contains("Throughput over workers"));
}

#[test]
fn another_capture_can_be_explored() {
    let folder = Folder::new("other");
    // The first packets of the bundled one, as another file.
    let mut end = 24;
    for _ in 0..50 {
        let length = u32::from_le_bytes(common::CAPTURE[end + 8..end + 12].try_into().unwrap());
        end += 16 + length as usize;
    }
    folder.file("other.pcap", &common::CAPTURE[..end]);
    let said = say(
        folder.path(),
        "explore --smoke --pcap other.pcap --runtime warpweft --workers 1 --report r.html",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        std::fs::read_to_string(folder.path().join("r.html"))
            .unwrap()
            .contains("other.pcap")
    );
}

#[test]
fn the_list_names_everything() {
    let folder = Folder::new("list");
    let said = say(folder.path(), "list");
    assert_eq!(said.code, Some(0));
    for part in [
        "pcap",
        "packet/heavier",
        "packet-cache",
        "fib-promise",
        "spawn/one",
        "parked",
        "pingpong/fan",
        "lock/global",
        "timers/at-once",
        "mixed/request",
        "tokio+rayon",
        "fork-join/treesum",
        "chili",
        "forte",
        "loops/skewed",
        "orx-parallel",
        "monoio",
        "http/compute",
        "mapreducefib/skewed",
        "overhead/large",
        "sweep/all",
        "http/fan-out",
        "tokio+rayon",
        "sequential",
        "rayon-fifo",
        "go",
        "lifo",
    ] {
        assert!(said.out.contains(part), "{part} is missing");
    }
    let help = command(folder.path()).arg("--help").output().unwrap();
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("explore"));
}
