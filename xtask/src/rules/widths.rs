//! Lines of comments and documents are as narrow as those of code.

use crate::repo::Repo;
use crate::widths::{self, MOST, Wide};
use anyhow::Result;

/// Crates and folders whose lines are not all narrow yet. One that has become narrow must be struck off.
const NOT_YET: &[&str] = &[
    "warpweft",
    "warpweft-conformance",
    "warpweft-lab",
    "warpweft-macros",
    "warpweft-platform",
    "warpweft-policy",
    "warpweft-queue",
    "warpweft-task",
];

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    Ok(complaints(&widths::wide(repo)?, NOT_YET))
}

fn complaints(wide: &[Wide], not_yet: &[&str]) -> Vec<String> {
    let mut broken: Vec<_> = wide
        .iter()
        .filter(|line| !not_yet.contains(&line.area.as_str()))
        .map(|line| {
            format!(
                "{}:{}: {} columns, more than {MOST}",
                line.path.display(),
                line.line,
                line.columns
            )
        })
        .collect();
    for area in not_yet {
        if !wide.iter().any(|line| line.area == *area) {
            broken.push(format!(
                "{area} has no wide lines any more: strike it off in xtask"
            ));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::{Wide, complaints};

    #[test]
    fn what_is_narrow_is_struck_off() {
        let line = |area: &str| Wide {
            path: "x.rs".into(),
            area: area.to_owned(),
            line: 1,
            columns: 111,
        };
        let found = complaints(&[line("a"), line("b")], &["b", "c"]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("x.rs:1:"));
        assert!(found[1].starts_with("c has no wide lines"));
    }
}
