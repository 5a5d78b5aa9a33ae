//! `scope`: closures that borrow from the frame that waits for them.
//!
//! # Invariants
//!
//! - Each closure of a scope has ended, or was dropped, before the function that opened the scope returns. So
//!   closures and scopes are used for no longer than `'scope`, although their types do not say so.

use crate::broadcast::BroadcastContext;
use crate::fifo::{Fifos, QueueIndex};
use crate::global::with_target;
use crate::registry::{Target, abort};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use warpweft::sync::oneshot;
use warpweft::{ForkCx, Pool, TaskBuilder};

/// Calls `op` with a scope, and returns when it and all closures that were spawned in the scope have ended.
/// On a thread of no pool all run in the global pool.
///
/// # Panics
///
/// If one of them panics, when all have ended.
///
/// ```
/// let mut squares = [0; 8];
/// rayon_core::scope(|scope| {
///     for (n, square) in squares.iter_mut().enumerate() {
///         scope.spawn(move |_| *square = n * n);
///     }
/// });
/// assert_eq!(squares, [0, 1, 4, 9, 16, 25, 36, 49]);
/// ```
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    ForkCx::with(|cx| match cx {
        Some(cx) => on_stack(cx, op),
        None => with_target(|target| target.install(|cx| on_stack(cx, op))),
    })
}

/// As [`scope`], but the closures that one thread spawns run oldest first.
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    scope(|scope| op(&ScopeFifo::new(scope)))
}

/// As [`scope`], but `op` runs on the calling thread, whatever that is.
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    with_target(|target| in_place(&target, op))
}

/// As [`in_place_scope`], but the closures that one thread spawns run oldest first.
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    in_place_scope(|scope| op(&ScopeFifo::new(scope)))
}

fn on_stack<'scope, R>(cx: ForkCx<'_>, op: impl FnOnce(&Scope<'scope>) -> R) -> R {
    cx.scope(|scope| op(&Scope::on_stack(scope)))
}

/// Opens a scope of that pool on the calling thread.
pub(crate) fn in_place<'scope, R>(target: &Target<'_>, op: impl FnOnce(&Scope<'scope>) -> R) -> R {
    if target.pool.is_here() {
        return ForkCx::with(|cx| match cx {
            Some(cx) => on_stack(cx, op),
            None => unreachable!("the thread belongs to a pool"),
        });
    }
    let (ended, all) = oneshot::channel();
    let jobs = Arc::new(Jobs {
        pool: target.pool.clone(),
        running: AtomicUsize::new(1),
        ended: Mutex::new(Some(ended)),
        panic: Mutex::new(None),
    });
    let scope = Scope {
        place: Place::InPlace(Arc::clone(&jobs)),
        scope: PhantomData,
    };
    // Unwind: the panic continues when all jobs have ended.
    let outcome = catch_unwind(AssertUnwindSafe(|| op(&scope)));
    jobs.end_one();
    wait_for_all(all);
    let panic = lock(&jobs.panic).take();
    match (outcome, panic) {
        (Err(panic), _) | (Ok(_), Some(panic)) => resume_unwind(panic),
        (Ok(value), None) => value,
    }
}

/// Waits until the last job has ended: the jobs borrow from this frame. A token of cancellation that counts
/// here does not end the wait. If anything else unwinds it, the process ends.
fn wait_for_all(all: oneshot::Receiver<()>) {
    struct Stays;
    impl Drop for Stays {
        fn drop(&mut self) {
            abort("the frame of a scope was left while closures that borrow from it run");
        }
    }
    let stays = Stays;
    let ended = warpweft::cancel::detached(|| all.wait());
    std::mem::forget(stays);
    if ended.is_err() {
        unreachable!("the last job says that all have ended");
    }
}

type OnStack<'scope> = warpweft::Scope<'scope, 'scope>;

/// Spawns closures that may borrow whatever outlives the scope.
pub struct Scope<'scope> {
    place: Place<'scope>,
    /// Invariant, as the original.
    scope: Marker<'scope>,
}

type Marker<'scope> = PhantomData<Box<dyn FnOnce(&Scope<'scope>) + Send + Sync + 'scope>>;

#[derive(Clone)]
enum Place<'scope> {
    /// On a stack of a pool, which runs the jobs that nobody has taken.
    OnStack(&'scope OnStack<'scope>),
    /// On any thread: all jobs are in the pool.
    InPlace(Arc<Jobs>),
}

/// The jobs of a scope on a thread that does not belong to their pool.
struct Jobs {
    pool: Pool,
    /// The jobs that have not ended, and one for the frame until its body has.
    running: AtomicUsize,
    ended: Mutex<Option<oneshot::Sender<()>>>,
    /// The first panic of a job.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Jobs {
    fn end_one(&self) {
        // Ordering: AcqRel: the frame sees what all jobs have done.
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(ended) = lock(&self.ended).take()
        {
            // The frame waits for it.
            let _ = ended.send(());
        }
    }
}

/// A job of such a scope. It counts as ended when it has run or is dropped. The order of the fields drops
/// what the job borrows before that.
struct Job<F> {
    body: F,
    counted: Counted,
}

/// One job that the frame waits for, until this is dropped; and whether it has run.
struct Counted {
    jobs: Arc<Jobs>,
    has_run: bool,
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.has_run {
            let why = "a closure of a scope did not run: its pool has closed, or a token was cancelled";
            lock(&self.jobs.panic).get_or_insert_with(|| Box::new(why));
        }
        self.jobs.end_one();
    }
}

/// The right to one closure of a queue: if it is dropped, so is the closure.
struct FifoClaim<'scope> {
    fifos: Option<Arc<Fifos<'scope>>>,
    place: QueueIndex,
}

