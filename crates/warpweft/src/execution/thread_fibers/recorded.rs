//! What the flight recorder asks about the fibers of a thread.

use super::ThreadFibers;
use crate::observe::recorder::sites::TaskSite;

impl ThreadFibers {
    /// Returns what identifies the stack of the last turn, and where its task was spawned. It is 0 if the
    /// stack is gone.
    pub(crate) fn last_turn(&self) -> (usize, Option<TaskSite>) {
        let on = self.on.get();
        // SAFETY: null, or a fiber of this thread: what clears one away at its end also clears `on`, and the
        // warm ones are there as long as the thread's fibers.
        let site = unsafe { on.as_ref() }.map(|fiber| fiber.label().site());
        let (name, spawned_at) = site.unwrap_or_default();
        (
            on.addr(),
            spawned_at.map(|spawned_at| TaskSite { name, spawned_at }),
        )
    }
}
