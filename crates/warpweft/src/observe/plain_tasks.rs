//! Functions that make tasks: without the feature `tracing` those of the crate `warpweft_task`.

pub(crate) use warpweft_task::spawn::{
    blocking_job, detached_job, detached_on_stack_job, future, job, on_stack_job,
};
