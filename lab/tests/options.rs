//! Options, drawn and from files: each run checks its prices, these tests check what is told and what is
//! refused.

mod common;

use common::{Folder, complaint, each_runs, records, say};
use serde_json::Value;

/// All that run closures.
const CLOSURES: &str = "warpweft,rayon,rayon-fifo,tokio,smol,threads,steal-one";
/// The chain of options that is bundled for tests.
const CHAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/options.csv");

fn measure(record: &Value, name: &str) -> f64 {
    record["measures"][name].as_f64().unwrap_or_default()
}

#[test]
fn options_run_everywhere() {
    each_runs("options n=60 heavy-steps=200", CLOSURES, 60);
    each_runs("options/spawners4 n=60 heavy-steps=100", CLOSURES, 60);
    each_runs("options/bounded n=60 window=8 heavy-steps=100", CLOSURES, 60);
    each_runs("options/null n=60", CLOSURES, 60);
    each_runs("options n=20 steps=1 heavy=0", "warpweft,tokio", 20);
}

#[test]
fn heavy_options_are_told_apart() {
    let folder = Folder::new("options");
    let words = "options n=400 --runtime warpweft,rayon --policy fifo --workers 2 --repeat 1";
    for record in records(&folder, words) {
        assert_eq!(measure(&record, "heavy_options"), 2.0, "{record}");
        assert_eq!(record["latency"]["count"], 400, "{record}");
        assert!(measure(&record, "heavy_p50_us") > 0.0 && measure(&record, "light_p99_us") > 0.0);
        // 398 of 21 tasks, 2 of 2001: more than thirty tasks per option.
        let tasks = measure(&record, "tasks_per_second");
        let options = record["throughput"].as_f64().unwrap_or_default();
        assert!((tasks / options - 30.9).abs() < 0.01, "{record}");
    }
}

#[test]
fn a_chain_of_options_is_priced_as_often_as_needed() {
    let folder = Folder::new("options-chain");
    let words = format!(
        "options n=50 heavy=100 heavy-steps=500 --csv {CHAIN} --runtime warpweft,tokio --workers 2 --repeat 1"
    );
    let records = records(&folder, &words);
    assert_eq!(records.len(), 2);
    for record in records {
        assert_eq!(record["operations"], 50);
        assert_eq!(record["capture"], CHAIN, "the record names the file: {record}");
    }
}

#[test]
fn files_that_are_wrong_are_refused_with_line_and_column() {
    let folder = Folder::new("options-wrong");
    let header = "kind,spot,strike,rate,volatility,years\ncall,100,105,0.03,0.25,0.5\n";
    for (name, row, place) in [
        ("missing.csv", "put,100,,0.03,0.25,0.5", "line 3, column `strike`"),
        (
            "negative.csv",
            "put,-100,105,0.03,0.25,0.5",
            "line 3, column `spot`",
        ),
        (
            "nan.csv",
            "put,100,105,0.03,nan,0.5",
            "line 3, column `volatility`",
        ),
        ("short.csv", "put,100,105,0.03", "line 3, column `volatility`"),
        ("long.csv", "put,100,105,0.03,0.25,0.5,1", "line 3 has 7 values"),
    ] {
        let path = folder.file(name, format!("{header}{row}\n").as_bytes());
        let text = complaint(
            folder.path(),
            &format!("bench options --csv {}", path.display()),
            1,
        );
        assert!(text.contains(place) && text.contains(name), "{text}");
    }
    let empty = folder.file("empty.csv", b"");
    let text = complaint(
        folder.path(),
        &format!("bench options --csv {}", empty.display()),
        1,
    );
    assert!(text.contains("no column `kind`"), "{text}");
    let missing = complaint(folder.path(), "bench options --csv nowhere.csv", 1);
    assert!(
        missing.contains("nowhere.csv") && missing.contains("No such file"),
        "{missing}"
    );
    let elsewhere = complaint(folder.path(), &format!("bench packet --csv {CHAIN}"), 2);
    assert!(elsewhere.contains("is for the workload options"), "{elsewhere}");
    for (words, reason) in [
        ("options steps=0", "from 1 to"),
        ("options heavy-steps=1m", "from 1 to 100000"),
        ("options heavy=1001", "from 0 to 1000"),
        ("options --runtime may", "see pingpong"),
        ("options --runtime chili", "can only join"),
    ] {
        let text = complaint(folder.path(), &format!("bench {words}"), 2);
        assert!(text.contains(reason), "{words}: {text}");
    }
}

#[test]
fn go_prices_what_is_drawn_if_it_is_installed() {
    let folder = Folder::new("options-go");
    for words in [
        "options n=400 heavy-steps=500",
        "options/spawners4 n=100 heavy-steps=50",
        "options/null n=50",
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
    let words = format!("bench options --csv {CHAIN} --runtime go");
    let text = complaint(folder.path(), &words, 2);
    assert!(text.contains("reads no files"), "{text}");
}
