//! Ctrl-C: the first one ends the run that is under way, and the command prints what it has. The second one
//! ends the command at once.
//!
//! # Invariants
//!
//! - The request is noted before the child is ended. A thread that sees the child end then sees the request.
//! - A child that starts after the request is ended by the thread that started it.

use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The exit code of a command that was interrupted.
pub(crate) const EXIT_CODE: u8 = 130;

/// True once there is a handler.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// True once it was interrupted.
static ASKED: AtomicBool = AtomicBool::new(false);
/// The head of the process group that runs, or 0.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Handles ctrl-C from now on.
pub(crate) fn watch() {
    // It fails only if there is a handler already.
    drop(ctrlc::try_set_handler(|| {
        let is_second = ASKED.swap(true, Ordering::SeqCst);
        end_running();
        if is_second {
            std::process::exit(i32::from(EXIT_CODE));
        }
        // Nothing can be done if standard error is closed.
        let text = "\ninterrupted: the run that is under way is ended; ctrl-C again ends at once\n";
        drop(std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()));
    }));
    WATCHED.store(true, Ordering::SeqCst);
}

/// Returns true if the command was interrupted.
pub(crate) fn is_asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// Makes the child of a command the head of its own process group, if there is a handler that ends the group.
/// Else the terminal's ctrl-C has to reach the child itself.
pub(crate) fn own_group(command: &mut Command) {
    #[cfg(unix)]
    if WATCHED.load(Ordering::SeqCst) {
        std::os::unix::process::CommandExt::process_group(command, 0);
    }
    #[cfg(not(unix))]
    let _ = command;
}

/// A child that an interrupt ends, until this is dropped.
pub(crate) struct Running;

impl Running {
    pub(crate) fn new(child: &Child) -> Self {
        if WATCHED.load(Ordering::SeqCst) {
            RUNNING.store(child.id(), Ordering::SeqCst);
            if is_asked() {
                end_running();
            }
        }
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.store(0, Ordering::SeqCst);
    }
}

fn end_running() {
    match RUNNING.load(Ordering::SeqCst) {
        0 => {}
        id => kill_group(id),
    }
}

/// Ends all processes of a group, if there are any.
pub(crate) fn kill_group(id: u32) {
    #[cfg(unix)]
    if let Ok(id) = i32::try_from(id) {
        use nix::sys::signal::{Signal, killpg};
        // It fails only if the group has ended.
        let _ended = killpg(nix::unistd::Pid::from_raw(id), Signal::SIGKILL);
    }
    #[cfg(not(unix))]
    let _ = id;
}
