//! Each lock file fits its manifests, also those of packages outside the workspace: the checks build with
//! `--locked`, and a manifest of the workspace changes what they depend on.

use crate::repo::Repo;
use crate::run;
use anyhow::{Context as _, Result};
use std::process::Stdio;

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for path in repo.files(&repo.root, "lock")? {
        let folder = path.parent().context("a file is in a folder")?;
        let fits = run::cargo(folder)
            .args(["metadata", "--locked", "--format-version", "1"])
            .stdout(Stdio::null())
            .status()
            .context("cannot start cargo")?;
        if !fits.success() {
            let path = repo.show(&path);
            broken.push(format!(
                "{path} does not fit its manifests: `cargo metadata` there mends it"
            ));
        }
    }
    Ok(broken)
}
