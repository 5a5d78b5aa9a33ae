//! A round: the future under which a thread carries tokio's scheduler until that has nothing to do, or until
//! the slice of time is over. See [`pool_context`](crate::pool_context).

#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::tick_alarm::TickAlarm;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::runtime::RuntimeMetrics;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};
use warpweft_platform::sync::Mutex;

/// How long tokio's tasks have a worker until others get it in between.
const SLICE: Duration = Duration::from_millis(1);
/// How often a turn looks for events before it ends, if none makes a task ready.
const LOOKS: u8 = 2;

/// What carries the scheduler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// The context's thread, which may sleep in the driver.
    #[default]
    Thread,
    /// A worker, which may not.
    Worker,
}

/// How a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// tokio has nothing to do. On the thread: an event came, or tokio has its first task, or has none any
    /// more.
    Idle,
    /// The slice of time is over.
    Busy,
    /// The pool's threads have left.
    Ended,
}

/// What tokio's hooks tell the round that is under way.
#[derive(Default)]
pub(crate) struct Watch {
    carrier: Carrier,
    /// tokio has had nothing to do.
    idle: bool,
    /// Wakes the round, on its own thread.
    waker: Option<Waker>,
    /// There were tasks of tokio when the round began.
    had_tasks: bool,
    /// Says whether there are.
    pub(crate) metrics: Option<RuntimeMetrics>,
    /// The end of the slice. It outlives its turn, and is taken away when the thread sleeps, which it must
    /// not disturb.
    slice: Option<Pin<Box<Sleep>>>,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) alarm: Option<TickAlarm>,
}

impl Watch {
    pub(crate) fn before_park(&mut self) {
        match self.carrier {
            // The thread runs a task itself now and then. If it was the first one or the last one, the turns'
            // task is to begin or to end.
            Carrier::Thread if self.has_tasks() != self.had_tasks => self.note_idle(),
            Carrier::Thread => {
                self.slice = None;
                #[cfg(any(target_os = "linux", target_os = "android"))]
                self.alarm.iter_mut().for_each(TickAlarm::before_sleep);
            }
            // tokio then only looks for events, and polls the round next.
            Carrier::Worker => self.note_idle(),
        }
    }

    pub(crate) fn after_park(&mut self) {
        if self.carrier == Carrier::Thread {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            self.alarm.iter_mut().for_each(TickAlarm::after_sleep);
            // tokio polls the round next, before any of its tasks.
            self.note_idle();
        }
    }

    fn has_tasks(&self) -> bool {
        let alive = |metrics: &RuntimeMetrics| metrics.num_alive_tasks() > 0;
        self.metrics.as_ref().is_some_and(alive)
    }

    fn note_idle(&mut self) {
        self.idle = true;
        self.waker.iter().for_each(Waker::wake_by_ref);
    }
}

/// The future under which tokio runs its tasks. It ends the round.
pub(crate) struct Round<'a> {
    watch: &'a Mutex<Watch>,
    carrier: Carrier,
    /// Whether the slice of time bounds it. It need not where tokio has no task that could go on for ever.
    is_limited: bool,
    ended: Option<&'a mut oneshot::Receiver<()>>,
    looks: u8,
    started: bool,
}

impl<'a> Round<'a> {
    /// A round of that carrier, while tokio has tasks or has none.
    pub(crate) fn new(
        watch: &'a Mutex<Watch>,
        carrier: Carrier,
        has_tasks: bool,
        ended: Option<&'a mut oneshot::Receiver<()>>,
    ) -> Self {
        Self {
            watch,
            carrier,
            is_limited: carrier == Carrier::Worker || has_tasks,
            ended,
            looks: 0,
            started: false,
        }
    }
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
            watch.had_tasks = watch.has_tasks();
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
