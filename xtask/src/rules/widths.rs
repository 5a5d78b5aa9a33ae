//! Lines of comments and documents are as narrow as those of code.

use crate::repo::Repo;
use crate::widths::{self, MOST, Wide};
use anyhow::Result;

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    Ok(widths::wide(repo)?.iter().map(complaint).collect())
}

fn complaint(line: &Wide) -> String {
    format!(
        "{}:{}: {} columns, more than {MOST}",
        line.path.display(),
        line.line,
        line.columns
    )
}

#[cfg(test)]
mod tests {
    use super::{Wide, complaint};

    #[test]
    fn a_complaint_names_the_line() {
        let line = Wide {
            path: "x.rs".into(),
            area: "a".to_owned(),
            line: 1,
            columns: 111,
        };
        assert_eq!(complaint(&line), "x.rs:1: 111 columns, more than 110");
    }
}
