//! Packets of which a few take long, in tiny sizes: each run checks its own result, these tests check what is
//! told.

mod common;

use common::{Folder, each_runs, records, say};
use serde_json::Value;

/// All that run closures.
const CLOSURES: &str = "warpweft,rayon,rayon-fifo,tokio,smol,threads,steal-one";

fn measure(record: &Value, name: &str) -> f64 {
    record["measures"][name].as_f64().unwrap_or_default()
}

#[test]
fn packet_bimodal_runs_everywhere_in_all_forms() {
    each_runs("packet-bimodal/spawners1 n=400 take=2 window=64", CLOSURES, 400);
    each_runs("packet-bimodal/blocking n=400 take=2", CLOSURES, 400);
    each_runs(
        "packet-bimodal/network n=400 take=2",
        "warpweft,tokio,threads",
        400,
    );
    each_runs("packet-bimodal/null n=400", CLOSURES, 400);
    each_runs("packet-bimodal n=100 heavy=0", "warpweft,tokio", 100);
}

#[test]
fn thieves_that_take_one_handle_packets() {
    for words in ["packet n=500 window=32", "packet/spawners4 n=500 window=0"] {
        each_runs(words, "steal-one,rayon", 500);
    }
    each_runs("packet-cache n=100 window=20", "steal-one,rayon", 100);
    each_runs("packet-cache/null n=100", "steal-one,rayon", 100);
}

#[test]
fn heavy_packets_are_told_apart_from_the_light_ones() {
    let folder = Folder::new("bimodal");
    for form in ["compute", "network", "blocking"] {
        let words = format!(
            "packet-bimodal/{form} n=2000 take=5 --runtime warpweft,tokio --policy fifo --workers 2 --repeat 1"
        );
        for record in records(&folder, &words) {
            assert_eq!(measure(&record, "heavy_packets"), 2.0, "{record}");
            assert_eq!(record["latency"]["count"], 2000, "both kinds: {record}");
            assert!(
                measure(&record, "heavy_p50_us") >= 5_000.0,
                "both take 5 ms: {record}"
            );
            assert!(measure(&record, "light_p50_us") > 0.0, "{record}");
        }
    }
}

#[test]
fn stages_have_pools_of_their_own() {
    let folder = Folder::new("bimodal-staged");
    let policies = "fifo,staged,staged:fifo/lifo+steal=one,staged:fifo/lifo/fifo";
    for variant in ["compute", "network", "blocking", "null"] {
        let words =
            format!("packet-bimodal/{variant} n=400 take=2 --policy {policies} --workers 3,4 --repeat 1");
        let records = records(&folder, &words);
        assert_eq!(records.len(), 8, "{variant}");
        for record in records {
            let workers = record["counters"]["workers"].as_array().map_or(0, Vec::len);
            assert_eq!(record["workers"], workers, "as many workers in all: {record}");
            assert_eq!(record["operations"], 400, "{record}");
        }
    }
}

#[test]
fn stages_may_say_how_many_workers_they_have() {
    let folder = Folder::new("bimodal-stages");
    let words = "packet-bimodal n=400 take=2 --policy staged:fifo@1/fifo@2:16/fifo@2,staged:fifo@2/lifo@3 --workers 2 --repeat 1";
    let records = records(&folder, words);
    assert_eq!(records.len(), 2);
    for record in records {
        assert_eq!(measure(&record, "workers_in_all"), 5.0, "{record}");
        assert_eq!(
            record["counters"]["workers"].as_array().map_or(0, Vec::len),
            5,
            "{record}"
        );
        assert_eq!(
            (&record["workers"], &record["operations"]),
            (&Value::from(2), &Value::from(400))
        );
    }
}

#[test]
fn what_computes_takes_a_cpus_time() {
    let folder = Folder::new("bimodal-time");
    // 40 pieces of 10 ms, on eight threads for each CPU: by the clock alone they would be through eight times
    // as soon. (A quota may be a part of a CPU more.)
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let least = 40.0 * 0.01 / (cpus + 1) as f64;
    for runtime in ["warpweft", "rayon-fifo", "go"] {
        let words = format!(
            "bench packet-bimodal n=2000 heavy=10 take=10 --runtime {runtime} --workers {} --repeat 1 --json",
            8 * cpus
        );
        let said = say(folder.path(), &words);
        if said.err.contains("not installed") {
            continue;
        }
        assert_eq!(said.code, Some(0), "{runtime}: {}", said.err);
        let record: Value = serde_json::from_str(said.out.trim()).expect("one record");
        assert_eq!(measure(&record, "heavy_packets"), 20.0, "{record}");
        assert!(
            record["seconds"].as_f64().is_some_and(|took| took >= least),
            "{record}"
        );
    }
}

#[test]
fn without_heavy_packets_there_is_one_kind() {
    let folder = Folder::new("bimodal-light");
    let words = "packet-bimodal n=300 heavy=0 --runtime warpweft --workers 1 --repeat 1";
    for record in records(&folder, words) {
        assert!(record["measures"].get("light_p50_us").is_none(), "{record}");
        assert_eq!(record["latency"]["count"], 300, "{record}");
    }
}

#[test]
fn the_table_shows_both_kinds() {
    let folder = Folder::new("bimodal-table");
    let said = say(
        folder.path(),
        "bench packet-bimodal n=1000 take=2 --runtime warpweft,rayon --workers 2 --repeat 1",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    for heading in ["light p99 us", "heavy p99 us"] {
        assert!(said.out.contains(heading), "{}", said.out);
    }
}

#[test]
fn go_runs_all_forms_if_it_is_installed() {
    let folder = Folder::new("bimodal-go");
    for form in ["compute", "network", "blocking", "null"] {
        let said = say(
            folder.path(),
            &format!("bench packet-bimodal/{form} n=2000 take=5 --runtime go --workers 2 --repeat 1 --json"),
        );
        if said.err.contains("not installed") {
            assert_eq!(said.code, Some(2));
            return;
        }
        assert_eq!(said.code, Some(0), "{form}: {}", said.err);
        let record: Value = serde_json::from_str(said.out.trim()).expect("one record");
        if form != "null" {
            assert_eq!(record["latency"]["count"], 2000, "{record}");
            assert!(measure(&record, "heavy_p50_us") >= 5_000.0, "{record}");
        }
    }
}
