//! A tokio context on all threads of a pool, whose tasks of `tokio::spawn` run on the pool's workers.
//!
//! ```text
//!   the context's thread                                a worker of the pool
//!   ┌──────────────────────────────┐  a turn is wanted  ┌────────────────────────────────┐
//!   │ waits for sockets and timers │ ─────────────────▶ │ runs tokio's tasks for a slice │──┐ more to do:
//!   │ of tokio, wakes our tasks    │ ◀───────────────── │ of time, looks for events      │◀─┘ yields first
//!   └──────────────────────────────┘   nothing to do    └────────────────────────────────┘
//! ```
//!
//! tokio's current-thread scheduler is carried by the thread that calls `block_on`, and by one at a time. So
//! the thread and the worker take turns: each calls `block_on` with a future that ends the turn.
//!
//! # Invariants
//!
//! - Either the thread or the turns' task has the scheduler. It changes hands by a message each way.
//! - Every turn ends: when tokio has nothing to do, or when its slice of time is over. tokio says that it has
//!   nothing to do by its hook before it parks.
//! - No timer is registered between a turn and the sleep of the thread. To register one that is earlier than
//!   all others makes tokio's next sleep end at once; so the slice of a turn is kept until the thread sleeps.
//! - tokio's last act in a turn is a look for events. What becomes ready by it runs in the next turn, or on
//!   the context's thread, which has entered the pool: also there `warpweft::spawn` leads to the pool.
//! - The turns' task ends with the pool, and the thread with the turns' task.

use crate::context::{Entered, TokioContext, small_runtime};
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::tick_alarm::TickAlarm;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};
use warpweft::sync::channel;
use warpweft::{Pool, ThreadRole, yield_now};
use warpweft_platform::sync::Mutex;
use warpweft_platform::thread::{SHORTEST_SLICE_NS, set_slice};

/// How long tokio's tasks have a worker until others get it in between.
const SLICE: Duration = Duration::from_millis(1);
/// How often a turn looks for events before it ends, if none makes a task ready.
const LOOKS: u8 = 2;

/// Adds [`tokio_context`](Self::tokio_context) to the builder of a runtime.
pub trait BuilderExt: Sized {
    /// Puts all code of this pool into a context of tokio: tasks, fibers and closures on its workers,
    /// closures of [`spawn_blocking`](warpweft::spawn_blocking), and futures in
    /// [`block_on`](warpweft::Runtime::block_on). So crates that need tokio work without a wrapper, and child
    /// tasks inherit the context.
    ///
    /// Tasks of `tokio::spawn` run on this pool's workers, one at a time, for up to a millisecond until other
    /// tasks get their turn. In them [`warpweft::spawn`] and [`warpweft::join`] use the whole pool.
    ///
    /// # Costs
    ///
    /// - A thread, `warpweft-tokio`, which waits for the sockets and timers of tokio, and three descriptors,
    ///   on Linux four.
    ///   It ends soon after the pool; so do tasks of `tokio::spawn` that are left.
    /// - An event of a tokio socket or timer costs a hand-over from that thread to a worker; if a task of
    ///   `tokio::spawn` waits for it, the worker hands back afterwards. Sockets of [`warpweft::net`] cost
    ///   neither.
    /// - `tokio::task::spawn_blocking`, `tokio::fs` and tokio's look-ups of names use threads that tokio
    ///   starts itself: only when needed, at most 512, and for a second after their last closure. Code in
    ///   these is outside of the pool. [`warpweft::spawn_blocking`] and [`warpweft::fs`] need none of them.
    ///
    /// # Limits
    ///
    /// - While a task of `tokio::spawn` computes or waits in direct style, no other one runs, and tokio's
    ///   sockets and timers stand still. So it must not wait in direct style for one of these: it awaits. In
    ///   tasks of [`warpweft::spawn`] both are fine.
    /// - A task of `tokio::spawn` may now and then be polled on the thread `warpweft-tokio`, which is inside
    ///   the pool as a thread in `block_on` is.
    /// - `tokio::task::block_in_place` panics in tasks of `tokio::spawn`, as on every runtime of tokio with
    ///   one thread. In tasks of [`warpweft::spawn`] it just calls its closure; use [`warpweft::blocking`].
    /// - A task of `tokio::spawn` is in tokio's lists, and not in a [dump](warpweft::Runtime::dump). What it
    ///   locks belongs, in a dump, to the task or the thread by which this pool runs tokio's tasks. A task
    ///   that waits for its end waits for something that is not known.
    /// - The context is that of one pool. The pools of [`then`](warpweft::Builder::then) need their own.
    ///
    /// # Errors
    ///
    /// The system starts no thread or has no descriptor.
    ///
    /// ```
    /// use std::time::Duration;
    /// use warpweft_tokio::BuilderExt as _;
    ///
    /// let runtime = warpweft::Runtime::builder().name("web").workers(2).tokio_context()?.build()?;
    /// let sum = runtime.block_on(async {
    ///     // A timer of tokio, in a child task of ours.
    ///     let ours = warpweft::spawn(async { tokio::time::sleep(Duration::from_millis(1)).await });
    ///     // A task of tokio, which forks on the pool's workers.
    ///     let theirs = tokio::spawn(async { warpweft::join(|| 1, || 2) });
    ///     ours.await?;
    ///     let (a, b) = theirs.await?;
    ///     Ok::<_, Box<dyn std::error::Error>>(a + b)
    /// })?;
    /// assert_eq!(sum, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn tokio_context(self) -> io::Result<Self>;

