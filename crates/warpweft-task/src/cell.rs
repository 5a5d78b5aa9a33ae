//! The memory of a task: a header, and behind it the work that becomes the result.

use crate::header::{Header, JoinerSlot, Step, TaskVtable, UNREGISTERED, joiner_waker};
use crate::on_stack::OnStackJob;
use crate::origin::Origin;
use crate::outcome;
use crate::pool::PoolHeader;
use crate::reclamation::{are_tasks_held, leave_task};
use crate::runnable;
use crate::state::{Completed, End, State};
use crate::task_panic::{TaskKind, TaskPanic};
use crate::waker;
use crate::{JoinError, kinds::Work};
use std::any::Any;
use std::borrow::Cow;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::NonNull;
use std::task::{Poll, Waker};
use warpweft_platform::cell::UnsafeCell;

/// The origin of a new task, and the pool that it belongs to.
#[derive(Debug)]
pub struct SpawnInfo {
    /// The pool that its wakers push it to.
    pub pool: NonNull<PoolHeader>,
    /// The spawn site.
    pub location: &'static Location<'static>,
    /// A name, for [`TaskInfo`](crate::TaskInfo) and for reports of what runs. It costs one more allocation.
    pub name: Option<Cow<'static, str>>,
}

/// Gives the origin of a new task. It is called after the task's memory is allocated, so nothing that it
/// looks up must be kept over the allocation.
pub trait TaskAlloc {
    /// Returns the origin of the task.
    fn info(self) -> SpawnInfo;

    /// Returns the task's name, and its spawn site.
    fn site(&self) -> (Option<&str>, &'static Location<'static>);
}

impl TaskAlloc for SpawnInfo {
    #[inline]
    fn info(self) -> SpawnInfo {
        self
    }

    fn site(&self) -> (Option<&str>, &'static Location<'static>) {
        (self.name.as_deref(), self.location)
    }
}

/// A task of one kind, with a place for a joiner's waker or without. It is `repr(C)`, so a pointer to the
/// header is a pointer to the cell, and the waker is where [`joiner_waker`] looks for it.
#[repr(C)]
struct Cell<W: Work, J: JoinerSlot> {
    header: Header,
    waker: J,
    stage: UnsafeCell<Stage<W>>,
}

/// The work until it has ended, its result afterwards. The state word and `link` decide which.
union Stage<W: Work> {
    work: ManuallyDrop<W>,
    result: ManuallyDrop<W::Output>,
}

/// Allocates a fresh task. The caller owns its runnable, and its handle if it has one.
pub(crate) fn allocate<W: Work, J: JoinerSlot>(work: W, info: impl TaskAlloc) -> NonNull<Header> {
    let cell = Box::new_uninit();
    let SpawnInfo { pool, location, name } = info.info();
    let cell = Box::write(
        cell,
        Cell {
            header: Header {
                state: State::new(J::HAS_HANDLE),
                vtable: const {
                    &TaskVtable {
                        step: if W::ON_STACK { job::<W, J> } else { step::<W, J> },
                        abandon: abandon::<W, J>,
                        take: take::<W, J>,
                        drop_result: drop_result::<W, J>,
                        free: free::<W, J>,
                    }
                },
                pool: UnsafeCell::new(pool),
                policy: UnsafeCell::new(0),
                origin: Origin::new(location, name, W::KIND),
                link: UnsafeCell::new(UNREGISTERED),
            },
            waker: J::vacant(),
            stage: UnsafeCell::new(Stage {
                work: ManuallyDrop::new(work),
            }),
        },
    );
    NonNull::from(Box::leak(cell)).cast()
}

/// # Safety
///
/// `header` is the front of a live `Cell<W, J>`.
unsafe fn stage<'a, W: Work, J: JoinerSlot>(header: NonNull<Header>) -> &'a UnsafeCell<Stage<W>> {
    let cell = header.cast::<Cell<W, J>>();
    // SAFETY: by contract the cell is alive; only the field's address is taken, through a shared reference to
    // it.
    unsafe { &(*cell.as_ptr()).stage }
}

