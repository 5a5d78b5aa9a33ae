//! Arrows point downwards: which crate may depend on which, and which room may name what.

use super::doors::is_in;
use crate::repo::{self, Repo};
use crate::source;
use anyhow::Result;

/// The library from the bottom up: each crate uses those before it, and no other of this workspace. What only
/// tests use is free.
const STOREYS: [&str; 8] = [
    "warpweft-macros",
    "warpweft-sim",
    "warpweft-platform",
    "warpweft-queue",
    "warpweft-task",
    "warpweft-policy",
    "warpweft",
    "warpweft-conformance",
];

/// A room, and what must not be named in it: modules, and with a star the beginnings of names.
struct Room {
    path: &'static str,
    forbidden: &'static [&'static str],
    why: &'static str,
}

const ROOMS: [Room; 3] = [
    Room {
        path: "crates/warpweft/src/idle",
        forbidden: &["warpweft_task", "warpweft_policy", "crate"],
        why: "the idle protocol knows nothing of tasks, policies or pools",
    },
    Room {
        path: "crates/warpweft/src/io",
        forbidden: &["warpweft_policy", "crate::policy"],
        why: "the driver knows nothing of policies",
    },
    Room {
        path: "crates/warpweft-policy/src",
        forbidden: &[
            "Atomic*",
            "warpweft_platform::barrier",
            "warpweft_platform::park",
            "warpweft_platform::thread",
        ],
        why: "a policy decides, it never synchronises",
    },
];

/// A crate that promises to have no `unsafe` says so to the compiler.
const SAFE: [&str; 3] = ["warpweft-macros", "warpweft-policy", "xtask"];

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for package in repo.library() {
        let storey = |name: &str| STOREYS.iter().position(|storey| *storey == name);
        let Some(own) = storey(&package.name) else {
            broken.push(format!(
                "{} has no storey in the house: give it one in xtask",
                package.name
            ));
            continue;
        };
        for used in repo::dependencies(package) {
            // What has no floor, but is in this repository, is above all floors: `compat/`, the lab.
            let ours = repo.packages().any(|package| package.name == used);
            if ours && storey(used).is_none_or(|used| used >= own) {
                broken.push(format!("{} must not depend on {used}", package.name));
            }
        }
    }
    for room in &ROOMS {
        // A room may be a folder or, as long as it is small, a file.
        let mut files = Vec::new();
        if repo.root.join(room.path).is_dir() {
            files = repo.files(&repo.root.join(room.path), "rs")?;
        }
        files.extend(Some(repo.root.join(format!("{}.rs", room.path))).filter(|path| path.is_file()));
        for path in files {
            for named in source::paths(&source::parse(&path)?) {
                if let Some(what) = room.forbidden.iter().find(|what| names(&named.path, what)) {
                    broken.push(format!(
                        "{}:{}: names `{what}`: {}",
                        repo.show(&path),
                        named.line,
                        room.why
                    ));
                }
            }
        }
    }
    for package in repo
        .packages()
        .filter(|package| SAFE.contains(&package.name.as_str()))
    {
        for name in ["src/lib.rs", "src/main.rs"] {
            let path = repo::folder(package).join(name);
            if path.is_file() && !forbids_unsafe(&source::parse(&path)?) {
                broken.push(format!("{}: lacks `#![forbid(unsafe_code)]`", repo.show(&path)));
            }
        }
    }
    Ok(broken)
}

fn names(path: &str, what: &str) -> bool {
    match what.strip_suffix('*') {
        Some(start) => path.split("::").any(|name| name.starts_with(start)),
        None => is_in(path, what),
    }
}

fn forbids_unsafe(file: &syn::File) -> bool {
    file.attrs.iter().any(|attribute| {
        attribute.path().is_ident("forbid")
            && attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string().contains("unsafe_code"))
    })
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn modules_and_beginnings_of_names() {
        assert!(names("warpweft_platform::atomic::AtomicU64", "Atomic*"));
        assert!(!names("warpweft_platform::atomic::spin_loop", "Atomic*"));
        assert!(names("crate::runtime", "crate"));
        assert!(!names("crates::runtime", "crate"));
    }
}
