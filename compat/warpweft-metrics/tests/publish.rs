//! What a recorder of the facade gets.

use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshot};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use warpweft::policy::Count;
use warpweft::{Runtime, spawn};
use warpweft_metrics::{MOST, Publisher};

/// What was published, by `name{label=value,…}`.
type Values = HashMap<String, (MetricKind, DebugValue)>;

fn values(snapshot: Snapshot) -> Values {
    let value = |(key, _, _, value): (metrics_util::CompositeKey, _, _, _)| {
        let labels: Vec<_> = key
            .key()
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let name = format!("{}{{{}}}", key.key().name(), labels.join(","));
        (name, (key.kind(), value))
    };
    snapshot.into_vec().into_iter().map(value).collect()
}

fn gauge(values: &Values, name: &str) -> f64 {
    match values.get(name) {
        Some((MetricKind::Gauge, DebugValue::Gauge(value))) => value.0,
        other => panic!("{name}: {other:?}"),
    }
}

fn counter(values: &Values, name: &str) -> u64 {
    match values.get(name) {
        Some((MetricKind::Counter, DebugValue::Counter(value))) => *value,
        other => panic!("{name}: {other:?}"),
    }
}

fn histogram(values: &Values, name: &str) -> Vec<f64> {
    match values.get(name) {
        Some((MetricKind::Histogram, DebugValue::Histogram(values))) => {
            values.iter().map(|value| value.0).collect()
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_publication_says_what_the_runtime_says() {
    let recorder = DebuggingRecorder::new();
    let seen = recorder.snapshotter();
    let runtime = Runtime::builder()
        .workers(2)
        .name("p")
        .build()
        .expect("a runtime");
    let mut publisher = Publisher::new(&runtime);
    let sleeps = runtime.spawn(warpweft::time::sleep(Duration::from_secs(3600)));
    let start = Instant::now();
    while runtime.first().metrics().depths.timers == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "it never sleeps");
        std::thread::sleep(Duration::from_millis(1));
    }
    metrics::with_local_recorder(&recorder, || {
        warpweft_metrics::describe();
        publisher.publish();
    });
    let values = values(seen.snapshot());
    for (name, expected) in [
        ("warpweft_tasks{pool=p,kind=future}", 1.0),
        ("warpweft_tasks{pool=p,kind=job}", 0.0),
        ("warpweft_waiting{pool=p,on=timer}", 1.0),
        ("warpweft_queue_length{pool=p,queue=injector}", 0.0),
        ("warpweft_queue_length{pool=p,queue=1}", 0.0),
        ("warpweft_workers{pool=p,state=all}", 2.0),
    ] {
        assert!(
            (gauge(&values, name) - expected).abs() < 0.1,
            "{name}: {values:?}"
        );
    }
    assert!(gauge(&values, "warpweft_threads{pool=p,state=all}") >= 2.0);
    assert_eq!(counter(&values, "warpweft_injected_total{pool=p}"), 1);
    assert!(values.contains_key("warpweft_busy_microseconds_total{pool=p,worker=1}"));
    for event in Count::ALL {
        assert!(values.contains_key(&format!("warpweft_{}_total{{pool=p}}", event.name())));
    }
    // Nothing was measured.
    assert!(values.values().all(|(kind, _)| *kind != MetricKind::Histogram));
    drop(sleeps);
}

#[test]
fn histograms_have_what_is_new_and_no_more_than_the_most() {
    let recorder = DebuggingRecorder::new();
    let seen = recorder.snapshotter();
    // A compensating worker would make steps of the only worker fewer.
    let runtime = Runtime::builder()
        .workers(1)
        .name("h")
        .stuck_after(None)
        .build()
        .expect("a runtime");
    runtime.recorder().measure_steps(true);
    let mut publisher = Publisher::of_pools(runtime.pools().to_vec());
    let long = Duration::from_millis(20);
    let mut round = |tasks: u64, busy: bool| {
        let root = runtime.spawn(async move {
            for _ in 0..tasks {
                spawn(async {}).await.expect("no panic");
            }
            let start = Instant::now();
            while busy && start.elapsed() < long {}
        });
        root.wait().expect("no panic");
        metrics::with_local_recorder(&recorder, || publisher.publish());
        let values = values(seen.snapshot());
        let measured = counter(
            &values,
            "warpweft_measured_total{pool=h,class=none,what=run_time}",
        );
        let run_time = histogram(&values, "warpweft_run_time_seconds{pool=h,class=none}");
        (measured, run_time)
    };
    let (first, run_time) = round(20_000, false);
    assert!(first >= 40_000, "{first}");
    assert_eq!(run_time.len() as u64, MOST);
    let (second, run_time) = round(10, true);
    assert!(second > first && second < first + 100, "{first}, {second}");
    // Only what is new, all of it.
    assert_eq!(run_time.len() as u64, second - first);
    // The end of the last step is seen with the next one, which may not come before the publication.
    let (_, again) = round(1, false);
    let longest = run_time.iter().chain(&again).copied().fold(0.0, f64::max);
    assert!(longest >= long.as_secs_f64(), "{run_time:?}, {again:?}");
}

#[test]
fn a_task_publishes_again_and_again() {
    let recorder = DebuggingRecorder::new();
    let seen = recorder.snapshotter();
    recorder.install().expect("no other test installs one");
    let runtime = Runtime::builder()
        .workers(1)
        .name("e")
        .build()
        .expect("a runtime");
    let publisher = Publisher::new(&runtime);
    let task = runtime.spawn(publisher.every(Duration::ZERO));
    let ran = || match values(seen.snapshot()).get("warpweft_ran_total{pool=e}") {
        Some((_, DebugValue::Counter(value))) => *value,
        _ => 0,
    };
    let start = Instant::now();
    // Each turn of the task is counted by the publication that follows.
    while ran() < 5 {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not go on");
        std::thread::sleep(Duration::from_millis(2));
    }
    task.cancel();
}
