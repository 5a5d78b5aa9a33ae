//! Hands the version of the compiler and the profile to the program, so that every record names them.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    let version = version.unwrap_or_else(|| String::from("rustc, version unknown"));
    println!("cargo::rustc-env=LAB_RUSTC_VERSION={}", version.trim());
    println!(
        "cargo::rustc-env=LAB_PROFILE={}",
        env::var("PROFILE").unwrap_or_default()
    );
}