/// Contract: as [`TaskVtable::step`].
unsafe fn step<W: Work, J: JoinerSlot>(header: NonNull<Header>) -> Step {
    // SAFETY: the runnable keeps the cell alive.
    let stage = unsafe { stage::<W, J>(header) };
    let outcome = stage.with_mut(|stage| {
        // SAFETY: only the holder of the runnable touches the work, which is there until its last step. The
        // allocation never moves, so it is pinned.
        unsafe { run(stage.cast::<W>(), header) }
    });
    let outcome = match outcome {
        Poll::Pending => return Step::Pending,
        Poll::Ready(Ok(result)) => {
            let result = Stage {
                result: ManuallyDrop::new(result),
            };
            stage.with_mut(|stage| {
                // SAFETY: the last step left the place empty. It belongs to the holder of the runnable and is
                // valid for a write.
                unsafe { stage.write(result) };
            });
            outcome::RETURNED
        }
        // SAFETY: the runnable is ours, and the work is gone.
        Poll::Ready(Err(payload)) => unsafe { panicked(header, W::KIND, payload) },
    };
    // SAFETY: the caller passed its runnable on. The work is gone, and the result is in its place, or the
    // outcome says why not.
    unsafe { finish::<W, J>(header, outcome) };
    Step::Ended
}

/// The loop calls this instead of [`step`] where the work runs on another stack.
/// Contract: as [`TaskVtable::step`].
unsafe fn job<W: Work, J: JoinerSlot>(header: NonNull<Header>) -> Step {
    // SAFETY: the runnable keeps the cell alive.
    let stage = unsafe { stage::<W, J>(header) };
    let work = stage.with_mut(<*mut Stage<W>>::cast::<W>);
    // SAFETY: the caller passed its runnable on, and the step is of the task's kind.
    let on_stack_job = unsafe { OnStackJob::new(header, step::<W, J>) };
    // SAFETY: the work is there until its one step, and only the holder of the runnable uses it.
    unsafe { W::job(work, on_stack_job) };
    Step::Ended
}

/// Runs one step; after the last one the work is gone. A panic becomes the result, also if it comes from the
/// work's `Drop`.
/// Contract: as [`Work::step`]; and if the outcome is `Ready`, `work` is not used again.
unsafe fn run<W: Work>(
    work: *mut W,
    header: NonNull<Header>,
) -> Poll<Result<W::Output, Box<dyn Any + Send>>> {
    // Unwind: what the work did not consume stays in its place, and is dropped below.
    let outcome = match catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by contract the work is in its place, and no other thread touches it.
        unsafe { W::step(work, header) }
    })) {
        Ok(Poll::Pending) => return Poll::Pending,
        Ok(Poll::Ready(result)) => Ok(result),
        Err(payload) => Err(payload),
    };
    if W::CONSUMED {
        return Poll::Ready(outcome);
    }
    // Unwind: the work counts as dropped, whatever its `Drop` does; it is not dropped again.
    let dropped = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the last step left the work in its place, and by contract no thread touches it afterwards.
        unsafe { work.drop_in_place() };
    }));
    Poll::Ready(match (outcome, dropped) {
        (Ok(result), Err(payload)) => {
            contain(|| drop(result));
            Err(payload)
        }
        (Err(first), Err(second)) => {
            // SAFETY: the runnable is the caller's.
            unsafe { panicked_in_drop(header, W::KIND, second) };
            Err(first)
        }
        (outcome, Ok(())) => outcome,
    })
}

/// Calls `f`, which drops or wakes something of the user's. A panic ends here; the panic hook has reported
/// it.
fn contain(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        drop_payload(payload);
    }
}

fn drop_payload(payload: Box<dyn Any + Send>) {
    // Unwind: the payload of a panic may panic in its own `Drop`. The payload of that second panic is leaked.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(payload);
    }
}

/// Returns the outcome of a task that was unwound with `payload`, and reports it to its pool if that was a
/// panic.
///
/// # Safety
///
/// The caller holds the runnable of the task, which is alive.
#[cold]
#[inline(never)]
unsafe fn panicked(header: NonNull<Header>, kind: TaskKind, payload: Box<dyn Any + Send>) -> usize {
    if let Some(outcome) = outcome::unwound(&*payload) {
        return outcome;
    }
    // SAFETY: by contract the caller holds the runnable, which keeps the task alive.
    let task = unsafe { header.as_ref() };
    let origin = &task.origin;
    let mut panic = TaskPanic::new(kind, origin.owned_name(), Some(origin.location()), payload);
    // SAFETY: by contract the caller holds the runnable, which keeps the task alive.
    let told = unsafe { tell(task, &panic) };
    panic.set_told(told);
    outcome::panicked(panic)
}

/// Reports a panic to the task's pool. Returns true if it was reported.
///
/// # Safety
///
/// The caller holds the runnable of the task.
unsafe fn tell(task: &Header, panic: &TaskPanic) -> bool {
    let pool = task.pool.with(|pool| {
        // SAFETY: only the holder of the runnable changes the field.
        unsafe { *pool }
    });
    // SAFETY: a pool outlives its unfinished tasks, and this one has not ended.
    let vtable = unsafe { pool.as_ref() }.vtable();
    // SAFETY: the pool is of this table, and alive as above.
    unsafe { (vtable.panicked)(pool, panic) }
}

