//! The handle of a task: its result as a future, or by blocking the thread.
//!
//! It is also the *promise* of EBSL: `schedule` returns one, `await` redeems it.

use crate::block_on::block_stoppably;
use crate::header::{Header, JoinerWaker, joiner_waker};
use crate::info::TaskInfo;
use crate::lending;
use crate::outcome::JoinError;
use crate::state::HandleDropped;
use crate::task_view;
use crate::waker;
use crate::why::Why;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};
use warpweft_platform::process;

/// The reason for which there is nothing to wait for.
enum Over {
    /// The task has ended.
    Ended,
    /// This is a forked child, and the task continues in the parent.
    InParent,
}

/// The right to a task's result.
///
/// Await it, or call [`wait`](JoinHandle::wait) in code that is not async. **Dropping it detaches the task**,
/// which continues; its result is dropped when it ends. To cancel the task, call
/// [`cancel`](JoinHandle::cancel). A detached future that loses its last waker
/// [is dropped](JoinHandle::detach).
///
/// A panic of the task arrives here, as [`JoinError::Panicked`].
///
/// # Panics
///
/// Polling it again after it has given its result panics, as with most futures.
#[must_use = "dropping a handle detaches its task; say `drop(handle)` or `.detach()` if that is meant"]
pub struct JoinHandle<T> {
    task: NonNull<Header>,
    taken: bool,
    result: PhantomData<fn() -> T>,
}

// SAFETY: the handle moves the result to another thread, hence `T: Send`. All else goes through the state
// word.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: what `&JoinHandle` can do (`cancel`, `is_finished`, `info`) touches no `T` and is synchronised.
unsafe impl<T: Send> Sync for JoinHandle<T> {}
// The result is only handed over, never seen through the handle, so a panic cannot expose a broken one.
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}
impl<T> Unpin for JoinHandle<T> {}

impl<T: Send + 'static> JoinHandle<T> {
    /// # Safety
    ///
    /// The caller passes on the handle's reference to a task whose result is a `T`.
    pub(crate) unsafe fn from_header(task: NonNull<Header>) -> Self {
        Self {
            task,
            taken: false,
            result: PhantomData,
        }
    }

    /// Blocks this thread until the task has ended, and returns its result.
    ///
    /// In a task the thread gives its worker away meanwhile, as with [`block_on`](crate::block_on()). Await
    /// the handle where you can.
    ///
    /// # Errors
    ///
    /// The task panicked, was cancelled, or its pool shut down. Or this is a child made by `fork()`, and the
    /// pool stayed in the parent.
    ///
    /// # Panics
    ///
    /// Under a token of cancellation that is cancelled, the calling code unwinds, as in any wait. The task
    /// continues.
    pub fn wait(self) -> Result<T, JoinError> {
        block_stoppably(self)
    }

    /// Lets the task continue alone. It does the same as dropping the handle.
    ///
    /// A future that waits is kept alive by its wakers, and by its handle. If it has no handle and its last
    /// waker is dropped, it can never be polled again: it is dropped, without a word. So `Runtime::dump` can
    /// name a future without a waker only while its handle exists.
    pub fn detach(self) {
        drop(self);
    }

    /// Moves the result out.
    ///
    /// # Safety
    ///
    /// The task is complete and the result not taken.
    unsafe fn take(&mut self) -> Result<T, JoinError> {
        self.taken = true;
        if process::has_special_cases() {
            lending::awaits_no_more(self.task);
        }
        let mut outcome = MaybeUninit::<Result<T, JoinError>>::uninit();
        let vtable = self.header().vtable;
        // SAFETY: complete, by contract; we are its only handle; the place is valid and of the result's type.
        unsafe { (vtable.take)(self.task, outcome.as_mut_ptr().cast()) };
        // SAFETY: `take` has written it.
        unsafe { outcome.assume_init() }
    }

    /// What a wait begins with in a forked child, and where tasks lend their priorities.
    #[cold]
    fn begin_special(&self) -> Result<(), Over> {
        let task = self.header();
        if process::generation() != 0 && task.stayed_in_parent() {
            return Err(Over::InParent);
        }
        lending::awaits(task);
        Ok(())
    }

    /// Leaves `waker` for the thread that completes the task. `Err`: the task has ended, or will not end.
    fn leave(&self, waker: &Waker) -> Result<(), Over> {
        let task = self.header();
        let has_waker = task.state.look().map_err(|()| Over::Ended)?;
        if process::has_special_cases() {
            self.begin_special()?;
        }
        if has_waker {
            let same = self.waker().with(|place| {
                // SAFETY: WAKER is set, so the field is written; while it is set no thread writes it. A
                // thread that completes the task meanwhile moves the waker out but leaves the bytes, and
                // `will_wake` looks at nothing else.
                unsafe { &*place.cast::<Waker>() }.will_wake(waker)
            });
            if same {
                return Ok(());
            }
            task.state.unset_waker().map_err(|()| Over::Ended)?;
            self.waker().with_mut(|place| {
                // SAFETY: WAKER is clear and the task unfinished, so the written field is the handle's.
                unsafe { place.cast::<Waker>().drop_in_place() };
            });
        }
        let waker = waker.clone();
        self.waker().with_mut(|place| {
            // SAFETY: WAKER is clear, so the field is the handle's.
            unsafe { task_view::write_waker(place.cast(), waker) };
        });
        task.state.set_waker().map_err(|()| {
            self.waker().with_mut(|place| {
                // SAFETY: WAKER was never set, so the field that we wrote is the handle's still.
                unsafe { place.cast::<Waker>().drop_in_place() };
            });
            Over::Ended
        })
    }
}

