//! Errors of the system with the name of what they concern.

use std::error::Error;
use std::fmt;
use std::io;

/// An error of the system, and what was attempted with what.
#[derive(Debug)]
struct Named {
    attempt: String,
    error: io::Error,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.attempt, self.error)
    }
}

impl Error for Named {
    /// The system's error, by which a program finds its number.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// Returns the error with what was attempted in front of its text. The kind stays.
pub(crate) fn named(error: io::Error, attempt: String) -> io::Error {
    named_as(error.kind(), error, attempt)
}

/// As [`named`], with another kind than the system's.
pub(crate) fn named_as(kind: io::ErrorKind, error: io::Error, attempt: String) -> io::Error {
    io::Error::new(kind, Named { attempt, error })
}

#[cfg(test)]
mod tests {
    use super::named;
    use std::io;

    #[test]
    fn kind_text_and_number_stay() {
        let system = io::Error::from_raw_os_error(2);
        let (kind, text) = (system.kind(), system.to_string());
        let error = named(system, String::from("open `/x`"));
        assert_eq!(error.kind(), kind);
        assert_eq!(error.to_string(), format!("open `/x`: {text}"));
        let source = error.get_ref().and_then(|named| named.source());
        let number = source.and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(number.and_then(io::Error::raw_os_error), Some(2));
    }
}
