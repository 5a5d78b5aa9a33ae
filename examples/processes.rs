//! Three programs at a time, each with a limit of time. One fails at first, and is tried again; one takes too
//! long, and is ended.
//!
//! ```text
//! cargo run --bin processes
//! ```

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;
use warpweft::process::Command;
use warpweft::time::{Retry, TimeoutExt as _};
use warpweft::{Runtime, fs, spawn};

/// Runs a script of the shell, and returns what it prints. A script that is late is ended with its handle.
async fn run(script: &str, limit: Duration) -> io::Result<String> {
    let mut command = Command::new("sh");
    command.args(["-c", script]).kill_on_drop(true);
    let output = command.output().timeout(limit).await??;
    if !output.status.success() {
        return Err(io::Error::other(format!("`sh` ended with {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// A script that took too long once would do so again.
fn is_worth_it(error: &io::Error) -> bool {
    error.kind() != ErrorKind::TimedOut
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().name("programs").build()?;
    let marker = std::env::temp_dir().join(format!("warpweft-processes-{}", std::process::id()));
    let second = "if test -e $0; then echo the second time; else touch $0; exit 1; fi";
    let (short, long) = (Duration::from_millis(50), Duration::from_secs(60));
    let scripts = [
        (String::from("echo at once"), long),
        (second.replace("$0", &format!("'{}'", marker.display())), long),
        (String::from("exec sleep 3600"), short),
    ];
    runtime.block_on(async {
        let programs = scripts.map(|(script, limit)| {
            spawn(async move {
                let retry = Retry::new().attempts(3).first_delay(Duration::from_millis(5));
                retry.run_if(is_worth_it, || run(&script, limit)).await
            })
        });
        for program in programs {
            match program.await? {
                Ok(line) => println!("{line}"),
                Err(error) => println!("{error}"),
            }
        }
        fs::remove_file(&marker).await?;
        Ok(())
    })
}
