//! This program against a baseline: another build of it, or figures in a file.
//!
//! ```text
//!  command       compare::against: arguments, files, the exit code
//!  lines         what was found out, a line for each figure of each row: `Compared`
//!  rounds        pairs of runs, round by round; `bench` makes them in processes
//!  verdict       a loss, a gain, or neither
//!  baseline      the file;  program: another build, and what it says of itself
//! ```

pub(crate) mod baseline;
pub(crate) mod bench;
pub(crate) mod lines;
pub(crate) mod print;
pub(crate) mod program;
pub(crate) mod rounds;
pub(crate) mod verdict;
