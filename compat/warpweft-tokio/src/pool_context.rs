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
//! The worker's turns are those of a task of the pool, which is there while tokio has tasks. So a pool is not
//! drained before these have ended, and an idle one has no task for this context.
//!
//! # Invariants
//!
//! - Either the thread or the turns' task has the scheduler. It changes hands by a message each way, the
//!   first time by the spawn of that task.
//! - Every turn ends: when tokio has nothing to do, or when its slice of time is over. tokio says that it has
//!   nothing to do by its hook before it parks.
//! - No timer is registered between a turn and the sleep of the thread. To register one that is earlier than
//!   all others makes tokio's next sleep end at once; so the slice of a turn is kept until the thread sleeps.
//! - tokio's last act in a turn is a look for events. What becomes ready by it runs in the next turn, or on
//!   the context's thread, which has entered the pool: also there `warpweft::spawn` leads to the pool.
//! - If the pool has closed, which ends the turns' task, the thread runs tokio's tasks itself until the last
//!   thread of the pool [has left](crate::context_end).

use crate::context::{Entered, TokioContext, small_runtime};
use crate::context_end::{ContextEnd, ContextUser, Phase};
use crate::round::{Carrier, Outcome, Round, Watch};
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::tick_alarm::TickAlarm;
use std::io;
use std::sync::Arc;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use warpweft::sync::channel;
use warpweft::{Pool, ThreadRole, yield_now};
use warpweft_platform::sync::Mutex;
use warpweft_platform::thread::{SHORTEST_SLICE_NS, set_slice};

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
    /// - An event of a tokio socket or timer costs a hand-over from that thread to a worker; if a task of
    ///   `tokio::spawn` waits for it, the worker hands back afterwards. Sockets of [`warpweft::net`] cost
    ///   neither.
    /// - `tokio::task::spawn_blocking`, `tokio::fs` and tokio's look-ups of names use threads that tokio
    ///   starts itself: only when needed, at most 512, and for a second after their last closure. Code in
    ///   these is outside of the pool. [`warpweft::spawn_blocking`] and [`warpweft::fs`] need none of them.
    ///
    /// # The end
    ///
    /// When the pool's threads have left, tasks of `tokio::spawn` that are left are dropped. Closures of
    /// `tokio::task::spawn_blocking` that run are waited for, and so are writes of `tokio::fs`; closures that
    /// have not begun are dropped. The drop of the runtime waits for all that, as that of tokio's runtime
    /// does. [`shutdown_timeout`](warpweft::Runtime::shutdown_timeout) waits until its limit, and what runs
    /// then runs on. [`shutdown_gracefully`](warpweft::Runtime::shutdown_gracefully) drains tasks of
    /// `tokio::spawn`, too.
    ///
    /// Do not drop the runtime in a closure of `tokio::task::spawn_blocking`: it would wait for itself.
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
        let Prepared {
            handle,
            send_pool,
            end,
            ..
        } = prepare()?;
        let start = Mutex::new(Some(send_pool));
        Ok(self.thread_context(move |role| {
            let entered = Entered::new(handle.clone());
            // A thread in `block_on` has the pool open.
            let pool = Pool::current().filter(|_| role != ThreadRole::BlockOn);
            let user = pool.map(|pool| {
                // The first one shows the context's thread its pool.
                let first = start.lock().take();
                // That thread waits for it.
                if let Some(send_pool) = first {
                    drop(send_pool.try_send(pool.clone()));
                }
                ContextUser::new(&end, pool)
            });
            // In this order: the last one to leave waits, outside of the context.
            (entered, user)
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

/// A context that has no pool yet. Its thread ends if it gets none.
struct Prepared {
    handle: Handle,
    send_pool: channel::Sender<Pool>,
    end: Arc<ContextEnd>,
    #[cfg(test)]
    watch: std::sync::Weak<Mutex<Watch>>,
}

/// Makes a runtime of tokio and its thread, which waits until the pool is there.
fn prepare() -> io::Result<Prepared> {
    let watch = Arc::new(Mutex::new(Watch::default()));
    let (parks, unparks) = (Arc::clone(&watch), Arc::clone(&watch));
    let runtime = small_runtime()
        .on_thread_park(move || parks.lock().before_park())
        .on_thread_unpark(move || unparks.lock().after_park())
        .build()?;
    {
        let mut watch = watch.lock();
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            watch.alarm = Some(TickAlarm::of(&runtime)?);
        }
        // From here on the runtime keeps itself, until it is dropped with the scheduler.
        watch.metrics = Some(runtime.metrics());
    }
    let handle = runtime.handle().clone();
    #[cfg(test)]
    let weak = Arc::downgrade(&watch);
    let scheduler = Arc::new(Scheduler {
        runtime: Some(runtime),
        watch,
    });
    let (end, ended) = ContextEnd::new();
    let ends = Arc::clone(&end);
    let (send_pool, pools) = channel::bounded::<Pool>(1);
    let thread = Waiting {
        scheduler,
        turns: None,
        ended,
    };
    std::thread::Builder::new()
        .name(String::from("warpweft-tokio"))
        .spawn(move || {
            // An error: the builder was dropped before it built a pool.
            if let Ok(pool) = pools.recv().wait() {
                pool.block_on(async { thread.run(&pool, &ends) });
            }
            ends.note(Phase::Ended);
        })?;
    Ok(Prepared {
        handle,
        send_pool,
        end,
        #[cfg(test)]
        watch: weak,
    })
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
        let round = Round::new(&self.watch, carrier, has_tasks, ended);
        self.runtime().block_on(round)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // What it has of the runtime would keep that for ever: the runtime's hooks have the watch.
        let watch = std::mem::take(&mut *self.watch.lock());
        drop(watch);
        // Remaining tasks are dropped. It waits for closures that block, and for writes to files.
        drop(self.runtime.take());
    }
}

/// The context's thread.
struct Waiting {
    scheduler: Arc<Scheduler>,
    turns: Option<TurnsLink>,
    /// Ready when the pool's last thread has left.
    ended: oneshot::Receiver<()>,
}

/// The thread's ends of the messages to the turns' task and from it. The task ends with them.
struct TurnsLink {
    want: channel::Sender<()>,
    /// Each answer says whether the task stays.
    idles: channel::Receiver<bool>,
}

impl Waiting {
    fn run(mut self, pool: &Pool, end: &ContextEnd) {
        // It sleeps nearly always. Beside workers that compute it would otherwise wait for the end of their
        // slices, and with it each timer of tokio.
        set_slice(SHORTEST_SLICE_NS);
        while self.scheduler.carry(Carrier::Thread, Some(&mut self.ended)) != Outcome::Ended {
            if self.scheduler.has_tasks() {
                self.turn(pool);
            } else {
                // A task of ours was woken, or the last one of tokio has ended.
                self.turns = None;
            }
        }
        end.note(Phase::Ends);
    }

    /// Lets a worker run tokio's tasks, and waits for it. Does nothing if the pool has closed.
    fn turn(&mut self, pool: &Pool) {
        let turns = match self.turns.take() {
            Some(turns) => {
                // There is room, because the answer to the last one has come. It fails with the pool.
                let _ = turns.want.try_send(());
                turns
            }
            None if pool.is_closed() => return,
            None => Turns::start(&self.scheduler, pool),
        };
        // An error: the pool has closed.
        if turns.idles.recv().wait() == Ok(true) {
            self.turns = Some(turns);
        }
    }
}

/// The task of the pool that runs tokio's tasks, while there are any.
struct Turns {
    scheduler: Arc<Scheduler>,
    wanted: channel::Receiver<()>,
    idle: channel::Sender<bool>,
}

impl Turns {
    /// Spawns the task, which begins with a turn.
    fn start(scheduler: &Arc<Scheduler>, pool: &Pool) -> TurnsLink {
        let (want, wanted) = channel::bounded(1);
        let (idle, idles) = channel::bounded(1);
        let turns = Self {
            scheduler: Arc::clone(scheduler),
            wanted,
            idle,
        };
        // If the pool is closing already, this drops the turns.
        pool.spawn(turns.run()).detach();
        TurnsLink { want, idles }
    }

    async fn run(self) {
        loop {
            while self.scheduler.carry(Carrier::Worker, None) == Outcome::Busy {
                yield_now().await;
            }
            let stays = self.scheduler.has_tasks();
            // There is room: the thread takes each answer before it asks again.
            if self.idle.try_send(stays).is_err() || !stays || self.wanted.recv().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::prepare;
    use std::time::{Duration, Instant};
    use warpweft_platform::thread::pause;

    /// The hooks of the runtime have the watch, and the watch has what belongs to the runtime.
    #[test]
    fn nothing_of_a_context_that_has_ended_is_left() {
        let prepared = prepare().expect("a thread and descriptors");
        let watch = std::sync::Weak::clone(&prepared.watch);
        drop(prepared);
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
