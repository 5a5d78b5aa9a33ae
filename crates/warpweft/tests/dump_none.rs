//! `dump_all` in a process of its own, in which no other test builds a runtime.

use std::time::Duration;
use warpweft::{Runtime, dump_all};

#[test]
fn without_a_runtime_and_with_one() {
    let none = dump_all();
    assert!(
        none.pools.is_empty() && none.tasks.is_empty() && none.findings.is_empty(),
        "{none}"
    );
    assert!(none.to_string().contains("0 tasks and threads"), "{none}");
    let runtime = Runtime::builder()
        .workers(1)
        .name("alone")
        .then("more", Runtime::builder().workers(1));
    let runtime = runtime.build().expect("a runtime");
    // With one, the names are those of its own dump.
    let names = |dump: warpweft::Dump| dump.pools.into_iter().map(|pool| pool.name).collect::<Vec<_>>();
    assert_eq!(names(dump_all()), ["alone", "more"]);
    assert_eq!(names(runtime.dump()), names(dump_all()));
    runtime
        .shutdown_timeout(Duration::from_secs(10))
        .expect("nothing runs");
    assert!(dump_all().pools.is_empty());
}
