//! Loom with the bounds of this crate.

/// Explores `body` with at most `preemptions` preemptions; most bugs need two or three.
pub fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(body);
}
