//! The programs of open incidents of rayon, which hang, overflow or invert priorities on the original, with
//! our crate in its place. They are the examples of the lab, on their rayon side.

use super::{copy, patch};
use crate::repo::Repo;
use crate::run;
use anyhow::{Result, ensure};
use std::fs;
use std::process::Command;

/// The incidents, and the numbers of threads with which they show.
const INCIDENTS: [(&str, &[usize]); 6] = [
    ("592", &[2, 4]),
    ("854", &[2, 8, 16]),
    ("957", &[2]),
    ("1054", &[4, 8]),
    ("1105", &[1, 2]),
    // With one thread the first half waits in a channel of the standard library, which only the system
    // sees.
    ("mutual", &[2, 4]),
];

/// Runs each; the first one that hangs, dies or shows its incident is an error.
pub(super) fn run(repo: &Repo) -> Result<String> {
    let folder = repo.target.join("rayon/incidents");
    copy(&repo.root.join("lab/examples"), &folder.join("examples"))?;
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/lib.rs"), "")?;
    // It is for the lab's own workloads.
    fs::remove_file(folder.join("examples/own_workload.rs")).ok();
    let library = repo.root.join("crates/warpweft");
    fs::write(
        folder.join("Cargo.toml"),
        format!(
            "[package]\nname = \"incidents\"\nedition = \"2024\"\n\n[dependencies]\nrayon = \"1.12\"\n\
             warpweft = {{ path = {:?} }}\n\n[workspace]\n{}",
            library.display().to_string(),
            patch(repo)
        ),
    )?;
    let target = repo.target.join("rayon/target");
    run::run(
        run::cargo(&folder)
            .args(["build", "--release", "--examples"])
            .env("CARGO_TARGET_DIR", &target),
    )?;
    let mut count = 0;
    for (name, numbers) in INCIDENTS {
        for threads in numbers {
            let program = target.join(format!("release/examples/incident_{name}"));
            let output = Command::new(program)
                .args(["rayon", &threads.to_string()])
                .output()?;
            let said = String::from_utf8_lossy(&output.stdout);
            println!("{name}, {threads} threads: {}", said.trim());
            ensure!(
                output.status.success(),
                "incident {name} shows with {threads} threads"
            );
            count += 1;
        }
    }
    Ok(format!("{count} incidents do not show"))
}
