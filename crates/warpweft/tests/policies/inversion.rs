//! A task of high priority waits for a lock that one of low priority has, while thousands of middle priority
//! are ready. The low one has the high one's priority meanwhile, so few of the others go first.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{PoisonError, RwLockReadGuard, mpsc};
use warpweft::sync::{Mutex, RwLock, Semaphore, oneshot};
use warpweft::{JoinHandle, PolicySpec, Runtime, TaskBuilder, yield_now};

/// A process has room for 64 waits that lend. A test that takes all of it is alone.
pub(super) static ROOM: std::sync::RwLock<()> = std::sync::RwLock::new(());

/// Begins a test beside which no other one takes all the room.
pub(super) fn with_room() -> RwLockReadGuard<'static, ()> {
    ROOM.read().unwrap_or_else(PoisonError::into_inner)
}

/// How many tasks of middle priority are ready.
pub(super) const FLOOD: usize = 5_000;
/// How often the low one yields while it has the lock.
pub(super) const YIELDS: usize = 10;
/// A worker looks for tasks with a lent priority once in 61 of them.
pub(super) const FEW: usize = 2 * 61 + 3 * YIELDS;

/// Something to wait for, with one owner at a time.
trait Lock: Send + Sync + 'static {
    fn make() -> Self;
    /// Calls `begin` when it has the lock, and yields while it has it.
    fn hold(
        &self,
        begin: impl FnOnce() + Send,
        until: Option<oneshot::Receiver<()>>,
    ) -> impl Future<Output = ()> + Send;
}

async fn critical(begin: impl FnOnce() + Send, until: Option<oneshot::Receiver<()>>) {
    begin();
    if let Some(until) = until {
        until.await.unwrap();
    }
    for _ in 0..YIELDS {
        yield_now().await;
    }
}

impl Lock for Mutex<()> {
    fn make() -> Self {
        Self::new(())
    }
    async fn hold(&self, begin: impl FnOnce() + Send, until: Option<oneshot::Receiver<()>>) {
        let _guard = self.lock().await;
        critical(begin, until).await;
    }
}

impl Lock for RwLock<()> {
    fn make() -> Self {
        Self::new(())
    }
    async fn hold(&self, begin: impl FnOnce() + Send, until: Option<oneshot::Receiver<()>>) {
        let _guard = self.write().await;
        critical(begin, until).await;
    }
}

impl Lock for Semaphore {
    fn make() -> Self {
        Self::new(1)
    }
    async fn hold(&self, begin: impl FnOnce() + Send, until: Option<oneshot::Receiver<()>>) {
        let _permit = self.acquire(1).await.unwrap();
        critical(begin, until).await;
    }
}

/// How the low one is where it is when the high one begins to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// It sleeps, and is woken afterwards.
    Sleeps,
    /// It was woken, and is in its queue behind the flood.
    IsQueued,
    /// Another low one waits in front of the high one, too.
    HasFollower,
}

/// One worker, so that what goes first is known.
pub(super) fn runtime(policy: &str) -> Runtime {
    let policy: PolicySpec = policy.parse().unwrap();
    Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .policy_spec(policy)
        .build()
        .unwrap()
}

/// Holds the only worker by a job until something is sent. Returns once it does.
pub(super) fn hold(on: TaskBuilder<'_>) -> (mpsc::Sender<()>, JoinHandle<()>) {
    let (open, gate) = mpsc::channel();
    let (held, holds) = mpsc::channel();
    let gate = on.spawn_job(move || {
        held.send(()).unwrap();
        gate.recv().unwrap();
    });
    holds.recv().unwrap();
    (open, gate)
}