/// Reports a panic of the work's `Drop`, which is not the outcome of the task, to the task's pool.
/// Contract: as for [`panicked`].
#[cold]
#[inline(never)]
unsafe fn panicked_in_drop(header: NonNull<Header>, kind: TaskKind, payload: Box<dyn Any + Send>) {
    if outcome::unwound(&*payload).is_none() {
        // SAFETY: by contract the caller holds the runnable, which keeps the task alive.
        let task = unsafe { header.as_ref() };
        let origin = &task.origin;
        let panic = TaskPanic::new(kind, origin.owned_name(), Some(origin.location()), payload);
        // SAFETY: by contract the caller holds the runnable, which keeps the task alive.
        if !unsafe { tell(task, &panic) } {
            contain(|| panic.write_unless_told());
        }
        drop_payload(panic.into_payload());
    }
}

/// Contract: as [`TaskVtable::abandon`].
unsafe fn abandon<W: Work, J: JoinerSlot>(header: NonNull<Header>, outcome: usize) {
    // SAFETY: the runnable keeps the cell alive.
    let stage = unsafe { stage::<W, J>(header) };
    let work = stage.with_mut(<*mut Stage<W>>::cast::<W>);
    // Unwind: the task ends in any case.
    let dropped = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: an unfinished task has its work in place. Only the holder of the runnable touches it, and
        // no thread does afterwards.
        unsafe { work.drop_in_place() };
    }));
    if let Err(payload) = dropped {
        // SAFETY: the runnable is ours.
        unsafe { panicked_in_drop(header, W::KIND, payload) };
    }
    // SAFETY: the caller passed its runnable on, and the work is gone.
    unsafe { finish::<W, J>(header, outcome) };
}

/// Contract: as [`TaskVtable::take`].
unsafe fn take<W: Work, J: JoinerSlot>(header: NonNull<Header>, to: *mut ()) {
    // SAFETY: the handle's reference keeps the cell alive.
    let outcome = unsafe { header.as_ref() }.link.with(|link| {
        // SAFETY: after the end the link belongs to the handle.
        unsafe { *link }
    });
    // SAFETY: the handle takes the result, and so the outcome, once.
    let outcome = match unsafe { outcome::into_error(outcome) } {
        Some(error) => Err(error),
        None => {
            // SAFETY: the handle's reference keeps the cell alive.
            let stage = unsafe { stage::<W, J>(header) };
            // SAFETY: the outcome says that the result is there, and by contract it was not taken before.
            Ok(stage.with(|stage| unsafe { stage.cast::<W::Output>().read() }))
        }
    };
    let to = to.cast::<Result<W::Output, JoinError>>();
    // SAFETY: by contract `to` is valid for a write of this type.
    unsafe { to.write(outcome) };
}

/// Contract: as [`TaskVtable::drop_result`].
unsafe fn drop_result<W: Work, J: JoinerSlot>(header: NonNull<Header>) {
    let mut outcome = MaybeUninit::<Result<W::Output, JoinError>>::uninit();
    // SAFETY: the caller owns the result, and the place is valid for a write.
    unsafe { take::<W, J>(header, outcome.as_mut_ptr().cast()) };
    // SAFETY: `take` has written it.
    let outcome = unsafe { outcome.assume_init() };
    match outcome {
        Ok(result) => contain(|| drop(result)),
        Err(error) => drop_error(error),
    }
}

/// Drops the error of a task that no joiner gets. A panic that was not reported is written to the standard
/// error.
#[cold]
#[inline(never)]
fn drop_error(error: JoinError) {
    if let JoinError::Panicked(panic) = error {
        contain(|| panic.write_unless_told());
        drop_payload(panic.into_payload());
    }
}

/// Contract: as [`TaskVtable::free`].
unsafe fn free<W: Work, J: JoinerSlot>(header: NonNull<Header>) {
    if are_tasks_held() {
        // SAFETY: by contract the last reference frees it, once, on any thread.
        return unsafe { leave_task(header, free_now::<W, J>) };
    }
    // SAFETY: as above.
    unsafe { free_now::<W, J>(header) };
}

/// Contract: as [`TaskVtable::free`].
#[inline]
unsafe fn free_now<W: Work, J: JoinerSlot>(header: NonNull<Header>) {
    let cell = header.cast::<Cell<W, J>>();
    // SAFETY: `allocate` made it from a box of this type, and by contract it is freed once. The stage is a
    // union of `ManuallyDrop`s and drops nothing.
    drop(unsafe { Box::from_raw(cell.as_ptr()) });
}

