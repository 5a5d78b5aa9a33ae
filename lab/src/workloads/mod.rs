//! The workloads: programs against the public interface of a runtime, the same work for every contestant.
//!
//! Each file, or folder, of this folder is a workload. It implements [`Program`](crate::program::Program);
//! the build script finds it and lists it.
//!
//! Ground rules
//! - Equal work and an equal window of tasks under way for every contestant.
//! - Each run checks its result and fails loudly.
//! - A tenth of the work, at most, is done beforehand on the same pool and not measured: threads are up, the
//!   allocator has its pages. (Not for `parked` and `timers`, where memory is what is measured.)

use crate::registered;

include!(concat!(env!("OUT_DIR"), "/workloads.rs"));

/// All workloads.
pub(crate) fn all() -> Vec<&'static dyn harness::Workload> {
    macro_rules! register {
        ($($program:ty),*) => { vec![$(registered::<$program>()),*] };
    }
    workloads!(register)
}

#[cfg(test)]
mod tests {
    use harness::Files;
    use std::time::Duration;

    #[test]
    fn all_defaults_variants_and_smoke_sizes_are_in_their_domains() {
        let lab = crate::lab([]);
        for workload in &lab.workloads {
            let about = workload.about();
            for smoke in [false, true] {
                let choose = |text: &str| {
                    let chosen = lab.choose(text, smoke, &[], &Files::default(), Duration::MAX);
                    chosen.map(drop).unwrap_or_else(|error| panic!("{text}: {error}"));
                };
                choose(about.name);
                for variant in about.variants {
                    choose(&format!("{}/{}", about.name, variant.name));
                }
            }
            for name in about.explored {
                lab.peer(name).map(drop).unwrap();
            }
        }
        assert!(lab.workloads.len() >= 32, "{}", lab.workloads.len());
    }
}
