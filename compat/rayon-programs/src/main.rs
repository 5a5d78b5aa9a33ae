//! Programs that use rayon, and do not say which `rayon-core` they use.
//!
//! `cargo xtask rayon` builds this package twice, with the original and with ours, and compares what the two
//! print: `speed` times, `threads` what programs rely on that index arrays by thread, `real` the results of
//! other people's programs.

#[cfg(feature = "real")]
mod real;
mod speed;
mod threads;

use std::process::ExitCode;

const USAGE: &str = "usage: speed [NAME] | threads | real FOLDER (with the feature `real`)";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["speed"] => speed::list(),
        ["speed", name] if speed::time(name) => {}
        ["threads"] => return threads::check(),
        #[cfg(feature = "real")]
        ["real", folder] => return real::run(std::path::Path::new(folder)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
