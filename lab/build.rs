//! Hands the versions of the compiler and of the peers to the program, so that every record names them.
//!
//! The peers' versions are read from the lock file: what was built, not what was asked for.

use std::process::Command;
use std::{env, fs, path::PathBuf};

/// The packages whose versions stand in every record.
const PEERS: [(&str, &str); 12] = [
    ("rayon", "LAB_RAYON_VERSION"),
    ("rayon-core", "LAB_RAYON_CORE_VERSION"),
    ("tokio", "LAB_TOKIO_VERSION"),
    ("async-executor", "LAB_SMOL_VERSION"),
    ("async-channel", "LAB_ASYNC_CHANNEL_VERSION"),
    ("async-lock", "LAB_ASYNC_LOCK_VERSION"),
    ("crossbeam-deque", "LAB_CROSSBEAM_DEQUE_VERSION"),
    ("may", "LAB_MAY_VERSION"),
    ("chili", "LAB_CHILI_VERSION"),
    ("forte", "LAB_FORTE_VERSION"),
    ("mimalloc", "LAB_MIMALLOC_VERSION"),
    ("warpweft", "LAB_WARPWEFT_VERSION"),
];

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let lock = manifest.join("../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    println!("cargo::rerun-if-changed=build.rs");
    let text = fs::read_to_string(&lock).unwrap_or_default();
    for (package, variable) in PEERS {
        let version = locked_version(&text, package).unwrap_or("unknown");
        println!("cargo::rustc-env={variable}={version}");
    }
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_else(|| String::from("rustc, version unknown"));
    println!("cargo::rustc-env=LAB_RUSTC_VERSION={}", version.trim());
    println!(
        "cargo::rustc-env=LAB_PROFILE={}",
        env::var("PROFILE").unwrap_or_default()
    );
}

/// The version of `package` in the text of a lock file: `name = "…"` is followed by `version = "…"`.
fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let mut lines = lock.lines();
    let name = format!("name = \"{package}\"");
    lines.find(|line| *line == name)?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}
