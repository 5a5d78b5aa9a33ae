//! Progress on standard error: a bar on a terminal, and now and then a line elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::error::LabError;
use crate::record::Record;
use crate::workload::Request;

/// Without a terminal, lines are at least this far apart.
const SILENCE: Duration = Duration::from_secs(15);

/// A bar on a terminal, a line now and then elsewhere.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    records: bool,
    start: Instant,
    said: Instant,
}

impl Progress {
    /// A bar if standard error is a terminal; with `records` each run is printed as JSON as well.
    pub(crate) fn new(records: bool) -> Self {
        let start = Instant::now();
        Self {
            bar: io::stderr().is_terminal().then(Self::bar),
            records,
            start,
            said: start,
        }
    }

    fn bar() -> ProgressBar {
        // Drawn at most four times a second, by this thread: nothing ticks while a run is being measured.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
        let style = ProgressStyle::with_template("  {bar:30} {pos}/{len}  {elapsed}  {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar
    }

    /// Shows the run that begins.
    pub(crate) fn begins(&mut self, done: usize, total: usize, request: &Request) {
        if let Some(bar) = &self.bar {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            bar.set_message(request.contestant());
        } else if self.said.elapsed() >= SILENCE {
            self.said = Instant::now();
            let seconds = self.start.elapsed().as_secs();
            self.say(&format!("{done} of about {total} runs in {seconds} s"));
        }
    }

    /// A run is over.
    pub(crate) fn ran(&self, record: &Record) -> Result<(), LabError> {
        if self.records {
            let line = serde_json::to_string(record).map_err(io::Error::from)?;
            let mut output = io::stdout().lock();
            writeln!(output, "{line}")?;
            output.flush()?;
        }
        Ok(())
    }

    /// A line above the bar.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            // Nothing can be done if standard error is closed.
            None => drop(writeln!(io::stderr(), "{line}")),
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
