//! `warpweft compare --against`: baselines that are recorded and compared with, and those that are refused.

mod common;

use common::{Folder, complaint, say};
use serde_json::Value;

/// A baseline of two rows, in a folder.
fn recorded(name: &str) -> Folder {
    let folder = Folder::new(name);
    let words =
        "compare --set ground spawn/scope ticks --quick --repeat 1 --baseline base.json --report page.html";
    let said = say(folder.path(), words);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("Baseline: base.json"), "{}", said.out);
    folder
}

fn json(folder: &Folder, name: &str) -> Value {
    let text = std::fs::read_to_string(folder.path().join(name)).expect("the file is there");
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn the_same_program_takes_turns_with_its_copy() {
    let folder = recorded("against-copy");
    let words = "compare --against base.json spawn/scope --repeat 2 --report page.html --json all.json --runs all.csv";
    let said = say(folder.path(), words);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    for part in [
        "in turns with",
        "base.json.program",
        "this very program",
        "less is better",
        "not told apart",
    ] {
        assert!(said.out.contains(part), "{part} is missing: {}", said.out);
    }
    let document = json(&folder, "all.json");
    assert_eq!(document["kind"], "paired");
    let lines = document["lines"].as_array().expect("it has lines");
    // One and two workers. The other line was not asked for.
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line["figure"]["name"] == "ns_per_task"));
    let runs = document["rows"][0]["turns"][1]["runs"]
        .as_array()
        .expect("a pair");
    assert_eq!(
        (&runs[0]["side"], &runs[1]["side"]),
        (&"this".into(), &"baseline".into())
    );
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("the report is there");
    assert!(page.contains("<h2>Not told apart</h2>") && !page.contains("<script"));
    let table = std::fs::read_to_string(folder.path().join("all.csv")).expect("the table is there");
    assert!(table.lines().count() > 2 * 2 * 3, "{table}");
}

#[test]
fn without_the_copy_only_recorded_figures_are_left_and_a_busy_machine_gets_no_verdict() {
    let folder = recorded("against-figures");
    std::fs::remove_file(folder.path().join("base.json.program")).expect("the copy is there");
    let mut baseline = json(&folder, "base.json");
    baseline["others"] = 0.5.into();
    folder.file("base.json", baseline.to_string().as_bytes());
    let words = "compare --against base.json ticks --repeat 1 --report page.html --fail-above 3%";
    let said = say(folder.path(), words);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(
        said.out.contains("Unpaired: the baseline's program is not there"),
        "{}",
        said.out
    );
    assert!(
        said.out.contains("No verdict: other processes used 50 %"),
        "{}",
        said.out
    );
    assert!(
        said.err.contains("--fail-above: there is no verdict"),
        "{}",
        said.err
    );
    baseline["machine"]["processor"] = "Some other CPU".into();
    folder.file("base.json", baseline.to_string().as_bytes());
    let said = say(
        folder.path(),
        "compare --against base.json ticks --repeat 1 --report page.html",
    );
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(
        said.out.contains("another processor: Some other CPU"),
        "{}",
        said.out
    );
}

#[test]
fn baselines_that_cannot_be_compared_with_are_refused() {
    let folder = recorded("against-refused");
    let path = folder.path();
    let whole = std::fs::read(path.join("base.json")).expect("the baseline is there");
    folder.file("cut.json", &whole[..whole.len() / 2]);
    folder.file("other.json", b"{\"rows\": []}");
    folder.file("text", b"no program");
    let refused = |words: &str| complaint(path, &format!("compare --against {words}"), 1);
    assert!(refused("missing.json").contains("missing.json"));
    assert!(refused("cut.json").contains("cut off"));
    assert!(refused("other.json").contains("not written by `compare --baseline`"));
    assert!(refused(".").contains("it is a folder"));
    assert!(refused("text").contains("no program that starts"));
    #[cfg(unix)]
    assert!(refused("/bin/true").contains("not that of a build of this program"));
    let mut strange: Value = serde_json::from_slice(&whole).expect("it is JSON");
    strange["build"]["versions"]["profile"] = "other".into();
    folder.file("strange.json", strange.to_string().as_bytes());
    assert!(refused("strange.json").contains("build both alike"));
    let mut older: Value = serde_json::from_slice(&whole).expect("it is JSON");
    older["rows"][0]["request"]["params"] = serde_json::json!({});
    folder.file("older.json", older.to_string().as_bytes());
    let complain = |words: &str| complaint(path, &format!("compare {words}"), 2);
    assert!(complain("--against older.json").contains("record the baseline anew"));
    folder.file("base.json.program", b"another program");
    assert!(refused("base.json").contains("not the program that was measured"));

    assert!(complain("--against base.json spawn/scpoe").contains("did you mean `spawn/scope`?"));
    assert!(complain("--against base.json churn").contains("rows of the baseline: spawn/scope"));
    assert!(complain("--against base.json --set ground").contains("the rows are those of"));
    assert!(complain("--against base.json --quick").contains("the sizes in which"));
    assert!(complain("--against base.json --runtime tokio").contains("cannot be used with"));
    assert!(complain("--against base.json --fail-above much").contains("percentage"));
    assert!(complain("--against base.json --budget 0").contains("at least one second"));
    assert!(complain("--fail-above 3%").contains("--against"));
    assert!(complain("--budget 5").contains("--minutes"));
    assert!(complain("--set gruond").contains("did you mean `ground`?"));
    assert!(complain("--set ground htpp/hello").contains("did you mean `http/hello`?"));
}
