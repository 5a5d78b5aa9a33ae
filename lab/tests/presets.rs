//! The workloads with packets under every policy that has a name.

mod common;

use common::{Folder, presets, records};

/// Runs a workload under all of them, with one worker and with three.
fn each_preset_runs(words: &str, operations: u64) {
    let folder = Folder::new(&format!("presets-{}", words.replace(['/', ' ', '='], "-")));
    let presets = presets(&folder);
    assert!(presets.len() >= 28, "{presets:?}");
    let policies = presets.join(",");
    let records = records(
        &folder,
        &format!("{words} --policy {policies} --workers 1,3 --repeat 1 --limit 60"),
    );
    for preset in &presets {
        for workers in [1, 3] {
            let ran = records
                .iter()
                .find(|record| record["policy"] == *preset && record["workers"] == workers);
            let record = ran.unwrap_or_else(|| panic!("no record of {preset} with {workers} workers"));
            assert_eq!(record["operations"], operations, "{record}");
        }
    }
}

#[test]
fn packet_runs_under_every_preset() {
    each_preset_runs("packet n=400 window=32", 400);
}

#[test]
fn packet_without_a_window_runs_under_every_preset() {
    // More than the queues of the presets hold: what does not fit goes where the policy says.
    each_preset_runs("packet/spawners4 n=4000 window=0", 4000);
}

#[test]
fn packet_cache_runs_under_every_preset() {
    each_preset_runs("packet-cache n=200 window=0", 200);
}

#[test]
fn packet_bimodal_runs_under_every_preset() {
    each_preset_runs("packet-bimodal n=200 take=1", 200);
    each_preset_runs("packet-bimodal/network n=200 take=1", 200);
}
