//! What code and accesses cost the thread that the host executes just now.

use crate::blocks::{self, Executed};
use crate::lines::Access;
use crate::log::Step;
use crate::world::World;

/// The stores that a core's buffer has room for, as on most machines of today.
const BUFFERED: u64 = 64;

impl World {
    /// Charges the code since the last call, and what the last accesses take beside it.
    pub(crate) fn execute(&mut self, executed: Executed) {
        self.advance(self.model.of_blocks(executed.blocks) + executed.wrong * self.model.wrong_guess);
        let me = self.me();
        me.now = me.now.max(me.busy);
    }

    /// Lets that thread compute.
    pub(crate) fn advance(&mut self, ticks: u64) {
        let factor = if self.has_busy_sibling() {
            self.model.smt
        } else {
            1024
        };
        let me = self.me();
        let debt = std::mem::take(&mut me.debt);
        me.now += ticks * factor / 1024 + debt;
    }

    /// Charges the access itself, of a line that the present thread's core has.
    pub(crate) fn finish(&mut self, access: Access) {
        let model = &self.model;
        let cost = match access {
            Access::Rmw => model.rmw_hit,
            // It is one of the instructions of its block, and others run meanwhile.
            Access::Load if blocks::COUNTED => 0,
            Access::Load => model.load_hit,
            Access::Store => model.store_hit,
        };
        let me = self.me();
        if !blocks::COUNTED {
            me.now += cost;
        } else if access == Access::Store {
            (me.now, me.retired) = retire(me.now, me.retired, cost);
        } else {
            me.busy = me.now.max(me.busy) + cost;
        }
    }

    /// Notes that the present thread misses a line at `now`, and returns when it arrives.
    pub(crate) fn request(&mut self, line: usize, access: Access, now: u64) -> u64 {
        let core = self.core();
        let random = &mut self.random;
        let arrival = self.lines.request(&self.model, random, line, core, access, now);
        self.misses += 1;
        // A store goes into the store buffer: its time is waited for later, if at all.
        let waits = if access == Access::Store { 0 } else { arrival - now };
        self.note_wait(waits, true);
        if let Some(owners) = &mut self.owners {
            owners.note(arrival, line, core, access != Access::Load);
        }
        self.log.note(Step::Miss, self.current, line, arrival);
        arrival
    }

    /// Notes that the present thread waits for a line, or for its stores.
    fn note_wait(&mut self, ticks: u64, is_miss: bool) {
        self.waited += ticks;
        if let Some(hook) = self.threads[self.current].hook {
            self.hooks.waited(hook, ticks, is_miss);
        }
    }

    /// Lets the present thread wait until its stores have arrived.
    pub(crate) fn drain_stores(&mut self) {
        let me = &mut self.threads[self.current];
        let ticks = me.stores.max(me.retired).saturating_sub(me.now);
        if ticks > 0 {
            me.now += ticks;
            self.note_wait(ticks, false);
        }
    }
}

/// A store leaves the buffer behind those before it, and only a full buffer delays the code. Returns the
/// present time, and when the store has left.
fn retire(now: u64, retired: u64, cost: u64) -> (u64, u64) {
    let retired = now.max(retired) + cost;
    (now.max(retired.saturating_sub(BUFFERED * cost)), retired)
}

#[cfg(test)]
mod tests {
    use super::{BUFFERED, retire};

    #[test]
    fn stores_delay_code_once_the_buffer_is_full() {
        let (mut now, mut retired) = (100, 0);
        for _ in 0..BUFFERED {
            (now, retired) = retire(now, retired, 4);
        }
        assert_eq!((now, retired), (100, 100 + 4 * BUFFERED), "all of them fit");
        assert_eq!(retire(now, retired, 4), (104, retired + 4), "one more waits");
        let later = retired + 50;
        assert_eq!(retire(later, retired, 4), (later, later + 4), "an empty buffer");
    }
}
