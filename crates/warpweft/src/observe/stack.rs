//! A stack as text: what a report says of the code that a thread was in.

use super::stacks;
use std::borrow::Cow;
use std::fmt;
use warpweft_platform::stack_copy::NoCopy;

/// The modules by which code outside of fibers waits for a task. They call no task.
const WAITS: [&str; 3] = ["block_on::", "frame::", "join::"];

/// The last line of a stack without names.
pub(crate) const NO_NAMES: &str =
    "\n      no names: the program has no symbols (`strip`), or there was no time to read them";

/// The frames of a stack, the innermost first.
///
/// As text it is a frame per line, up to the frames of the runtime that called the task.
///
/// A [shutdown](crate::Runtime::shutdown_timeout) that meets its limit does not wait until the symbols of the
/// program are read. If the frames of its stacks have no names for that reason, the text has them: they are
/// looked up when it is made, or by [`with_names`](Self::with_names).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stack {
    /// All frames that were found, those of the runtime included.
    pub frames: Vec<Frame>,
    /// `None` if the last frame is the root of the stack. Otherwise why there are no more.
    pub cut: Option<&'static str>,
    /// The names were not looked up, and are when they are needed.
    pub(super) is_unnamed: bool,
}

/// A function of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The address of the instruction, or of the call. Functions that are inlined have the same address.
    pub address: u64,
    /// The name of the function; `None` if the program has no symbols for it.
    pub function: Option<String>,
    /// The source file; `None` without line tables (`debug = "line-tables-only"`).
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
    /// For a function without a name, the program or library that has it, and the address there. `addr2line`
    /// takes both.
    pub module: Option<(String, u64)>,
}

impl Frame {
    /// Returns true if it belongs to the code that runs tasks, and not to a task.
    fn is_of_runtime(&self) -> bool {
        let name = self.function.as_deref().unwrap_or_default();
        let name = name.trim_start_matches(['<', '&']);
        let module = name.strip_prefix("warpweft_task::");
        module.is_some_and(|name| !WAITS.iter().any(|module| name.starts_with(module)))
    }

    /// Returns true if it belongs to the code by which a fiber waits. Functions that were inlined have no
    /// path in their names, so the source file counts, too.
    fn is_of_wait(&self) -> bool {
        let name = self.function.as_deref().unwrap_or_default();
        let is_ours = |folder: &str| {
            // A folder of a registry has the version in its name.
            let version = folder.strip_prefix("warpweft-");
            folder == "warpweft" || version.is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()))
        };
        let mut folders = self.file.as_deref().unwrap_or_default().rsplit(['/', '\\']);
        let is_in_sources = folders.any(|folder| folder == "src") && folders.next().is_some_and(is_ours);
        is_in_sources || name.trim_start_matches(['<', '&']).starts_with("warpweft::")
    }
}

/// Returns the path of a source file without the place where the standard library was built.
fn short(file: &str) -> &str {
    let rest = file.strip_prefix("/rustc/").and_then(|rest| rest.split_once('/'));
    rest.map_or(file, |(_, rest)| rest)
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.function, &self.module) {
            (Some(function), _) => f.write_str(function)?,
            (None, Some((module, address))) => write!(f, "{module}+{address:#x}")?,
            (None, None) => write!(f, "{:#x}", self.address)?,
        }
        match (self.file.as_deref().map(short), self.line) {
            (Some(file), Some(line)) => write!(f, " at {file}:{line}"),
            (Some(file), None) => write!(f, " at {file}"),
            _ => Ok(()),
        }
    }
}

/// A stack as text, without the frames by which its fiber waits.
pub(crate) struct WithoutWait<'a>(pub(crate) &'a Stack);

impl fmt::Display for WithoutWait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stack = self.0.named();
        let first = stack.frames.iter().position(|frame| !frame.is_of_wait());
        stack.write(f, first.unwrap_or(0))
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named().write(f, 0)
    }
}

impl Stack {
    /// Returns the stack with the names of its functions, as far as the program has symbols. They may be
    /// missing only in what a shutdown has returned. The first call in a process may take a second.
    #[must_use]
    pub fn with_names(&self) -> Self {
        self.named().into_owned()
    }

    /// Notes that the names are to be looked up when they are needed, if there are none.
    pub(crate) fn defer_names(&mut self) {
        self.is_unnamed = !self.has_names();
    }

    /// Returns true if a function of it has a name.
    pub(crate) fn has_names(&self) -> bool {
        self.frames.iter().any(|frame| frame.function.is_some())
    }

    fn named(&self) -> Cow<'_, Self> {
        match self.is_unnamed {
            true => stacks::named_soon(self).map_or(Cow::Borrowed(self), Cow::Owned),
            false => Cow::Borrowed(self),
        }
    }

    /// Writes the frames from the one with that number on.
    fn write(&self, f: &mut fmt::Formatter<'_>, first: usize) -> fmt::Result {
        let shown = self.frames.iter().position(Frame::is_of_runtime);
        // A stack of the runtime alone is shown as a whole.
        let shown = shown.filter(|shown| *shown > first).unwrap_or(self.frames.len());
        for (at, frame) in self.frames.iter().enumerate().take(shown).skip(first) {
            let line = if at == first { "" } else { "\n" };
            write!(f, "{line}{at:4}: {frame}")?;
        }
        if !self.has_names() {
            f.write_str(NO_NAMES)?;
        }
        match self.cut {
            Some(why) if shown == self.frames.len() => write!(f, "\n      and no further: {why}"),
            _ => Ok(()),
        }
    }
}