/// Ends a task whose work is gone, and gives its runnable up.
///
/// # Safety
///
/// `header` is the front of a `Cell<W, J>` whose runnable the caller holds. The result is in its place if
/// `outcome` says so.
unsafe fn finish<W: Work, J: JoinerSlot>(header: NonNull<Header>, outcome: usize) {
    // SAFETY: the runnable keeps the task alive until `complete` below gives it up.
    let task = unsafe { header.as_ref() };
    let place = task.link.with_mut(|link| {
        // SAFETY: before the end the link belongs to the holder of the runnable.
        unsafe { link.replace(outcome) }
    });
    if place != UNREGISTERED {
        // SAFETY: a registered task's pool waits for it, so it is alive.
        unsafe { runnable::unregister(header, place) };
    }
    match task.state.end() {
        End::Sole => {
            // SAFETY: there is no handle, so the result belongs to the holder of the runnable. No other
            // thread has a reference.
            unsafe { drop_result::<W, J>(header) };
            // SAFETY: the only reference is the runnable's, and work and result are gone.
            unsafe { free::<W, J>(header) };
        }
        End::Published => {}
        // SAFETY: the reference is still ours, and so is the waker now.
        End::Wake => unsafe { wake_joiner(header) },
        // SAFETY: by contract; the state is as it was.
        End::Otherwise => unsafe { finish_otherwise::<W, J>(header, outcome) },
    }
}

/// Ends a task whose handle is being dropped, or that was cancelled, or to which other references exist.
/// Contract: as for [`finish`]; the task has left its pool's register, and its link says how it ended.
#[cold]
#[inline(never)]
unsafe fn finish_otherwise<W: Work, J: JoinerSlot>(header: NonNull<Header>, outcome: usize) {
    // SAFETY: the runnable keeps the task alive until `complete` below gives it up.
    let task = unsafe { header.as_ref() };
    let (mut unwanted, mut cancelled) = (false, outcome != outcome::RETURNED);
    loop {
        match task.state.complete(unwanted, cancelled) {
            Completed::Published => return,
            // SAFETY: the last reference is ours, and the result was dropped before.
            Completed::Free => return unsafe { free::<W, J>(header) },
            Completed::Unwanted => {
                // SAFETY: the handle is gone for good, so the result belongs to the holder of the runnable.
                // `unwanted` makes this happen once.
                unsafe { drop_result::<W, J>(header) };
                unwanted = true;
            }
            Completed::Cancelled => {
                // The closure has returned all the same. Its value is dropped, because the caller of `cancel`
                // was promised that it would not come.
                // SAFETY: the task is not complete, so its result belongs to the holder of the runnable.
                // `cancelled` makes this happen once.
                unsafe { drop_result::<W, J>(header) };
                task.link.with_mut(|link| {
                    // SAFETY: before the end the link belongs to the holder of the runnable.
                    unsafe { *link = outcome::CANCELLED };
                });
                cancelled = true;
            }
            // SAFETY: the reference is still ours, and so is the waker now.
            Completed::Wake => return unsafe { wake_joiner(header) },
        }
    }
}

/// Wakes the joiner of a completed task, and gives up the runnable's reference.
///
/// # Safety
///
/// The task was completed over a set WAKER, by the caller, whose reference it passes on.
#[allow(
    clippy::inline_always,
    reason = "out of line it costs 7 instructions for each task that is awaited"
)]
#[inline(always)]
unsafe fn wake_joiner(header: NonNull<Header>) {
    // SAFETY: the reference is there until it is given up below, and a handle has set WAKER.
    let joiner = unsafe { joiner_waker(header) }.with(|waker| {
        // SAFETY: completing over a set WAKER makes the waker ours; it was written before WAKER was set.
        unsafe { waker.cast::<Waker>().read() }
    });
    // Publish last: the reference goes before the wake, which may run anything.
    // SAFETY: this reference is the runnable's, given up here.
    unsafe { waker::drop_reference(header) };
    contain(|| joiner.wake());
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
mod tests {
    use super::Cell;
    use crate::header::JoinerWaker;
    use crate::kinds::Job;

    /// Returns the size of a task of this closure, without a handle and with one.
    fn sizes<F: FnOnce() + Send + 'static>(_: &F) -> (usize, usize) {
        (
            size_of::<Cell<Job<F, false, false>, ()>>(),
            size_of::<Cell<Job<F, true, false>, JoinerWaker>>(),
        )
    }

    #[test]
    fn a_closure_of_two_words_without_a_handle_is_one_cache_line() {
        let words = [1_usize, 2];
        let two = move || assert_eq!(words.len(), 2);
        two();
        assert_eq!(sizes(&two), (64, 80));
        assert_eq!(sizes(&|| ()), (48, 64));
    }
}
