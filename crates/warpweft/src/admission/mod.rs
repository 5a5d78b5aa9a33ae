//! Admission by delay: what asks to be let into a pool is refused if those before it have waited too long.
//!
//! | file | job |
//! |---|---|
//! | `law` | the control law of one class, without clock and threads |
//! | `controller` | the laws of a pool's classes, under their locks |
//! | `settings` | target and interval, and what is wrong with them |

pub(crate) mod controller;
pub(crate) mod law;
pub(crate) mod settings;
