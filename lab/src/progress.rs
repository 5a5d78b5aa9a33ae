//! Progress on standard error, where somebody may be looking; and nothing where nobody is.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::workloads::Request;

/// A bar on a terminal, nothing elsewhere.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// A bar if standard error is a terminal.
    pub(crate) fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        // Drawn at most four times a second, by this thread: nothing ticks while a run is being measured.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
        let style = ProgressStyle::with_template("  {bar:30} {pos}/{len}  {elapsed}  {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        Self(Some(bar))
    }

    /// Shows the run that begins.
    pub(crate) fn begins(&self, done: usize, total: usize, request: &Request) {
        if let Some(bar) = &self.0 {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            bar.set_message(request.contestant());
        }
    }

    /// A line above the bar.
    pub(crate) fn say(&self, line: &str) {
        match &self.0 {
            Some(bar) => bar.println(line),
            // Nothing can be done if standard error is closed.
            None => drop(writeln!(io::stderr(), "{line}")),
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
