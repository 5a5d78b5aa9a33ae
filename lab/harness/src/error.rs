//! The errors as values. Every message names the thing, the value and what would be right.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The user asked for something that does not exist or does not fit; exit code 2.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error("cannot {action} `{}`: {reason}", path.display())]
    File {
        /// The attempt: "read the capture", "write the report".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason, and what would be right.
        reason: String,
    },
    /// A run has no result: the contestant panicked, hung, or could not be built.
    #[error("{contestant} on {workload}: {reason}")]
    Run {
        /// Runtime, policy and workers.
        contestant: String,
        /// The workload with its variant.
        workload: String,
        /// The reason.
        reason: String,
    },
    /// Contestants of a session that did not complete; the others are in its table.
    #[error("did not complete:\n  {0}")]
    Incomplete(String),
    /// Ctrl-C ended the command early; the figures of what was finished are printed. Exit code 130.
    #[error("interrupted: {0}")]
    Interrupted(String),
    /// A baseline was better by more than is allowed, or nothing can be said about it although it must.
    #[error("{0}")]
    Loss(String),
    /// A run has a wrong result. The message says what was counted and what was expected.
    #[error("wrong result: {0}")]
    Wrong(String),
    /// A run ended itself: something in it took longer than the workload allows.
    #[error("{0}")]
    TooLong(String),
    /// Standard output failed; a closed pipe is no error of ours.
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
}

impl LabError {
    /// A file that cannot be read or written.
    pub fn file(action: &'static str, path: &Path, reason: &(impl ToString + ?Sized)) -> Self {
        Self::File {
            action,
            path: path.to_path_buf(),
            reason: reason.to_string(),
        }
    }

    /// The exit code of the process: 2 for a wrong command line, 130 after an interrupt, 1 for all else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Interrupted(_) => crate::interrupt::EXIT_CODE,
            _ => 1,
        }
    }

    /// Returns true if the reader of our output went away (`lab list | head -1`): then we end in silence.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The position of `given` among `valid`, or an error that lists the right names and the nearest one.
///
/// `kind` is the plural noun of the list: "workloads".
pub(crate) fn choose(kind: &str, given: &str, valid: &[&str]) -> Result<usize, LabError> {
    if let Some(at) = valid.iter().position(|name| *name == given) {
        return Ok(at);
    }
    let mut message = format!("`{given}` is none of the {kind}");
    if let Some(nearest) = nearest(given, valid) {
        message.push_str(&format!("; did you mean `{nearest}`?"));
    }
    message.push_str(&format!("\n  {kind}: {}", valid.join(", ")));
    Err(LabError::Usage(message))
}

/// The text in which one word of `text` is the nearest of `words`, and which `is_right`. Words of a text are
/// apart by `+`, `=`, `:` and `/`.
pub fn corrected(text: &str, words: &[&str], is_right: impl Fn(&str) -> bool) -> Option<String> {
    let mut start = 0;
    for part in text.split_inclusive(['+', '=', ':', '/']) {
        let word = part.trim_end_matches(['+', '=', ':', '/']);
        let end = start + word.len();
        if !words.contains(&word)
            && let Some(nearest) = nearest(word, words)
        {
            let corrected = format!("{}{nearest}{}", &text[..start], &text[end..]);
            if is_right(&corrected) {
                return Some(corrected);
            }
        }
        start += part.len();
    }
    None
}

/// The name most like `given`, if it is like it at all.
pub(crate) fn nearest<'a>(given: &str, valid: &[&'a str]) -> Option<&'a str> {
    valid
        .iter()
        .map(|name| (strsim::jaro_winkler(&given.to_lowercase(), name), *name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_lists_the_right_ones_and_the_nearest() {
        let error = choose("workloads", "pakcet", &["pcap", "packet", "spawn"]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("did you mean `packet`?"), "{text}");
        assert!(text.contains("workloads: pcap, packet, spawn"), "{text}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn a_name_like_none_gets_the_list_only() {
        let text = choose("runtimes", "zzzz", &["rayon", "tokio"])
            .unwrap_err()
            .to_string();
        assert!(!text.contains("did you mean"), "{text}");
        assert!(text.contains("runtimes: rayon, tokio"), "{text}");
    }

    #[test]
    fn a_text_with_one_wrong_word_is_corrected() {
        let words = ["fifo", "lifo", "steal", "one", "half", "slot"];
        let right = |text: &str| ["lifo+steal=one", "lifo", "slot:4"].contains(&text);
        let corrected = |text| corrected(text, &words, right);
        assert_eq!(corrected("lifoo").as_deref(), Some("lifo"));
        assert_eq!(corrected("lifo+stael=one").as_deref(), Some("lifo+steal=one"));
        assert_eq!(corrected("slt:4").as_deref(), Some("slot:4"));
        assert_eq!(corrected("xyz"), None);
        assert_eq!(corrected("lifoo+stael=one"), None, "two wrong words are too many");
    }

    #[test]
    fn a_right_name_is_found() {
        assert_eq!(choose("runtimes", "tokio", &["rayon", "tokio"]).unwrap(), 1);
    }

    #[test]
    fn a_closed_pipe_is_told_from_a_full_disk() {
        let closed = LabError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        let full = LabError::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(closed.is_closed_pipe() && !full.is_closed_pipe());
    }
}
