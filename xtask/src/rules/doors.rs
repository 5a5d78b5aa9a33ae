//! What the model checkers replace is named in `warpweft-platform` only: elsewhere it would escape them.

use crate::repo::{self, Repo};
use crate::source;
use anyhow::Result;
use std::fs;

/// The crate that may.
const DOOR: &str = "warpweft-platform";
/// The simulator, which replaces `std` behind the door.
const SIMULATOR: &str = "warpweft-sim";
/// The kit that brings policies before the checkers: it may name those.
const KIT: &str = "warpweft-conformance";
const CHECKERS: [&str; 5] = [
    "loom",
    "shuttle",
    "warpweft_sim",
    "warpweft_platform::loom",
    "warpweft_platform::shuttle",
];

/// What no other code names. `thread_local` is a macro, the rest are modules and types.
const BEHIND_THE_DOOR: [&str; 11] = [
    "std::sync::atomic",
    "core::sync::atomic",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::sync::Barrier",
    "std::sync::mpsc",
    "std::thread",
    "std::thread_local",
    "std::hint::spin_loop",
    "core::hint::spin_loop",
];

/// A library begins with this: clippy also finds what goes by another name.
const DENIED: &str = "#![deny(clippy::disallowed_methods, clippy::disallowed_types)]";

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let free = [DOOR, SIMULATOR];
    for package in repo
        .library()
        .filter(|package| !free.contains(&package.name.as_str()))
    {
        let root = repo::folder(package).join("src/lib.rs");
        if !fs::read_to_string(&root)?.contains(DENIED) {
            broken.push(format!("{}: it lacks `{DENIED}`", repo.show(&root)));
        }
        for path in repo.files(&repo::folder(package).join("src"), "rs")? {
            for named in source::paths(&source::parse(&path)?) {
                let checkers = CHECKERS.into_iter().filter(|_| package.name != KIT);
                let mut forbidden = BEHIND_THE_DOOR.into_iter().chain(checkers);
                if let Some(door) = forbidden.find(|door| is_in(&named.path, door)) {
                    broken.push(format!(
                        "{}:{}: `{door}` belongs behind {DOOR}",
                        repo.show(&path),
                        named.line
                    ));
                }
            }
        }
    }
    Ok(broken)
}

/// Returns true if `path` is `module` or something in it.
pub(super) fn is_in(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::is_in;

    #[test]
    fn whole_names_only() {
        assert!(is_in("std::thread", "std::thread"));
        assert!(is_in("std::thread::spawn", "std::thread"));
        assert!(!is_in("std::threadlike", "std::thread"));
        assert!(!is_in("warpweft_platform::thread", "std::thread"));
    }
}
