//! Child processes: echoed commands, logs, time limits, a few at a time.

use anyhow::{Context as _, Result, bail, ensure};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// A call of cargo in `folder`.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    // Cargo sets these for xtask; its children are other packages.
    for name in [
        "CARGO_MANIFEST_DIR",
        "CARGO_MANIFEST_PATH",
        "CARGO_PKG_NAME",
        "CARGO_PKG_VERSION",
    ] {
        command.env_remove(name);
    }
    command
}

/// The flags of the environment, and one more `--cfg`.
pub(crate) fn rustflags(cfg: Option<&str>) -> String {
    let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    if let Some(cfg) = cfg {
        flags.push_str(" --cfg ");
        flags.push_str(cfg);
    }
    flags.trim().to_owned()
}

/// Returns the name of this machine's target.
pub(crate) fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc -vV")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .with_context(|| format!("`rustc -vV` names no host: {text}"))
}

/// How a person would type it.
pub(crate) fn echo(command: &Command) {
    let mut line = String::from("$");
    for (name, value) in command.get_envs() {
        if let Some(value) = value.filter(|_| name == "RUSTFLAGS" || name == "RUSTDOCFLAGS") {
            line.push_str(&format!(" {}={:?}", name.display(), value.to_string_lossy()));
        }
    }
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    for word in [name].into_iter().chain(command.get_args()) {
        line.push(' ');
        line.push_str(&word.to_string_lossy());
    }
    println!("{line}");
}

/// Runs a command; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    echo(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    ensure!(status.success(), "{} failed ({status})", describe(command));
    Ok(())
}

/// Runs a command, passes its output on, and calls `see` with each line. Returns whether it succeeded.
pub(crate) fn tee(command: &mut Command, mut see: impl FnMut(&str)) -> Result<bool> {
    echo(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let output = child.stdout.take().context("the child has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        see(&line);
    }
    Ok(child.wait()?.success())
}

/// Runs a command and returns what it wrote to its standard output; anything but success is an error.
pub(crate) fn capture(command: &mut Command) -> Result<Vec<u8>> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    ensure!(
        output.status.success(),
        "{} failed ({})",
        describe(command),
        output.status
    );
    Ok(output.stdout)
}

/// Returns true if a command can be run and succeeds. What it prints is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The interpreter of an environment of Python.
pub(crate) fn python(environment: &Path) -> PathBuf {
    environment.join(if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    })
}

/// Makes an environment of Python, and installs a package there.
pub(crate) fn pip_install(environment: &Path, package: &str) -> Result<()> {
    run(Command::new("python3").args(["-m", "venv"]).arg(environment)).context("no environment of Python")?;
    let mut pip = Command::new(python(environment));
    pip.args("-m pip install --quiet --disable-pip-version-check".split(' '));
    run(pip.arg(package)).with_context(|| format!("pip cannot install {package}; is there a network?"))
}

fn describe(command: &Command) -> String {
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or(OsStr::new("?"));
    let words: Vec<_> = [name]
        .into_iter()
        .chain(command.get_args().take(2))
        .map(|word| word.to_string_lossy())
        .collect();
    format!("`{}`", words.join(" "))
}

/// How a limited child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    Failure,
    /// It was still running at its limit, and was stopped.
    Limit,
}

/// Runs a command with both outputs in the file `log`, for at most `limit`.
pub(crate) fn limited(command: &mut Command, log: &Path, limit: Duration) -> Result<(End, Duration)> {
    limited_or(command, log, limit, |_| Ok(()))
}

/// The same. Calls `late` with the child that is still running at its limit, before it is stopped.
pub(crate) fn limited_or(
    command: &mut Command,
    log: &Path,
    limit: Duration,
    late: impl FnOnce(&Child) -> Result<()>,
) -> Result<(End, Duration)> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let start = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let mut pause = Duration::from_micros(200);
    let end = loop {
        if let Some(status) = child.try_wait()? {
            break if status.success() {
                End::Success
            } else {
                End::Failure
            };
        }
        if start.elapsed() >= limit {
            late(&child)?;
            child.kill()?;
            child.wait()?;
            break End::Limit;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    Ok((end, start.elapsed()))
}

/// Reads a log. What is no UTF-8 in it is replaced: a program that was killed may have left any bytes.
pub(crate) fn read_log(log: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(log)?).into_owned())
}

