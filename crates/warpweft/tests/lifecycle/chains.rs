//! Chains of tasks, each of which ends the next one as it ends: the stack does not become as deep as the
//! chain is long.

use crate::in_time::in_time;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use warpweft::{JoinHandle, Runtime, join_async, scope_async, spawn};

/// How many have begun, and how many have ended.
#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

struct End(Arc<Counts>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Cancels its task, and waits for it.
struct Stops(Option<JoinHandle<()>>);

impl Drop for Stops {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.cancel();
            assert!(task.wait().is_err());
        }
    }
}

#[derive(Clone, Copy)]
enum Link {
    Awaits,
    Holds,
    Stops,
    Scope,
    Join,
}

type Chained = Pin<Box<dyn Future<Output = ()> + Send>>;

fn chained(link: Link, below: usize, counts: Arc<Counts>) -> Chained {
    Box::pin(async move {
        let _end = End(Arc::clone(&counts));
        counts.begun.fetch_add(1, Ordering::Relaxed);
        if below == 0 {
            return pending().await;
        }
        let next = chained(link, below - 1, counts);
        match link {
            Link::Awaits => drop(spawn(next).await),
            Link::Holds => {
                let _next = spawn(next);
                pending::<()>().await;
            }
            Link::Stops => {
                let _next = Stops(Some(spawn(next)));
                pending::<()>().await;
            }
            Link::Scope => scope_async(|scope| async move { drop(scope.spawn(next)) }).await,
            Link::Join => drop(join_async(pending::<()>(), next).await),
        }
    })
}

/// Builds such a chain, and drops its runtime.
fn ends(link: Link, levels: usize) {
    in_time(move || {
        let runtime = Runtime::builder().workers(2).build().expect("workers");
        let counts = Arc::<Counts>::default();
        let first = runtime.spawn(chained(link, levels - 1, Arc::clone(&counts)));
        while counts.begun.load(Ordering::Relaxed) < levels {
            thread::sleep(Duration::from_millis(1));
        }
        drop(first);
        drop(runtime);
        assert_eq!(counts.ended.load(Ordering::Relaxed), levels);
    });
}

#[test]
fn a_chain_that_awaits() {
    ends(Link::Awaits, 50_000);
}

#[test]
fn a_chain_of_handles() {
    ends(Link::Holds, 50_000);
}

/// Each destructor waits for the next one, on its stack.
#[test]
fn a_chain_whose_destructors_wait() {
    ends(Link::Stops, 300);
}

#[test]
fn a_chain_of_scopes() {
    ends(Link::Scope, 50_000);
}

#[test]
fn a_chain_of_joins() {
    ends(Link::Join, 2_000);
}
