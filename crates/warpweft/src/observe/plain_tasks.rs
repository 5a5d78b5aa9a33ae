//! Functions that make tasks: without the feature `tracing` those of the crate `warpweft_task`.

pub(crate) use warpweft_task::spawn::{
    detached_job, detached_on_stack_job, future, job, job as blocking_job, on_stack_job,
};
