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

/// Returns the number that the system gave an error, also if the error says what was attempted.
///
/// [`raw_os_error`](io::Error::raw_os_error) has none for such an error: connecting, binding, sending to an
/// address, starting a program, and all of [`fs`](crate::fs) name what they concern.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let error = runtime.block_on(warpweft::fs::read("/there/is/none")).expect_err("there is none");
/// assert_eq!(error.raw_os_error(), None);
/// # #[cfg(unix)]
/// assert_eq!(warpweft::io::os_error(&error), Some(2)); // ENOENT
/// # Ok::<(), warpweft::BuildError>(())
/// ```
#[must_use]
pub fn os_error(error: &io::Error) -> Option<i32> {
    let named = || error.get_ref()?.downcast_ref::<Named>();
    error.raw_os_error().or_else(|| os_error(&named()?.error))
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
    use super::{named, os_error};
    use std::io;

    #[test]
    fn kind_text_and_number_stay() {
        let system = io::Error::from_raw_os_error(2);
        let (kind, text) = (system.kind(), system.to_string());
        let error = named(system, String::from("open `/x`"));
        assert_eq!(error.kind(), kind);
        assert_eq!(error.to_string(), format!("open `/x`: {text}"));
        assert_eq!(os_error(&error), Some(2));
        let twice = named(error, String::from("read the settings"));
        assert_eq!(os_error(&twice), Some(2));
        let source = twice.get_ref().and_then(|named| named.source());
        assert!(source.is_some_and(<dyn std::error::Error>::is::<io::Error>));
    }
}
