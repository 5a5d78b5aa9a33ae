//! What the integration tests share: running the command and looking at what it says.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The command, in its own folder.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    command.current_dir(folder);
    command
}

/// What the command said.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs the command with these words.
pub(crate) fn say(folder: &Path, words: &str) -> Said {
    command(folder)
        .args(words.split_whitespace())
        .output()
        .expect("the command starts")
        .into()
}

/// An error: its exit code, nothing on standard output, one message without a backtrace.
pub(crate) fn complaint(folder: &Path, words: &str, code: i32) -> String {
    let said = say(folder, words);
    assert_eq!(said.code, Some(code), "{words}: {}{}", said.out, said.err);
    assert!(said.out.is_empty(), "{words} printed: {}", said.out);
    assert!(said.err.starts_with("error: "), "{words}: {}", said.err);
    assert!(!said.err.contains("panicked"), "{words}: {}", said.err);
    said.err
}

/// Runs a command, and interrupts it after that time as ctrl-C does.
#[cfg(unix)]
pub(crate) fn interrupted(command: &Command, after: std::time::Duration) -> Said {
    interrupted_after(command, || std::thread::sleep(after))
}

/// Runs a command, and interrupts it as ctrl-C does when the function returns.
#[cfg(unix)]
pub(crate) fn interrupted_after(command: &Command, wait: impl FnOnce()) -> Said {
    use std::process::Stdio;
    // A program that was started in the background by a shell ignores the signal, and so would the child.
    let mut heeds = Command::new("env");
    if cfg!(target_os = "linux") {
        heeds.arg("--default-signal=INT");
    }
    heeds.arg(command.get_program()).args(command.get_args());
    let environment = command.get_envs();
    heeds.envs(environment.filter_map(|(name, value)| value.map(|value| (name, value))));
    if let Some(folder) = command.get_current_dir() {
        heeds.current_dir(folder);
    }
    let command = heeds
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("the command starts");
    wait();
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().expect("kill");
    assert!(sent.success());
    child.wait_with_output().expect("it ends").into()
}

/// A folder that is removed in the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("warpweft-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder takes folders");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("the temporary folder takes files");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is the system's to clear.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The records of one `bench --json`.
pub(crate) fn records(folder: &Folder, words: &str) -> Vec<Value> {
    let said = say(folder.path(), &format!("bench {words} --json"));
    assert_eq!(said.code, Some(0), "{words}: {}", said.err);
    said.out
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is a JSON object"))
        .collect()
}

/// Each of these runtimes, with one worker and with three, ends with this number of operations.
pub(crate) fn each_runs(words: &str, runtimes: &str, operations: u64) {
    let folder = Folder::new(&format!("runs-{}", words.replace(['/', ' ', '='], "-")));
    let (policies, further) = if runtimes.contains("warpweft") {
        (
            "--policy fifo,lifo,lifo+steal=one,fifo+overflow=locked+capacity=16",
            3,
        )
    } else {
        ("", 0)
    };
    let records = records(
        &folder,
        &format!("{words} --runtime {runtimes} {policies} --workers 1,3 --repeat 1"),
    );
    let contestants = runtimes.split(',').count() + further;
    // Plain calls have one worker, all others have one and three.
    let alone = usize::from(runtimes.contains("sequential"));
    assert!(
        records.len() >= 2 * contestants - alone,
        "{} records of {contestants} contestants",
        records.len()
    );
    for record in &records {
        assert_eq!(record["operations"], operations, "{record}");
    }
}

/// The bundled capture.
pub(crate) const CAPTURE: &[u8] = include_bytes!("../../captures/http.pcap");

/// All names that `warpweft list` has for policies.
pub(crate) fn presets(folder: &Folder) -> Vec<String> {
    let listed = say(folder.path(), "list").out;
    let (_, policies) = listed
        .split_once("\nPolicies of warpweft")
        .expect("the list has policies");
    // A name, what it is about, the source; the grammar comes last.
    let names = policies
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    let names: Vec<_> = names
        .take_while(|name| *name != "POLICY")
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 8, "{names:?}");
    names
}
