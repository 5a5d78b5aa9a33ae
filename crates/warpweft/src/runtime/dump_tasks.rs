//! What a dump sees of one task, in the form in which it is collected.

use crate::execution::wait::is_of_runtime;
use crate::observe::raw::{RawState, RawTask, told};
use warpweft_platform::stack_copy::word_in_memory;
use warpweft_task::frame::{Frame, FrameKind, Who};
use warpweft_task::task_view::{self, TaskView};
use warpweft_task::{Runnable, TaskKind, kind_of};

pub(super) fn of_task(task: TaskView) -> RawTask {
    RawTask {
        id: task.id,
        keys: [task.id, 0],
        kind: Some(task.kind),
        name: task.name,
        site: Some(task.location),
        origin: task.origin,
        state: match (task.queued, task.running) {
            // Whether it runs is known by the worker.
            (true, _) | (_, true) => RawState::Queued,
            _ => RawState::Waiting,
        },
        since_ns: task.suspended_ns.filter(|_| !task.queued && !task.running),
        wakers: Some(task.wakers),
        joiner: task.joiner,
        cancelled: task.cancelled,
        is_internal: is_of_runtime(task.location),
        ..RawTask::default()
    }
}

pub(super) fn of_queued(task: &Runnable) -> RawTask {
    let info = task.info();
    RawTask {
        id: task.id_word(),
        keys: [task.id_word(), 0],
        kind: Some(TaskKind::Blocking),
        name: info.name().map(String::from),
        site: Some(info.location()),
        origin: task.origin_word().addr(),
        state: RawState::Queued,
        joiner: task_view::look_at(task).and_then(|view| view.joiner),
        ..RawTask::default()
    }
}

/// The kind of what is identified by `who`: without a spawn site it is a part of a join or scope, or a
/// thread.
pub(crate) fn kind(who: Who) -> Option<TaskKind> {
    if !who.origin.is_null() {
        Some(kind_of(who.origin))
    } else if who.id & 1 == 0 && who.id != 0 {
        Some(TaskKind::Fork)
    } else {
        None
    }
}

/// # Safety
///
/// The frame is in a register, which is locked for the whole call.
pub(super) unsafe fn of_frame(frame: &Frame) -> RawTask {
    // SAFETY: by contract.
    let (wakers, was_woken) = unsafe { frame.wakers() }.unzip();
    let (name, site) = told(frame.who).map_or((None, None), |told| (told.name, Some(told.location)));
    RawTask {
        id: if frame.who.id == 0 {
            frame.key
        } else {
            frame.who.id
        },
        keys: [frame.key, 0],
        kind: kind(frame.who),
        name: name.or_else(|| frame.thread.clone().filter(|_| kind(frame.who).is_none())),
        site,
        origin: frame.who.origin.addr(),
        is_internal: site.is_some_and(is_of_runtime),
        state: match frame.kind {
            FrameKind::Joins => RawState::Joining,
            FrameKind::Blocking => RawState::Blocking,
            FrameKind::SpawnedBlocking => RawState::SpawnedBlocking,
            // It continues when it is given a worker, or a CPU.
            _ if was_woken == Some(true) => RawState::Queued,
            _ => RawState::Waiting,
        },
        wakers,
        thread: frame.number,
        since_ns: Some(frame.since_ns),
        // SAFETY: by contract.
        joiner: unsafe { frame.joiner() },
        ..RawTask::default()
    }
}

/// The joiner of a task that runs. The task may end meanwhile, so its words are asked of the system.
pub(super) fn joiner_of_running(id: usize, origin: usize) -> Option<[usize; 2]> {
    let origin: *const () = std::ptr::without_provenance(origin);
    (!origin.is_null())
        .then(|| Who { id, origin }.joiner_of_running(|address| word_in_memory(address as u64)))
        .flatten()
}

pub(super) fn add_running(
    add: &mut impl FnMut(RawTask),
    worker: usize,
    who: Who,
    where_and_since: impl FnOnce() -> (Option<u32>, Option<u64>),
) {
    if who.id == 0 {
        return;
    }
    let (name, site) = told(who).map_or((None, None), |told| (told.name, Some(told.location)));
    if site.is_some_and(is_of_runtime) {
        return;
    }
    let (thread, since_ns) = where_and_since();
    add(RawTask {
        id: who.id,
        kind: kind(who),
        name,
        site,
        origin: who.origin.addr(),
        state: RawState::Running,
        worker: Some(worker),
        thread,
        since_ns,
        joiner: joiner_of_running(who.id, who.origin.addr()),
        ..RawTask::default()
    });
}
