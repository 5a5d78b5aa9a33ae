//! A pool follows the quota of its container. One test in its own process: the files of the cgroups are
//! those of the test.
#![cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};
use warpweft::Runtime;
use warpweft_platform::affinity;
use warpweft_platform::thread::read_cgroups_below;

/// How soon a pool has to follow.
const MOST: Duration = Duration::from_secs(10);

/// The files of a process in the group `/shop/web`.
struct Root(PathBuf);

impl Root {
    fn new() -> Self {
        let root = Self(env::temp_dir().join(format!("warpweft-quota-{}", process::id())));
        root.write("proc/self/cgroup", "0::/shop/web\n");
        root.write(
            "proc/self/mountinfo",
            "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        );
        root
    }

    /// Grants that many CPUs to the group around that of the process.
    fn grant(&self, cpus: usize) {
        self.write("sys/fs/cgroup/shop/web/cpu.max", "max 100000\n");
        self.write(
            "sys/fs/cgroup/shop/cpu.max",
            &format!("{} 100000\n", cpus * 100_000),
        );
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        fs::write(path, text).expect("a file");
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        read_cgroups_below(None);
        // It may stay if the system removes it later.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until the pool has that size, while it has a task now and then, and returns how long that took.
fn follow(runtime: &Runtime, cpus: usize) -> Duration {
    let start = Instant::now();
    while runtime.workers() != cpus {
        assert!(
            start.elapsed() < MOST,
            "{} workers after {MOST:?} with {cpus} CPUs",
            runtime.workers()
        );
        runtime.spawn_job(|| ()).wait().expect("no panic");
        thread::sleep(Duration::from_millis(10));
    }
    start.elapsed()
}

/// `cpu.max` from 2 to 1 to 2 CPUs, with the settings that a pool has by default.
#[test]
fn a_quota_that_changes_is_followed() {
    if affinity::allowed().is_none_or(|cpus| cpus.len() < 2) {
        println!("not tested: this process may use one CPU only");
        return;
    }
    let root = Root::new();
    root.grant(2);
    read_cgroups_below(Some(root.0.clone()));
    let runtime = Runtime::builder().build().expect("workers");
    assert_eq!(runtime.workers(), 2);
    for cpus in [1, 2] {
        root.grant(cpus);
        let took = follow(&runtime, cpus);
        println!("{cpus} CPUs: followed after {took:?}");
    }
}
