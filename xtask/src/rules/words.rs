//! Words that are retired are used nowhere, once the table says that this is enforced.

use crate::repo::Repo;
use crate::words::{self, Entry};
use anyhow::Result;

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let table = words::table(&repo.root.join(words::TABLE))?;
    let enforced: Vec<Entry> = table.words.into_iter().filter(|entry| entry.enforce).collect();
    let uses = words::uses(repo, &enforced)?;
    let complaints = uses.iter().map(|found| {
        let entry = &enforced[found.entry];
        format!(
            "{}:{}: `{}` is retired: {}",
            found.path.display(),
            found.line,
            entry.old(),
            entry.better
        )
    });
    Ok(complaints.collect())
}
