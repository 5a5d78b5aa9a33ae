//! A source file that fits into a head: at most 500 lines before its tests.

use crate::repo::{self, Repo};
use anyhow::Result;
use std::fs;

const MOST: usize = 500;

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for package in repo.packages() {
        for path in repo.files(&repo::folder(package).join("src"), "rs")? {
            let lines = length(&fs::read_to_string(&path)?);
            if lines > MOST {
                broken.push(format!(
                    "{}: {lines} lines before its tests, more than {MOST}",
                    repo.show(&path)
                ));
            }
        }
    }
    Ok(broken)
}

/// The lines before the unit tests, which stand at the end.
fn length(text: &str) -> usize {
    let is_test = |line: &&str| line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
    text.lines().take_while(|line| !is_test(line)).count()
}

#[cfg(test)]
mod tests {
    use super::length;

    #[test]
    fn tests_do_not_count() {
        assert_eq!(length("fn f() {}\n\n#[cfg(test)]\nmod tests {}\n"), 2);
        assert_eq!(length("fn f() {}\n#[cfg(all(test, unix))]\nmod tests {}\n"), 1);
        assert_eq!(length("fn f() {\n    #[cfg(test)]\n    g();\n}\n"), 4);
    }
}
