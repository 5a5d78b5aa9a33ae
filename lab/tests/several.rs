//! Settings with several values: each is measured by itself, and the report of latency hiding draws them side
//! by side.

mod common;

use common::{Folder, complaint, records, say};
use serde_json::Value;

#[test]
fn each_value_is_a_session_of_its_own() {
    let folder = Folder::new("several-bench");
    let words = "mapreducefib wait=1,5 n=20 fib=10 base=8 --runtime warpweft,tokio --policy lifo --workers 1 --repeat 1";
    let waits: Vec<(u64, String)> = records(&folder, words)
        .iter()
        .map(|record| {
            let wait = record["parameters"]["wait"].as_u64().expect("a number");
            (wait, record["runtime"].as_str().expect("a name").to_owned())
        })
        .collect();
    let expected = [(1, "warpweft"), (1, "tokio"), (5, "warpweft"), (5, "tokio")];
    assert_eq!(waits, expected.map(|(wait, runtime)| (wait, runtime.to_owned())));
    // The short form is a setting like the others, and so are words.
    assert_eq!(
        records(&folder, "spawn -n 10,20,30 --repeat 1 --workers 1").len(),
        3
    );
    assert_eq!(
        records(&folder, "spawn mode=one,fire n=10 --repeat 1 --workers 1").len(),
        2
    );
}

#[test]
fn lists_that_make_no_sense_are_refused_before_anything_is_measured() {
    let folder = Folder::new("several-refused");
    for (words, reason) in [
        (
            "mapreducefib wait=1,50 n=10,20",
            "one setting may have several values",
        ),
        ("mapreducefib wait=1,", "whole number"),
        ("mapreducefib wait=1,soon", "whole number"),
        ("mapreducefib 1,50", "KEY=VALUE"),
        ("fib-promise n=10,20 --runtime threads", "15 at most"),
    ] {
        let text = complaint(folder.path(), &format!("bench {words}"), 2);
        assert!(text.contains(reason), "{words}: {text}");
    }
}

#[test]
fn the_report_draws_speed_up_over_latency() {
    let folder = Folder::new("several-explore");
    let said = say(
        folder.path(),
        "explore mapreducefib wait=8,2,4 --smoke --runtime warpweft,rayon,tokio --policy lifo --workers 1,2 --report r.html --json d.json",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    let html = std::fs::read_to_string(folder.path().join("r.html")).expect("the report is there");
    for part in [
        "Speed-up over latency, 1 worker\"",
        "Speed-up over latency, 2 workers\"",
    ] {
        assert_eq!(html.matches(part).count(), 1, "{part}");
    }
    let chart = html
        .split("Speed-up over latency, 2 workers")
        .nth(1)
        .expect("a chart");
    let chart = chart.split("</svg>").next().expect("it ends");
    let at = |text: &str| chart.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(
        at(">2 ms<") < at(">4 ms<") && at(">4 ms<") < at(">8 ms<"),
        "waits rise"
    );
    assert!(chart.contains("ideal: nothing to wait for"));
    assert_eq!(
        chart.matches("class=\"mark").count(),
        9,
        "three contestants, three waits"
    );
    // Each wait has its own part, too.
    assert_eq!(html.matches("<h2>Speed-up over workers</h2>").count(), 3);
    assert_eq!(html.matches("<h2>Figures</h2>").count(), 3);
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    assert!(!html.contains("NaN") && !html.contains("inf"));
    let text = std::fs::read_to_string(folder.path().join("d.json")).expect("the document is there");
    let document: Value = serde_json::from_str(&text).expect("it is JSON");
    let waits: Vec<u64> = document
        .as_array()
        .expect("a part for each value")
        .iter()
        .filter_map(|part| part["parameters"]["wait"].as_u64())
        .collect();
    assert_eq!(waits, [8, 2, 4]);
}

#[test]
fn other_settings_with_several_values_have_no_such_chart() {
    let folder = Folder::new("several-packets");
    let said = say(
        folder.path(),
        "explore packet window=16,64 --smoke --runtime warpweft --policy fifo --workers 1 --report r.html",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    let html = std::fs::read_to_string(folder.path().join("r.html")).expect("the report is there");
    assert!(!html.contains("Speed-up over latency"));
    assert!(html.contains("window = 16") && html.contains("window = 64"));
}

#[test]
fn where_items_differ_all_are_judged_by_one_limit() {
    let folder = Folder::new("skewed");
    let words = "mapreducefib/skewed n=40 wait=30 fib=12 base=10 heavy-fib=16 --runtime warpweft,rayon,tokio --workers 2 --repeat 1";
    for record in records(&folder, words) {
        let measure = |name: &str| record["measures"][name].as_f64().expect(name);
        let ratio = record["seconds"].as_f64().expect("seconds") / measure("limit_s");
        assert!(
            (measure("ratio_to_limit") - ratio).abs() < 1e-6 * ratio,
            "{record}"
        );
        // The wait, and microseconds of plain calls: whatever the contestant took for its own ideal.
        assert!((0.030..0.130).contains(&measure("limit_s")), "{record}");
    }
}
