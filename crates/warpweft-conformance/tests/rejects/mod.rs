//! What the tests of broken policies expect of the kit.

use warpweft_conformance::{Duty, Verdict};

/// The check must find this duty broken, and its message must contain the policy, the duty, and this text.
#[track_caller]
pub(crate) fn rejects(verdict: Verdict, name: &str, duty: Duty, message: &str) {
    let violation = verdict.expect_err("the kit accepted a broken policy");
    assert_eq!(
        (violation.policy(), violation.duty()),
        (name, duty),
        "{violation}"
    );
    let text = violation.to_string();
    assert!(
        text.contains(name) && text.contains(&duty.to_string()) && text.contains(message),
        "{text}"
    );
}