impl FifoClaim<'_> {
    fn run(mut self) {
        if let Some(fifos) = self.fifos.take() {
            fifos.run_oldest(self.place);
        }
    }
}

impl Drop for FifoClaim<'_> {
    fn drop(&mut self) {
        if let Some(fifos) = self.fifos.take() {
            fifos.drop_oldest(self.place);
        }
    }
}

impl<F: FnOnce() + Send> Job<F> {
    /// Makes a job that a pool may have.
    fn boxed<'scope>(jobs: &Arc<Jobs>, body: F) -> Box<dyn FnOnce() + Send>
    where
        F: 'scope,
    {
        // Ordering: Relaxed: the scope is open, because a job or its frame spawns this one.
        jobs.running.fetch_add(1, Ordering::Relaxed);
        let counted = Counted {
            jobs: Arc::clone(jobs),
            has_run: false,
        };
        let job = Self { body, counted };
        let job: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || job.run());
        // SAFETY: only the lifetime changes. The frame of the scope waits until `counted` is dropped, and
        // what is borrowed is dropped before that.
        unsafe { mem::transmute::<Box<dyn FnOnce() + Send + 'scope>, Box<dyn FnOnce() + Send>>(job) }
    }

    fn run(self) {
        let Self { body, mut counted } = self;
        counted.has_run = true;
        // Unwind: the panic continues in the scope's frame.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
            lock(&counted.jobs.panic).get_or_insert(panic);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'scope> Scope<'scope> {
    fn new(place: Place<'scope>) -> Self {
        Self {
            place,
            scope: PhantomData,
        }
    }

    fn on_stack(scope: &warpweft::Scope<'_, '_>) -> Self {
        // SAFETY: only the lifetimes change. See the module's invariants: the scope is used while its
        // closures run, and they have ended before it does.
        let scope = unsafe { &*ptr::from_ref(scope).cast::<OnStack<'scope>>() };
        Self::new(Place::OnStack(scope))
    }

    /// Spawns a closure. It runs before the scope ends: on this thread, the newest first, or on another one,
    /// the oldest first.
    pub fn spawn<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        match &self.place {
            Place::OnStack(scope) => scope.spawn(move |scope| body(&Self::on_stack(scope))),
            Place::InPlace(jobs) => {
                let inner = Self::new(self.place.clone());
                let job = Job::boxed(jobs, move || body(&inner));
                TaskBuilder::new().on_pool(&jobs.pool).spawn_detached(job);
            }
        }
    }

    /// Spawns a closure that runs once on each thread of the scope's pool, before the scope ends.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let body = Arc::new(body);
        self.spawn_on_each(move |inner, context| body(inner, context));
    }

    fn spawn_on_each<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Clone + Send + 'scope,
    {
        match &self.place {
            Place::OnStack(scope) => {
                let threads = scope.pool().workers();
                for index in 0..threads {
                    let body = body.clone();
                    scope.spawn_pinned(index, move |scope| {
                        body(&Self::on_stack(scope), BroadcastContext::new(index, threads));
                    });
                }
            }
            Place::InPlace(jobs) => {
                let threads = jobs.pool.workers();
                for index in 0..threads {
                    let (inner, body) = (Self::new(self.place.clone()), body.clone());
                    let job = Job::boxed(jobs, move || {
                        body(&inner, BroadcastContext::new(index, threads));
                    });
                    TaskBuilder::new()
                        .on_pool(&jobs.pool)
                        .spawn_pinned(index, job)
                        .detach();
                }
            }
        }
    }

    /// The number of threads of the scope's pool.
    fn threads(&self) -> usize {
        match &self.place {
            Place::OnStack(scope) => scope.pool().worker_slots(),
            Place::InPlace(jobs) => jobs.pool.worker_slots(),
        }
    }

    /// Returns true on a thread of the scope's pool.
    fn is_here(&self) -> bool {
        match &self.place {
            Place::OnStack(scope) => scope.pool().is_here(),
            Place::InPlace(jobs) => jobs.pool.is_here(),
        }
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

/// A scope in which the closures that one thread spawns run oldest first.
pub struct ScopeFifo<'scope> {
    scope: Scope<'scope>,
    fifos: Arc<Fifos<'scope>>,
}

impl<'scope> ScopeFifo<'scope> {
    pub(crate) fn new(scope: &Scope<'scope>) -> Self {
        Self {
            fifos: Arc::new(Fifos::new(scope.threads())),
            scope: Scope::new(scope.place.clone()),
        }
    }

    fn inner(&self, scope: &Scope<'scope>) -> Self {
        Self {
            scope: Scope::new(scope.place.clone()),
            fifos: Arc::clone(&self.fifos),
        }
    }

    /// Spawns a closure: the oldest one of this thread runs first.
    pub fn spawn_fifo<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        let inner = self.inner(&self.scope);
        let thread = Pool::current_worker().filter(|_| self.scope.is_here());
        let place = self.fifos.push(thread, Box::new(move || body(&inner)));
        let claim = FifoClaim {
            fifos: Some(Arc::clone(&self.fifos)),
            place,
        };
        self.scope.spawn(move |_| claim.run());
    }

    /// As [`Scope::spawn_broadcast`].
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&ScopeFifo<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let (inner, body) = (self.inner(&self.scope), Arc::new(body));
        let inner = Arc::new(inner);
        self.scope.spawn_on_each(move |_, context| body(&inner, context));
    }
}

impl fmt::Debug for ScopeFifo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeFifo").finish_non_exhaustive()
    }
}
