//! A module that opens with a table of its files has a row for each of them, and for no other.

use crate::repo::{self, Repo};
use crate::source;
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::fs;

/// The head of such a table.
const HEAD: &str = "//! | file | job |";

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for package in repo.packages() {
        for path in repo.files(&repo::folder(package).join("src"), "rs")? {
            let text = fs::read_to_string(&path)?;
            if text.lines().any(|line| line == HEAD) {
                let is_beside = |name: &str| path.with_file_name(format!("{name}.rs")).exists();
                let wrong = compare(&text, is_beside);
                let wrong = wrong.with_context(|| format!("in {}", repo.show(&path)))?;
                broken.extend(
                    wrong
                        .into_iter()
                        .map(|what| format!("{}: {what}", repo.show(&path))),
                );
            }
        }
    }
    Ok(broken)
}

/// What the table of a module lacks, and what it has too much. A file beside it may be a module by its path.
fn compare(text: &str, is_beside: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let rows = text.lines().skip_while(|line| *line != HEAD).skip(2);
    let rows = rows.map_while(|line| line.strip_prefix("//! | ")?.split(" | ").next());
    // A row `a/b` is about a file of the module `a`.
    let listed: BTreeSet<_> = rows
        .flat_map(|names| names.split('`').skip(1).step_by(2))
        .filter(|name| !name.contains('/'))
        .map(|name| name.trim_end_matches(".rs").to_owned())
        .collect();
    let modules: BTreeSet<_> = syn::parse_file(text)?
        .items
        .iter()
        .filter_map(|item| match item {
            syn::Item::Mod(module) if module.content.is_none() && !source::is_test(&module.attrs) => {
                Some(module.ident.to_string())
            }
            _ => None,
        })
        .collect();
    let lacks = modules.difference(&listed);
    let lacks = lacks.map(|name| format!("its table of files has no row for `{name}`"));
    let extra = listed.difference(&modules).filter(|name| !is_beside(name));
    let extra = extra.map(|name| format!("its table of files has `{name}`, which is no module of it"));
    Ok(lacks.chain(extra).collect())
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn rows_and_modules_agree() {
        let table = "//! Rooms.\n//!\n//! | file | job |\n//! |---|---|\n//! | `a`, `b` | both |\n\
                     //! | `a/part` | p |\n";
        let modules = "mod a;\npub(crate) mod b;\n#[cfg(test)]\nmod tests;\n";
        let is_beside = |name: &str| name == "windows";
        let whole = format!("{table}//! | `windows` | instead of `a` |\n\n{modules}");
        assert!(compare(&whole, is_beside).unwrap().is_empty());
        let wrong = format!("{table}//! | `d` | gone |\n\n{modules}mod c;\n");
        let wrong = compare(&wrong, is_beside).unwrap();
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("no row for `c`") && wrong[1].contains("`d`, which is no module"));
    }
}
