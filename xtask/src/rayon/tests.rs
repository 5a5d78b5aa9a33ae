//! rayon's own tests on `compat/rayon-core`: those of rayon, and those of the original rayon-core.
//!
//! The sources are those of the packages that the lab depends on. They are copied into the target folder, and
//! nothing of them is changed but where they find `rayon-core`. Tests of rayon-core's private functions and
//! fields are left out: [`PRIVATE`].

use super::{copy, patch};
use crate::counts::Tests;
use crate::repo::Repo;
use crate::run;
use anyhow::{Context as _, Result, ensure};
use cargo_metadata::MetadataCommand;
use std::fs;
use std::path::{Path, PathBuf};

/// Tests of rayon-core that look at private fields: of what is measured there is nothing here.
const PRIVATE: [&str; 2] = ["workers_stop", "sleeper_stop"];

/// Tests that cannot pass, and why.
const CANNOT_PASS: [(&str, &str); 4] = [
    ("scope::test::mixed_lifo_order", NESTS),
    ("scope::test::mixed_fifo_order", NESTS),
    ("scope::test::mixed_lifo_fifo_order", NESTS),
    ("scope::test::mixed_fifo_lifo_order", NESTS),
];
const NESTS: &str = "it expects that the end of a scope runs closures of the scope around it";

/// What the tests of rayon-core use beside its public functions, in terms of these.
const SUPPORT: &str = r#"//! The unit tests of rayon-core, beside the crate that takes its place.
pub use rayon_core::*;

/// What rayon-core calls `catch_unwind`.
pub mod unwind {
    pub fn halt_unwinding<R>(body: impl FnOnce() -> R) -> std::thread::Result<R> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(body))
    }
}

/// Runs a closure on a thread of the current pool.
pub mod registry {
    pub fn in_worker<R: Send>(body: impl FnOnce(&(), bool) -> R + Send) -> R {
        rayon_core::scope(|_| body(&(), false))
    }
}
"#;

/// The modules of rayon-core that have unit tests.
const MODULES: [&str; 5] = ["broadcast", "join", "scope", "spawn", "thread_pool"];

/// Runs all of them.
pub(crate) fn run(repo: &Repo) -> Result<String> {
    let folder = repo.target.join("rayon");
    let ours = repo.root.join("compat/rayon-core");
    let metadata = MetadataCommand::new()
        .current_dir(&repo.root)
        .exec()
        .context("cannot read the dependencies of the lab")?;
    let source = |name: &str| -> Result<PathBuf> {
        let package = metadata
            .packages
            .iter()
            .find(|package| package.name.as_str() == name && package.source.is_some())
            .with_context(|| format!("the lab does not depend on {name}"))?;
        Ok(crate::repo::folder(package).to_owned())
    };
    let mut tests = Tests::default();
    let rayon = folder.join("rayon");
    copy(&source("rayon")?, &rayon)?;
    let manifest = rayon.join("Cargo.toml");
    let text = format!("{}\n[workspace]\n{}", fs::read_to_string(&manifest)?, patch(repo));
    fs::write(manifest, text)?;
    // Its lock names the original.
    fs::remove_file(rayon.join("Cargo.lock")).ok();
    let mut success = test(repo, &rayon, &mut tests)?;
    let core = folder.join("rayon-core-tests");
    core_tests(&source("rayon-core")?, &ours, &core)?;
    success &= test(repo, &core, &mut tests)?;
    ensure!(success && tests.passed > 0, "rayon's tests failed");
    for (name, why) in CANNOT_PASS {
        println!("cannot pass: {name}: {why}");
    }
    Ok(format!(
        "{} tests of rayon and rayon-core passed, {} cannot",
        tests.passed,
        CANNOT_PASS.len()
    ))
}

/// Checks our crate and the programs by themselves: they are workspaces of their own.
pub(crate) fn ours(repo: &Repo) -> Result<String> {
    let target = repo.target.join("rayon/target");
    for folder in ["compat/rayon-core", "compat/rayon-programs"] {
        for arguments in [
            ["fmt", "--check"].as_slice(),
            &["clippy", "--all-targets", "--", "-D", "warnings"],
        ] {
            run::run(
                run::cargo(&repo.root.join(folder))
                    .args(arguments)
                    .env("CARGO_TARGET_DIR", &target),
            )?;
        }
    }
    let mut tests = Tests::default();
    let success = test(repo, &repo.root.join("compat/rayon-core"), &mut tests)?;
    ensure!(success && tests.passed > 0, "the tests of our rayon-core failed");
    Ok(format!("{} tests", tests.passed))
}

fn test(repo: &Repo, folder: &Path, tests: &mut Tests) -> Result<bool> {
    let mut command = run::cargo(folder);
    command
        .args(["test", "--no-fail-fast", "--"])
        .args(CANNOT_PASS.iter().flat_map(|(name, _)| ["--skip", name]))
        .env("CARGO_TARGET_DIR", repo.target.join("rayon/target"));
    run::tee(&mut command, |line| {
        tests.add(line);
    })
}

/// Makes a package of the tests of rayon-core.
fn core_tests(original: &Path, ours: &Path, folder: &Path) -> Result<()> {
    let source = original.join("src");
    copy(&original.join("tests"), &folder.join("tests"))?;
    copy(&source.join("compile_fail"), &folder.join("src/compile_fail"))?;
    let mut lib = String::from(SUPPORT);
    lib.push_str("\nmod compile_fail;\n#[cfg(test)]\nmod test;\n");
    write_tests(&source.join("test.rs"), &folder.join("src/test.rs"))?;
    for module in MODULES {
        lib.push_str(&format!(
            "#[cfg(test)]\nmod {module} {{\n    #[allow(unused_imports)]\n    pub use super::*;\n    mod test;\n}}\n"
        ));
        let file = format!("{module}/test.rs");
        write_tests(&source.join(&file), &folder.join("src").join(&file))?;
    }
    fs::write(folder.join("src/lib.rs"), lib)?;
    fs::write(
        folder.join("Cargo.toml"),
        format!(
            "[package]\nname = \"rayon-core-tests\"\nedition = \"2021\"\n\n[dependencies]\nrayon-core = {{ path = {:?} }}\n\n\
             [dev-dependencies]\ncrossbeam-utils = \"0.8\"\nlibc = \"0.2\"\nrand = \"0.9\"\nrand_xorshift = \"0.4\"\n\
             scoped-tls = \"1\"\n\n[workspace]\n",
            ours.display().to_string()
        ),
    )?;
    Ok(())
}

/// Copies a file of tests without those of private parts.
fn write_tests(from: &Path, to: &Path) -> Result<()> {
    let mut text = fs::read_to_string(from)?;
    for name in PRIVATE {
        let Some(start) = text.find(&format!("fn {name}(")) else {
            continue;
        };
        let start = text[..start]
            .rfind("#[test]")
            .context("a test without its attribute")?;
        let length = text[start..].find("\n}\n").context("a test without an end")?;
        text.replace_range(start..start + length + 3, "");
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(to, text)?;
    Ok(())
}
