//! The hostile programs (`crates/warpweft/tests/adversary`) under sanitizers and valgrind.
//!
//! Each program is a test, and runs in its own child processes. So a sanitizer's report or a hang is the
//! failure of one test.

use crate::repo::Repo;
use crate::run;
use anyhow::{Result, ensure};
use std::process::{Command, Stdio};

const PACKAGE: &str = "warpweft";
const TEST: &str = "adversary";

/// The one target for which the sanitizers are tried.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The exit status by which valgrind reports an error.
const VALGRIND_ERROR: &str = "97";

/// Programs that valgrind cannot run: it knows neither filters of system calls nor stacks that overflow on
/// purpose.
const NOT_IN_VALGRIND: [&str; 3] = [
    "fibers::a_fiber_overflows_its_stack",
    "processes::a_sandbox_refuses_the_barrier_later",
    "processes::threads_are_refused_before_the_default_runtime",
];

/// The programs with AddressSanitizer, which finds uses of freed memory of the heap.
///
/// Variables on stacks are not watched: a panic on a stack that AddressSanitizer does not know leaves marks
/// behind, and later calls on that stack would be reported. Leaks are not looked for: many programs leak on
/// purpose.
pub(crate) fn address(repo: &Repo) -> Result<()> {
    let flags = "-Zsanitizer=address -Cllvm-args=-asan-stack=0";
    let Some(mut command) = on_nightly(repo, flags, "asan", &[])? else {
        return Ok(());
    };
    command
        .env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0")
        .env("WARPWEFT_ADVERSARY_SCALE", "3")
        .env("WARPWEFT_ADVERSARY_LIMIT", "60");
    ensure!(
        run::tee(&mut command, |_| {})?,
        "a program fails with AddressSanitizer"
    );
    Ok(())
}

/// The programs with ThreadSanitizer, on a standard library that is built with it. It finds races on fields
/// that are no atomics.
///
/// It models no fences, and does not know that the kernel orders memory (`membarrier`). So a race that only
/// those rule out would be reported, though it is none; and what a missing fence would break it does not see.
/// The loom models see that. A runtime that lives as long as the process is no leak of threads. An overflow
/// of a stack ends its process in another way.
pub(crate) fn thread(repo: &Repo) -> Result<()> {
    let sources = Command::new("rustup")
        .args(["component", "list", "--toolchain", "nightly", "--installed"])
        .output();
    let has_sources = sources.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).contains("rust-src"));
    if !has_sources {
        println!(
            "skipped: the standard library has to be built for it; `rustup +nightly component add rust-src`"
        );
        return Ok(());
    }
    let Some(mut command) = on_nightly(repo, "-Zsanitizer=thread", "tsan", &["-Zbuild-std"])? else {
        return Ok(());
    };
    command
        .args(["--skip", "fibers::a_fiber_overflows_its_stack"])
        .env("TSAN_OPTIONS", "halt_on_error=1:report_thread_leaks=0")
        .env("WARPWEFT_ADVERSARY_SCALE", "10")
        .env("WARPWEFT_ADVERSARY_LIMIT", "120");
    ensure!(
        run::tee(&mut command, |_| {})?,
        "a program fails with ThreadSanitizer"
    );
    Ok(())
}

/// The call of `cargo test` on the nightly toolchain, with arguments for the test binary to follow. `None`:
/// there is no such toolchain, which is said.
fn on_nightly(repo: &Repo, flags: &str, folder: &str, more: &[&str]) -> Result<Option<Command>> {
    let version = Command::new("rustup")
        .args(["run", "nightly", "rustc", "--version"])
        .stderr(Stdio::null())
        .output();
    if !version.is_ok_and(|version| version.status.success()) {
        println!("skipped: sanitizers need a nightly toolchain; `rustup toolchain install nightly`");
        return Ok(None);
    }
    ensure!(
        cfg!(all(target_arch = "x86_64", target_os = "linux")),
        "sanitizers are tried on {TARGET} only"
    );
    let mut command = Command::new("rustup");
    command
        .current_dir(&repo.root)
        // Cargo names itself to its children; this one is of another toolchain.
        .env_remove("CARGO")
        .env_remove("RUSTC")
        .args(["run", "nightly", "cargo", "test", "--release", "--target", TARGET])
        .args(["-p", PACKAGE, "--test", TEST])
        .args(more)
        .arg("--")
        .env("WARPWEFT_ADVERSARY_ALL", "1")
        .env("RUSTFLAGS", format!("{} {flags}", run::rustflags(None)).trim())
        .env("CARGO_TARGET_DIR", repo.target.join(folder))
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    Ok(Some(command))
}

/// The programs with valgrind's memcheck, which finds uses of freed memory and of memory that was never
/// written.
///
/// Valgrind takes a small change of the stack pointer for a call, and a large one for a switch of stacks.
/// Stacks of fibers may lie side by side, so the limit between the two is set below their size. rustix calls
/// libc here: its own way reads the vDSO, which valgrind takes away. Threads take turns on one processor, so
/// counts are divided.
pub(crate) fn valgrind(repo: &Repo) -> Result<()> {
    let version = Command::new("valgrind").arg("--version").output();
    if !version.is_ok_and(|version| version.status.success()) {
        println!("skipped: there is no valgrind");
        return Ok(());
    }
    let wrapper = format!(
        "valgrind --quiet --error-exitcode={VALGRIND_ERROR} --fair-sched=yes --leak-check=no --max-stackframe=16384"
    );
    let mut command = run::cargo(&repo.root);
    command
        .args(["test", "--release", "-p", PACKAGE, "--test", TEST, "--"])
        .args(NOT_IN_VALGRIND.iter().flat_map(|program| ["--skip", program]))
        .env("RUSTFLAGS", run::rustflags(Some("rustix_use_libc")))
        .env("CARGO_TARGET_DIR", repo.target.join("valgrind"))
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("RUST_BACKTRACE", "0")
        .env("WARPWEFT_ADVERSARY_WRAPPER", wrapper)
        .env("WARPWEFT_ADVERSARY_SCALE", "50")
        .env("WARPWEFT_ADVERSARY_LIMIT", "300");
    ensure!(run::tee(&mut command, |_| {})?, "a program fails with valgrind");
    Ok(())
}
