//! `warpweft compare`: one page for many workloads, within a time, and clear words for what cannot be.

mod common;

use common::{Folder, complaint, say};
use serde_json::Value;

#[test]
fn a_comparison_writes_a_page_with_what_was_published() {
    let folder = Folder::new("compare");
    let said = say(
        folder.path(),
        "compare cycle/one cycle/fibers churn/few token-ring --quick --repeat 2 --workers 2 --policy fifo --runtime \
         warpweft,tokio --report page.html --json all.json",
    );
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("the report is there");
    for part in [
        "<h2>cycle/one</h2>",
        "<h2>cycle/fibers</h2>",
        "<h2>churn/few</h2>",
        "<h2>token-ring</h2>",
        "warpweft fifo",
        "<th>tokio",
        "extremes",
        "workers ÷ throughput",
        "least",
        "table 1",
        "15 672 ms",
        "<code>ms = 100</code>",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    // What was published about the programs is there once, and what is about other comparisons does not.
    assert_eq!(page.matches("Negele").count(), 1);
    assert!(!page.contains("68.4 µs"));
    for foreign in ["<script", "http://", "https://", "src=", "NaN", "inf "] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let text = std::fs::read_to_string(folder.path().join("all.json")).expect("the document is there");
    let document: Value = serde_json::from_str(&text).expect("it is JSON");
    let lines = document["lines"].as_array().expect("it has lines");
    let contestants: Vec<usize> = lines
        .iter()
        .map(|line| line["rows"].as_array().map_or(0, Vec::len))
        .collect();
    // tokio has no fibers.
    assert_eq!(contestants, [2, 1, 2, 2]);
    assert!(lines.iter().all(|line| line["rounds"] == 2));
}

#[test]
fn who_does_not_complete_is_a_figure_of_transfer() {
    let folder = Folder::new("compare-dnc");
    let words =
        "compare transfer/yield --quick --repeat 1 --workers 1 --runtime tokio,threads --report page.html";
    let said = say(folder.path(), words);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("the report is there");
    assert!(page.contains("a leadership took more than 5000 ms"), "{page}");
    assert!(page.contains("68.4 µs") && page.contains("us per leadership"));
}

#[test]
fn comparisons_that_cannot_be_are_refused() {
    let folder = Folder::new("compare-refused");
    let complaint = |words: &str| complaint(folder.path(), words, 2);
    assert!(complaint("compare chrun").contains("did you mean `churn`?"));
    assert!(complaint("compare --minutes 0").contains("some time"));
    assert!(complaint("compare --repeat 0").contains("at least one"));
    assert!(complaint("compare --workers 0").contains("from 1 to"));
    assert!(complaint("compare --policy filo").contains("fifo"));
    assert!(complaint("compare --runtime tokyo").contains("did you mean `tokio`?"));
    assert!(complaint("compare cycle --runtime rayon").contains("takes part in none"));
    assert!(complaint("compare cycle --runtime tokio --policy fifo").contains("leaves that out"));
}