/// The last `lines` of a log, indented.
pub(crate) fn tail(log: &Path, lines: usize) -> String {
    let text = read_log(log).unwrap_or_default();
    let all: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    all[all.len().saturating_sub(lines)..]
        .iter()
        .map(|line| format!("    {line}\n"))
        .collect()
}

/// Calls `work` for every item, `jobs` at a time. The results are in the order of the items.
pub(crate) fn parallel<T: Send, R: Send>(
    items: Vec<T>,
    jobs: usize,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let queue = Mutex::new(items.into_iter().enumerate());
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let Some((index, item)) = lock(&queue).next() else {
                        break;
                    };
                    let result = work(item);
                    lock(&results).push((index, result));
                }
            });
        }
    });
    let mut results = results
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// How many children at a time: the CPUs, if nothing else is asked for.
pub(crate) fn jobs(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

/// Returns the seconds of CPU time that the children of this process have taken until they ended, where the
/// system tells: on Linux.
pub(crate) fn children_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may have spaces. The state is the first field after it.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
    // `cutime` and `cstime`, in hundredths of a second on all of Linux's architectures.
    Some((ticks(13)? + ticks(14)?) / 100.0)
}

/// Returns how much has been added to [`children_seconds`] since it was `before`, without `others`.
pub(crate) fn cpu_since(before: Option<f64>, others: f64) -> Option<f64> {
    Some(children_seconds()? - before? - others)
}

/// A duration for a table.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// Prints a heading for a step and makes sure that it is seen before the children write.
pub(crate) fn heading(text: &str) {
    println!("\n== {text}");
    // A closed pipe will be noticed by the next `println`.
    drop(io::stdout().flush());
}

/// Fails with a list of complaints, if there are any.
pub(crate) fn complain(what: &str, complaints: &[String]) -> Result<()> {
    if complaints.is_empty() {
        return Ok(());
    }
    for complaint in complaints {
        println!("  {complaint}");
    }
    bail!("{} {what}", complaints.len())
}

/// Prints a text. A reader that has seen enough, such as `head`, is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{End, limited, parallel, tail};
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn children_end_or_are_stopped() {
        let log = std::env::temp_dir().join(format!("xtask-limited-{}.log", std::process::id()));
        let run = |script: &str, limit| {
            limited(
                Command::new("sh").args(["-c", script]),
                &log,
                Duration::from_millis(limit),
            )
            .unwrap()
            .0
        };
        assert_eq!(run("echo out; echo err >&2", 60_000), End::Success);
        assert_eq!(tail(&log, 5), "    out\n    err\n");
        assert_eq!(run("exit 3", 60_000), End::Failure);
        assert_eq!(run("exec sleep 60", 50), End::Limit);
        #[cfg(target_os = "linux")]
        {
            let before = super::children_seconds().expect("Linux tells");
            assert_eq!(
                run("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done", 60_000),
                End::Success
            );
            assert!(super::children_seconds().expect("Linux tells") > before);
        }
        std::fs::remove_file(log).unwrap();
    }

    #[test]
    fn results_keep_the_order_of_the_items() {
        let results = parallel((0..100).collect(), 3, |n: u64| {
            std::thread::sleep(Duration::from_micros(100 - n));
            Ok(n * 2)
        });
        assert_eq!(results.unwrap(), (0..200).step_by(2).collect::<Vec<_>>());
        assert!(
            parallel(vec![1, 2], 2, |n| {
                anyhow::ensure!(n != 2, "two");
                Ok(n)
            })
            .is_err()
        );
    }
}