/// Returns how many of the flood ran while the high one waited.
fn passed_over<L: Lock>(runtime: &Runtime, owner: Owner) -> usize {
    let [high, middle, low] = [0, 1, 2].map(|level| runtime.priority(level).unwrap());
    let lock = Arc::new(L::make());
    let ran = Arc::new(AtomicUsize::new(0));
    let low_one = |until| -> (JoinHandle<()>, [mpsc::Receiver<()>; 2]) {
        let lock = Arc::clone(&lock);
        let ((arrived, arrives), (begun, begins)) = (mpsc::channel(), mpsc::channel());
        let task = TaskBuilder::new().on(runtime).priority(low);
        let task = task.spawn(async move {
            arrived.send(()).unwrap();
            lock.hold(|| begun.send(()).unwrap(), until).await;
        });
        (task, [arrives, begins])
    };
    let (wake, woken) = oneshot::channel();
    let (first, [_arrives, begins]) = low_one(Some(woken));
    begins.recv().unwrap();
    // It waits before its worker runs anything else. If it did not, the gate would go first.
    let follower = (owner == Owner::HasFollower).then(|| {
        let (task, [arrives, begins]) = low_one(None);
        arrives.recv().unwrap();
        (task, begins)
    });
    // Until all is prepared.
    let (open, gate) = hold(TaskBuilder::new().on(runtime).priority(high));
    let flood: Vec<_> = (0..FLOOD)
        .map(|_| {
            let ran = Arc::clone(&ran);
            let task = TaskBuilder::new().on(runtime).priority(middle);
            task.spawn_job(move || ran.fetch_add(1, SeqCst))
        })
        .collect();
    let mut wake = Some(wake);
    if owner == Owner::IsQueued {
        wake.take().map(|wake| wake.send(()));
    }
    let high_one = {
        let (lock, ran) = (Arc::clone(&lock), Arc::clone(&ran));
        let task = TaskBuilder::new().on(runtime).priority(high);
        task.spawn(async move {
            let before = ran.load(SeqCst);
            // From inside of the pool: the high one waits by then, or is about to.
            let wake = wake.map(|wake| warpweft::spawn(async move { wake.send(()) }));
            lock.hold(|| (), None).await;
            drop(wake);
            ran.load(SeqCst) - before
        })
    };
    open.send(()).unwrap();
    gate.wait().unwrap();
    let passed_over = high_one.wait().unwrap();
    first.wait().unwrap();
    if let Some((follower, _)) = follower {
        follower.wait().unwrap();
    }
    for task in flood {
        task.wait().unwrap();
    }
    passed_over
}

fn is_bounded<L: Lock>() {
    for policy in [
        "priority:3",
        "priority:3(lifo)+yield=local",
        "priority:3+woken=last",
        "priority:3+capacity=2+overflow=multi:2",
    ] {
        let runtime = runtime(policy);
        for owner in [Owner::Sleeps, Owner::IsQueued, Owner::HasFollower] {
            let passed_over = passed_over::<L>(&runtime, owner);
            assert!(
                passed_over <= FEW,
                "{policy}, the owner {owner:?}: {passed_over} of {FLOOD} went first"
            );
        }
        // The priority was lent, and not given.
        let next = passed_over::<L>(&runtime, Owner::Sleeps);
        assert!(next <= FEW, "{policy}: {next}");
    }
}

#[test]
fn a_mutex_lends_priorities() {
    let _room = with_room();
    is_bounded::<Mutex<()>>();
}

#[test]
fn the_writer_of_a_lock_is_lent_priorities() {
    let _room = with_room();
    is_bounded::<RwLock<()>>();
}

#[test]
fn the_only_holder_of_permits_is_lent_priorities() {
    let _room = with_room();
    is_bounded::<Semaphore>();
}

/// The low one has its own priority again once it has given the lock away.
#[test]
fn what_was_lent_is_given_back() {
    let _room = with_room();
    let runtime = runtime("priority:3");
    let [high, middle, low] = [0, 1, 2].map(|level| runtime.priority(level).unwrap());
    let lock = Arc::new(Mutex::new(()));
    let (begun, begins) = mpsc::channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let owner = {
        let (lock, waiting) = (Arc::clone(&lock), Arc::clone(&waiting));
        let task = TaskBuilder::new().on(&runtime).priority(low);
        task.spawn(async move {
            let guard = lock.lock().await;
            begun.send(()).unwrap();
            while waiting.load(SeqCst) == 0 {
                yield_now().await;
            }
            let middle = || TaskBuilder::new().priority(middle);
            let order = Arc::new(AtomicUsize::new(0));
            let spawn = || {
                let order = Arc::clone(&order);
                middle().spawn_job(move || order.fetch_add(1, SeqCst))
            };
            let first = spawn();
            yield_now().await;
            let with_lock = order.load(SeqCst);
            drop(guard);
            yield_now().await;
            let without = order.load(SeqCst);
            first.await.unwrap();
            (with_lock, without)
        })
    };
    begins.recv().unwrap();
    let waiter = {
        let task = TaskBuilder::new().on(&runtime).priority(high);
        task.spawn(async move {
            waiting.fetch_add(1, SeqCst);
            drop(lock.lock().await);
        })
    };
    waiter.wait().unwrap();
    assert_eq!(owner.wait().unwrap(), (0, 1));
}