    /// Puts all code of this pool into a context that exists: one that several pools share, or a runtime of
    /// tokio that the program runs beside. Tasks of `tokio::spawn` run there.
    ///
    /// ```
    /// use warpweft_tokio::{BuilderExt as _, TokioContext};
    ///
    /// let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    /// let context = TokioContext::from_handle(tokio.handle().clone());
    /// let runtime = warpweft::Runtime::builder().workers(1).tokio_context_of(context).build()?;
    /// let id = runtime.spawn(async { tokio::runtime::Handle::current().id() }).wait()?;
    /// assert_eq!(id, tokio.handle().id());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    fn tokio_context_of(self, context: TokioContext) -> Self;
}

impl BuilderExt for warpweft::Builder {
    fn tokio_context(self) -> io::Result<Self> {
        let (handle, start) = prepare()?;
        let start = Mutex::new(Some(start));
        Ok(self.thread_context(move |role| {
            let entered = Entered::new(handle.clone());
            // The first worker starts the turns, in its pool.
            if let (ThreadRole::Worker(_), Some(pool)) = (role, Pool::current()) {
                let start = start.lock().take();
                start.into_iter().for_each(|start| start.begin(pool.clone()));
            }
            entered
        }))
    }

    fn tokio_context_of(self, context: TokioContext) -> Self {
        self.thread_context(move |_role| {
            // The clone keeps a runtime of ours until the last thread has left.
            let entered = Entered::new(context.handle().clone());
            (entered, context.clone())
        })
    }
}

/// Makes a runtime of tokio and its thread, which waits until the pool is there.
fn prepare() -> io::Result<(Handle, Start)> {
    let watch = Arc::new(Mutex::new(Watch::default()));
    let (parks, unparks) = (Arc::clone(&watch), Arc::clone(&watch));
    let runtime = small_runtime()
        .on_thread_park(move || parks.lock().before_park())
        .on_thread_unpark(move || unparks.lock().after_park())
        .build()?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        watch.lock().alarm = Some(TickAlarm::of(&runtime)?);
    }
    let scheduler = Arc::new(Scheduler {
        runtime: Some(runtime),
        watch,
    });
    let handle = scheduler.runtime().handle().clone();
    let (want, wanted) = channel::bounded(1);
    let (idle, idles) = channel::bounded(1);
    let (end, ended) = oneshot::channel();
    let (send_pool, pools) = channel::bounded::<Pool>(1);
    let thread = Waiting {
        scheduler: Arc::clone(&scheduler),
        want,
        idles,
        ended,
    };
    std::thread::Builder::new()
        .name(String::from("warpweft-tokio"))
        .spawn(move || {
            // An error: the builder was dropped before it built a pool.
            if let Ok(pool) = pools.recv().wait() {
                pool.block_on(async { thread.run() });
            }
        })?;
    let turns = Turns {
        scheduler,
        wanted,
        idle,
        _end: end,
    };
    Ok((handle, Start { turns, send_pool }))
}

/// What the first worker starts.
struct Start {
    turns: Turns,
    send_pool: channel::Sender<Pool>,
}

impl Start {
    fn begin(self, pool: Pool) {
        // If the pool is closing already, this drops the turns, and so ends the thread.
        warpweft::spawn(self.turns.run()).detach();
        // The thread waits for it.
        drop(self.send_pool.try_send(pool));
    }
}

/// tokio's scheduler, which is carried by one thread at a time.
struct Scheduler {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    watch: Arc<Mutex<Watch>>,
}

impl Scheduler {
    fn runtime(&self) -> &Runtime {
        match &self.runtime {
            Some(runtime) => runtime,
            None => unreachable!("it is taken out when it is dropped, and not before"),
        }
    }

    /// Whether there are tasks of `tokio::spawn`, ready or not.
    fn has_tasks(&self) -> bool {
        self.runtime().metrics().num_alive_tasks() > 0
    }

    /// Carries the scheduler until the round is over.
    fn carry(&self, carrier: Carrier, ended: Option<&mut oneshot::Receiver<()>>) -> Outcome {
        let has_tasks = self.has_tasks();
        self.runtime().block_on(Round {
            watch: &self.watch,
            carrier,
            is_limited: carrier == Carrier::Worker || has_tasks,
            ended,
            looks: 0,
            started: false,
        })
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // What it has of the runtime would keep that for ever: the runtime's hooks have the watch.
        let watch = std::mem::take(&mut *self.watch.lock());
        drop(watch);
        // Remaining tasks are dropped. It does not wait for threads that block.
        self.runtime
            .take()
            .into_iter()
            .for_each(Runtime::shutdown_background);
    }
}

