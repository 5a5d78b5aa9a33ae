use super::super::timeline::Lane;
use super::*;

const MS: u64 = 1_000_000;

/// A lane with its slices: begin and length in milliseconds, name, task, how it ended.
type LaneSlices<'a> = (&'a str, &'a [(u64, u64, usize, u64, End)]);

/// A timeline of these lanes, and flows: lane, moment, lane, moment.
fn timeline(lanes: &[LaneSlices<'_>], flows: &[(usize, u64, usize, u64)]) -> Timeline {
    let lane = |(name, slices): &LaneSlices<'_>| Lane {
        name: format!("web / {name}"),
        slices: slices
            .iter()
            .map(|&(start, lasts, name, task, end)| Slice {
                start: start * MS,
                lasts: lasts * MS,
                name,
                task,
                end,
            })
            .collect(),
        instants: Vec::new(),
    };
    let flow = |&(from, since, to, at): &(usize, u64, usize, u64)| Flow {
        from,
        since: since * MS,
        to,
        at: at * MS,
        why: 3,
    };
    Timeline {
        span: 100 * MS,
        names: ["request", "holder", "read", "woken", "worker 0 is stuck"]
            .map(str::to_owned)
            .into(),
        lanes: lanes.iter().map(lane).collect(),
        flows: flows.iter().map(flow).collect(),
        ..Timeline::default()
    }
}

const REQUEST: usize = 0;
const HOLDER: usize = 1;
const READ: usize = 2;
const STUCK: usize = 4;

fn first(timeline: &Timeline) -> SlowTask {
    slowest(timeline, 1).tasks.remove(0)
}

#[test]
fn a_wait_names_the_task_that_ended_it_and_what_that_one_did() {
    let lanes: &[(&str, &[_])] = &[
        (
            "worker 0",
            &[(0, 1, HOLDER, 8, End::Waits), (16, 1, HOLDER, 8, End::Ended)],
        ),
        (
            "worker 1",
            &[(1, 1, REQUEST, 7, End::Waits), (18, 2, REQUEST, 7, End::Ended)],
        ),
    ];
    // A timer wakes the holder, and the holder wakes the request.
    let task = first(&timeline(lanes, &[(1, 0, 1, 1), (0, 15, 0, 16), (0, 17, 1, 18)]));
    assert_eq!((task.name.as_str(), task.total), ("request", 20 * MS));
    assert_eq!(
        task.cause,
        "for 75 % of the time it waited, the longest for 15.0 ms: woken by `holder` (task 8) on web / worker 0, which had itself waited for 14.0 \
         ms until it was woken by web / worker 0 between two tasks: a timer, a socket or another event"
    );
    assert_eq!(task.parts.len(), 3);
}

#[test]
fn a_holder_that_blocked_its_worker_is_told_from_one_that_waited() {
    let lanes: &[(&str, &[_])] = &[
        ("worker 0", &[(0, 17, HOLDER, 8, End::Ended)]),
        (
            "worker 1",
            &[(1, 1, REQUEST, 7, End::Waits), (18, 1, REQUEST, 7, End::Ended)],
        ),
    ];
    let mut timeline = timeline(lanes, &[(1, 0, 1, 1), (0, 17, 1, 18)]);
    timeline.lanes[1].instants.push((11 * MS, STUCK));
    let task = first(&timeline);
    let text = "woken by `holder` (task 8) on web / worker 0, which had run for 17.0 ms in that step, and its worker was \
                reported stuck";
    assert!(task.cause.contains(text), "{}", task.cause);
    // The holder itself: one long slice.
    let holder = slowest(&timeline, 2).tasks.remove(1);
    assert_eq!(holder.name, "holder");
    assert!(
        holder.cause.contains(
            "it ran, 17.0 ms on web / worker 0 from 0.000 ms on, and the worker was reported stuck"
        )
    );
}

#[test]
fn a_task_that_was_ready_names_what_was_before_it() {
    let lanes: &[(&str, &[_])] = &[(
        "worker 0",
        &[(0, 8, HOLDER, 8, End::Ended), (8, 1, REQUEST, 7, End::Ended)],
    )];
    let task = first(&timeline(lanes, &[(0, 0, 0, 8)]));
    assert_eq!(task.name, "request");
    assert!(
        task.cause.contains("it was ready but did not run, the longest for 8.00 ms: behind `holder` (task 8) on web / worker 0"),
        "{}",
        task.cause
    );
}

#[test]
fn a_wake_from_outside_is_said_and_a_blocking_closure_is_named() {
    let lanes: &[(&str, &[_])] = &[
        (
            "worker 0",
            &[(0, 1, REQUEST, 7, End::Waits), (16, 1, REQUEST, 7, End::Ended)],
        ),
        ("other threads", &[]),
    ];
    let flows = &[(0, 0, 0, 0), (1, 16, 0, 16)];
    let cause = first(&timeline(lanes, flows)).cause;
    assert!(
        cause.ends_with("15.0 ms: woken by a thread outside of the runtime's workers"),
        "{cause}"
    );
    let named = [lanes[0], ("thread kafka", &[])];
    let cause = first(&timeline(&named, flows)).cause;
    assert!(
        cause.ends_with("woken by thread `kafka`, which is none of the runtime's workers"),
        "{cause}"
    );
    let with_closure = [
        lanes[0],
        lanes[1],
        ("blocking 0", &[(1, 15, READ, 9, End::Ended)]),
    ];
    let cause = first(&timeline(&with_closure, flows)).cause;
    assert!(
        cause.contains("when the blocking closure `read` (task 9) ran or ended"),
        "{cause}"
    );
}

#[test]
fn what_is_not_recorded_is_said() {
    let lanes: &[(&str, &[_])] = &[(
        "worker 0",
        &[(0, 1, REQUEST, 7, End::Waits), (16, 1, REQUEST, 7, End::Ended)],
    )];
    let task = first(&timeline(lanes, &[]));
    assert!(
        task.cause.contains("what woke it is not recorded"),
        "{}",
        task.cause
    );
    assert!(
        task.parts
            .iter()
            .any(|part| part.contains("its spawn is not recorded"))
    );
}

#[test]
fn tasks_that_have_not_ended_are_counted_and_taken_only_if_there_are_no_others() {
    let lanes: &[(&str, &[_])] = &[(
        "worker 0",
        &[(0, 20, REQUEST, 7, End::Waits), (30, 1, HOLDER, 8, End::Ended)],
    )];
    let found = slowest(&timeline(lanes, &[]), 10);
    assert_eq!((found.tasks.len(), found.ended, found.unended), (1, 1, 1));
    assert!(
        found
            .text()
            .contains("Tasks that have not ended are left out: 1."),
        "{}",
        found.text()
    );
    let found = slowest(
        &timeline(&[("worker 0", &[(0, 20, REQUEST, 7, End::Waits)])], &[]),
        10,
    );
    assert_eq!((found.tasks.len(), found.unended), (1, 1));
    assert!(found.text().contains("None of the 1 tasks has ended"));
}

#[test]
fn the_three_parts_add_up_to_the_total() {
    let timeline = super::super::read::timeline(crate::trace::EXAMPLE).expect("a trace");
    let story = Story::of(&timeline);
    for task in story.tasks.values() {
        let ran: u64 = task.steps.iter().map(|step| step.slice.lasts).sum();
        let rest: u64 = task.gaps().map(|(_, gap)| gap.until - gap.since).sum();
        assert_eq!(ran + rest, task.total(), "{task:?}");
    }
    assert_eq!(slowest(&timeline, 3).tasks.len(), 3);
}