impl<T> JoinHandle<T> {
    fn header(&self) -> &Header {
        // SAFETY: the handle has a reference.
        unsafe { self.task.as_ref() }
    }

    fn waker(&self) -> &JoinerWaker {
        // SAFETY: the handle has a reference, and the task was made with it.
        unsafe { joiner_waker(self.task) }
    }

    /// Returns true if the task has ended, so that awaiting it would not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.header().state.is_complete()
    }

    /// Requests that the task ends. Returns true if the task was still unfinished.
    ///
    /// If it was, the joiner gets [`JoinError::Cancelled`], or [`JoinError::Panicked`] if the task panics
    /// before it ends; it never gets a value. A task that has not started never starts. A future is dropped
    /// at its next suspension point. A running closure continues to its end, unless it checks for
    /// cancellation; its value is dropped.
    pub fn cancel(&self) -> bool {
        // SAFETY: the handle has a reference.
        unsafe { waker::cancel(self.task) }
    }

    /// Returns the address that identifies the task in a report while the task exists.
    #[doc(hidden)]
    #[must_use]
    pub fn id_word(&self) -> usize {
        self.task.addr().get()
    }

    /// Returns the task's name and spawn site.
    #[must_use]
    pub fn info(&self) -> TaskInfo<'_> {
        // The policy's word belongs to the holder of the runnable: it is not read here.
        TaskInfo::new(&self.header().origin, 0)
    }
}

impl<T: Send + 'static> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.leave(cx.waker()) {
            Ok(()) => Poll::Pending,
            Err(Over::Ended) => {
                // Not tested before: a task whose result was taken has ended.
                assert!(
                    !self.taken,
                    "a JoinHandle was polled after it had given its result"
                );
                // SAFETY: the state says that the task is complete, and `taken` that its result is there.
                Poll::Ready(unsafe { self.take() })
            }
            Err(Over::InParent) => Poll::Ready(Err(JoinError::Forked)),
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let task = self.header();
        if !self.taken {
            if process::has_special_cases() {
                lending::awaits_no_more(self.task);
            }
            match task.state.drop_handle() {
                HandleDropped::Nothing => return,
                // SAFETY: the handle's reference became the runnable's.
                HandleDropped::Orphan => return unsafe { waker::push(self.task, Why::Woken) },
                HandleDropped::TakeWaker => self.waker().with_mut(|place| {
                    // SAFETY: `drop_handle` cleared WAKER on an unfinished task, so we own the written field.
                    unsafe { place.cast::<Waker>().drop_in_place() };
                }),
                HandleDropped::Ended => {
                    // SAFETY: the task has ended while the handle existed, so we own the result; it was not
                    // taken.
                    unsafe { (task.vtable.drop_result)(self.task) };
                }
            }
        }
        // SAFETY: the handle's reference is given up here, once; if the task has ended, its result is gone.
        unsafe { waker::drop_reference(self.task) };
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("task", &self.header().origin)
            .field("finished", &self.is_finished())
            .finish()
    }
}