/// The context's thread.
struct Waiting {
    scheduler: Arc<Scheduler>,
    want: channel::Sender<()>,
    idles: channel::Receiver<()>,
    /// Ready when the turns are gone.
    ended: oneshot::Receiver<()>,
}

impl Waiting {
    fn run(mut self) {
        // It sleeps nearly always. Beside workers that compute it would otherwise wait for the end of their
        // slices, and with it each timer of tokio.
        set_slice(SHORTEST_SLICE_NS);
        loop {
            match self.scheduler.carry(Carrier::Thread, Some(&mut self.ended)) {
                Outcome::Ended => return,
                // A task of ours was woken, and there is none of tokio.
                Outcome::Idle if !self.scheduler.has_tasks() => {}
                Outcome::Idle | Outcome::Busy => {
                    // There is room, because the answer to the last one has come. Both fail when the turns
                    // are gone.
                    if self.want.try_send(()).is_err() || self.idles.recv().wait().is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// The task of the pool that runs tokio's tasks.
struct Turns {
    scheduler: Arc<Scheduler>,
    wanted: channel::Receiver<()>,
    idle: channel::Sender<()>,
    /// Its drop ends the thread.
    _end: oneshot::Sender<()>,
}

impl Turns {
    async fn run(self) {
        while self.wanted.recv().await.is_ok() {
            while self.scheduler.carry(Carrier::Worker, None) == Outcome::Busy {
                yield_now().await;
            }
            // There is room: the thread takes each answer before it asks again.
            if self.idle.try_send(()).is_err() {
                return;
            }
        }
    }
}

/// What carries the scheduler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Carrier {
    /// The context's thread, which may sleep in the driver.
    #[default]
    Thread,
    /// A worker, which may not.
    Worker,
}

/// How a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// tokio has nothing to do. On the thread: it had nothing, and then an event came.
    Idle,
    /// The slice of time is over.
    Busy,
    /// The turns are gone.
    Ended,
}

/// What tokio's hooks tell the round that is under way.
#[derive(Default)]
struct Watch {
    carrier: Carrier,
    /// tokio has had nothing to do.
    idle: bool,
    /// Wakes the round, on its own thread.
    waker: Option<Waker>,
    /// The end of the slice. It outlives its turn, and is taken away when the thread sleeps, which it must
    /// not disturb.
    slice: Option<Pin<Box<Sleep>>>,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    alarm: Option<TickAlarm>,
}

impl Watch {
    fn before_park(&mut self) {
        match self.carrier {
            Carrier::Thread => {
                self.slice = None;
                #[cfg(any(target_os = "linux", target_os = "android"))]
                self.alarm.iter_mut().for_each(TickAlarm::before_sleep);
            }
            // tokio then only looks for events, and polls the round next.
            Carrier::Worker => self.note_idle(),
        }
    }

    fn after_park(&mut self) {
        if self.carrier == Carrier::Thread {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            self.alarm.iter_mut().for_each(TickAlarm::after_sleep);
            // tokio polls the round next, before any of its tasks.
            self.note_idle();
        }
    }

    fn note_idle(&mut self) {
        self.idle = true;
        self.waker.iter().for_each(Waker::wake_by_ref);
    }
}

/// The future under which tokio runs its tasks. It ends the round.
struct Round<'a> {
    watch: &'a Mutex<Watch>,
    carrier: Carrier,
    /// Whether the slice of time bounds it. It need not where tokio has no task that could go on for ever.
    is_limited: bool,
    ended: Option<&'a mut oneshot::Receiver<()>>,
    looks: u8,
    started: bool,
}

impl Future for Round<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        if let Some(ended) = self.ended.as_deref_mut()
            && Pin::new(ended).poll(cx).is_ready()
        {
            return Poll::Ready(Outcome::Ended);
        }
        let mut watch = self.watch.lock();
        if !self.started {
            self.started = true;
            watch.carrier = self.carrier;
            watch.idle = false;
            watch.waker = Some(cx.waker().clone());
        }
        if std::mem::take(&mut watch.idle) {
            self.looks += 1;
            // An event may have come with the last look: so there is a second one, which mostly finds none.
            if self.carrier == Carrier::Thread || self.looks == LOOKS {
                return Poll::Ready(Outcome::Idle);
            }
        }
        if watch.slice.is_none() && self.is_limited {
            watch.slice = Some(Box::pin(sleep(SLICE)));
        }
        let Some(slice) = &mut watch.slice else {
            return Poll::Pending;
        };
        ready!(slice.as_mut().poll(cx));
        watch.slice = None;
        Poll::Ready(Outcome::Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::prepare;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use warpweft_platform::thread::pause;

    /// The hooks of the runtime have the watch, and the watch has what belongs to the runtime.
    #[test]
    fn nothing_of_a_context_that_has_ended_is_left() {
        let (handle, start) = prepare().expect("a thread and descriptors");
        let watch = Arc::downgrade(&start.turns.scheduler.watch);
        drop((handle, start));
        // Its thread ends by itself.
        let begin = Instant::now();
        while watch.strong_count() > 0 {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "the watch is still there"
            );
            pause(1_000_000);
        }
    }
}
