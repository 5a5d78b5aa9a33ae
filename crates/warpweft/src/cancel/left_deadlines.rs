//! Deadlines whose runtime has shut down before them: a thread of their own keeps them.
//!
//! # Invariants
//!
//! - The thread ends when no node is left, two seconds after the last one at the latest.
//! - A forked child has none of the nodes of its parent, because what could wait for them stayed there.

use crate::cancel_tree::node::{Node, Reason};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};
use warpweft_platform::clock;
use warpweft_platform::process;
use warpweft_platform::sync::{Condvar, Mutex};
use warpweft_platform::thread::spawn_named;

/// The longest sleep, and the least time between two searches for nodes that are gone.
const LOOK_NS: u64 = 1_000_000_000;

#[derive(Default)]
struct LeftDeadlines {
    /// By deadline, and a number that tells equal ones apart.
    nodes: BTreeMap<(u64, u64), Weak<Node>>,
    entered: u64,
    /// The generation of the process in which there is a thread.
    thread_in: Option<u64>,
}

struct Keeper {
    left: Mutex<LeftDeadlines>,
    earlier: Condvar,
}

fn keeper() -> &'static Keeper {
    static KEEPER: OnceLock<Keeper> = OnceLock::new();
    KEEPER.get_or_init(|| Keeper {
        left: Mutex::default(),
        earlier: Condvar::default(),
    })
}

/// Cancels the node at its deadline. If the system has no thread for it, nothing does, but code under the
/// node still sees the deadline where it forks or asks.
pub(super) fn keep(node: &Arc<Node>) {
    let keeper = keeper();
    let Some(mut left) = keeper.left.lock_unless_lost() else {
        return;
    };
    let generation = process::generation();
    if left.thread_in.is_some_and(|there| there != generation) {
        *left = LeftDeadlines::default();
    }
    left.entered += 1;
    let key = (node.limits().deadline_ns, left.entered);
    left.nodes.insert(key, Arc::downgrade(node));
    let is_first = left
        .nodes
        .first_key_value()
        .is_some_and(|(first, _)| *first == key);
    if left.thread_in.is_none() {
        let thread = spawn_named("warpweft-deadlines", None, || keeper.run());
        left.thread_in = thread.is_ok().then_some(generation);
    }
    if is_first {
        keeper.earlier.notify_one();
    }
}

impl Keeper {
    fn run(&self) {
        let mut left = self.left.lock();
        let mut searched_ns = 0;
        loop {
            let now_ns = clock::now_ns();
            if now_ns.saturating_sub(searched_ns) >= LOOK_NS {
                searched_ns = now_ns;
                left.nodes.retain(|_, node| node.strong_count() > 0);
            }
            let Some((&(deadline_ns, number), node)) = left.nodes.first_key_value() else {
                left.thread_in = None;
                return;
            };
            if deadline_ns > now_ns {
                left = self.earlier.wait_for(left, LOOK_NS.min(deadline_ns - now_ns));
                continue;
            }
            let node = node.upgrade();
            left.nodes.remove(&(deadline_ns, number));
            drop(left);
            // Unwind: a waker has panicked, which the panic hook has reported.
            let cancel = AssertUnwindSafe(|| node.map(|node| node.cancel(Reason::Deadline)));
            if let Err(payload) = catch_unwind(cancel) {
                std::mem::forget(payload);
            }
            left = self.left.lock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{keep, keeper};
    use crate::cancel_tree::node::{Limits, Node};
    use std::time::{Duration, Instant};
    use warpweft_platform::clock;
    use warpweft_platform::thread::pause;

    fn due_in(time: Duration) -> std::sync::Arc<Node> {
        Node::root(Limits {
            deadline_ns: clock::ns_at(Instant::now() + time),
            grace_ns: 0,
        })
    }

    #[test]
    fn each_is_cancelled_at_its_time_and_the_thread_ends_with_the_last() {
        const HOUR: Duration = Duration::from_secs(3600);
        let until = |is: &dyn Fn() -> bool| {
            let start = Instant::now();
            while !is() {
                assert!(start.elapsed() < Duration::from_secs(60), "it never comes");
                pause(1_000_000);
            }
        };
        for _ in 0..2 {
            let (late, soon) = (due_in(HOUR), due_in(Duration::from_millis(20)));
            [&late, &soon].into_iter().for_each(keep);
            until(&|| soon.is_cancelled());
            assert!(soon.limits().deadline_ns <= clock::now_ns());
            assert!(!late.is_cancelled());
            drop(late);
            until(&|| keeper().left.lock().thread_in.is_none());
        }
    }
}
