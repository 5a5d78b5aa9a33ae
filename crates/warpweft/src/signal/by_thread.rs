//! A signal as a notification, where the system starts a thread for its handler: on Windows.

use super::{Registered, SIGINT};
use crate::sync::Notify;
use signal_hook_registry::register;
use std::io;
use std::sync::Arc;

pub(super) async fn wait() -> io::Result<()> {
    let pressed = Arc::new(Notify::new());
    let tell = {
        let pressed = Arc::clone(&pressed);
        move || pressed.notify_one()
    };
    // SAFETY: the system runs the handler of this signal on a thread that it starts for it. So the action may
    // take locks and wake tasks, as on any thread.
    let _registered = Registered(unsafe { register(SIGINT, tell) }?);
    pressed.notified().await;
    Ok(())
}