/// Why a report has no stack.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoStack {
    /// The program is built without the feature `stacks`.
    NotBuilt,
    /// [`Builder::stack_signal`](crate::Builder::stack_signal) says that no signal is sent.
    Off,
    /// It is not known which thread carries the worker.
    NoThread,
    /// The stack was not copied, for the reason in this text.
    NotCopied(String),
    /// The worker had continued before its stack was copied.
    Continued,
    /// The stack was copied, and its functions were not found in time, or the search for them failed.
    NotRead,
}

impl From<NoCopy> for NoStack {
    fn from(error: NoCopy) -> Self {
        match error {
            NoCopy::Ended => Self::Continued,
            error => Self::NotCopied(error.to_string()),
        }
    }
}

impl fmt::Display for NoStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotBuilt => "the feature `stacks` of `warpweft` is off",
            Self::Off => "`Builder::stack_signal` is `None`",
            Self::NoThread => "its thread is not known",
            Self::NotCopied(why) => why,
            Self::Continued => "it had continued before its stack was read",
            Self::NotRead => "its functions were not found in time",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str) -> Frame {
        Frame {
            address: 16,
            function: Some(function.to_owned()),
            file: None,
            line: None,
            module: None,
        }
    }

    #[test]
    fn a_frame_says_where_it_is() {
        let mut frame = frame("f");
        frame.file = Some(String::from("/rustc/0123/library/core/src/a.rs"));
        assert_eq!(frame.to_string(), "f at library/core/src/a.rs");
        (frame.file, frame.line) = (Some(String::from("src/main.rs")), Some(7));
        assert_eq!(frame.to_string(), "f at src/main.rs:7");
    }

    #[test]
    fn the_frames_of_a_wait_are_left_out() {
        let names = [
            "switch",
            "warpweft::execution::listen",
            "a::waits",
            "warpweft::join",
            "warpweft_task::f",
        ];
        let mut stack = Stack {
            frames: names.map(frame).into(),
            cut: None,
            is_unnamed: false,
        };
        for file in [
            "/crates/warpweft/src/switch.rs",
            "/registry/warpweft-0.1.0/src/coroutine/switch.rs",
        ] {
            stack.frames[0].file = Some(String::from(file));
            assert_eq!(
                WithoutWait(&stack).to_string(),
                "   2: a::waits\n   3: warpweft::join"
            );
        }
        for file in [
            "/warpweft/tests/a.rs",
            "/other/src/switch.rs",
            "/warpweft-task/src/a.rs",
        ] {
            stack.frames[0].file = Some(String::from(file));
            assert!(
                WithoutWait(&stack).to_string().starts_with("   0: switch"),
                "{file}"
            );
        }
        stack.frames.truncate(2);
        assert!(WithoutWait(&stack).to_string().starts_with("   0: switch"));
    }

    #[test]
    fn a_closure_that_waits_for_a_task_is_shown_behind_the_wait() {
        let names = [
            "syscall",
            "warpweft_task::frame::Frame::during_outside",
            "warpweft_task::block_on::wait",
            "<warpweft_task::join::JoinHandle<u32>>::wait",
            "a::guilty",
            "<warpweft_task::kinds::Job<F> as Work>::step",
            "main",
        ];
        let stack = Stack {
            frames: names.map(frame).into(),
            cut: None,
            is_unnamed: false,
        };
        assert!(stack.to_string().ends_with("   4: a::guilty"), "{stack}");
    }

    #[test]
    fn the_runtimes_frames_are_left_out() {
        let names = [
            "a::guilty",
            "b::calls",
            "<warpweft_task::kinds::Job<F> as Work>::step",
            "main",
        ];
        let mut stack = Stack {
            frames: names.map(frame).into(),
            cut: None,
            is_unnamed: false,
        };
        assert_eq!(stack.to_string(), "   0: a::guilty\n   1: b::calls");
        // Only names count, and not what they are generic over.
        stack.frames[2] = frame("c::run::<warpweft_task::TaskRef>");
        stack.cut = Some("the rest was not copied");
        let text = stack.to_string();
        assert!(
            text.ends_with("3: main\n      and no further: the rest was not copied"),
            "{text}"
        );
        stack.frames.drain(..3);
        stack.frames[0].function = None;
        stack.frames[0].module = Some((String::from("/bin/program"), 32));
        assert!(
            stack.to_string().starts_with("   0: /bin/program+0x20\n"),
            "{stack}"
        );
        assert!(stack.to_string().contains("no symbols"), "{stack}");
    }
}
