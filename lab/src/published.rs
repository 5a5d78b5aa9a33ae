//! Figures that others published about the same programs, on their machines: for the shape, not for the
//! digits.

use harness::Published;

/// See `cycle`.
pub const CYCLE: Published = Published {
    source: "Cforall's scheduler beside libfibre, Go and tokio, chapter Micro-Benchmarks, \
             section Cycle (Intel Xeon Platinum 8160 and AMD EPYC 7662; plots)",
    said: "With 100 rings per processor all but libfibre reach about 400 million hops per second on the largest number of processors of \
           the Intel machine; with one ring per processor Cforall, Go and tokio do markedly worse, and libfibre does better.",
    columns: &[],
    rows: &[],
};

/// See `yield`.
pub const YIELD: Published = Published {
    source: "Cforall's scheduler beside libfibre, Go and tokio, chapter Micro-Benchmarks, \
             section Yield (Intel Xeon Platinum 8160 and AMD EPYC 7662; plots)",
    said: "libfibre, which does not switch when nothing else is ready, does 8 times better with one task per processor than in cycle; Go \
           collapses, whose yielding goroutines go into one queue for all, and tokio beyond 16 processors.",
    columns: &[],
    rows: &[],
};

/// See `churn`.
pub const CHURN: Published = Published {
    source: "Cforall's scheduler beside libfibre, Go and tokio, chapter Micro-Benchmarks, \
             section Churn (Intel Xeon Platinum 8160 and AMD EPYC 7662; plots; the form with semaphores)",
    said: "Nobody reaches 40 million operations per second on any number of processors: the traffic between caches decides.",
    columns: &[],
    rows: &[],
};

/// See `locality`.
pub const LOCALITY: Published = Published {
    source: "Cforall's scheduler beside libfibre, Go and tokio, chapter Micro-Benchmarks, \
             section Locality (Intel Xeon Platinum 8160 and AMD EPYC 7662; plots)",
    said: "An inversion is expected: who puts the woken task on the waker's processor (Cforall, Go, tokio) does better where the array is \
           shared, who puts it where it ran last (libfibre) where it is not.",
    columns: &[],
    rows: &[],
};

/// See `transfer`.
pub const TRANSFER: Published = Published {
    source: "Cforall's scheduler beside libfibre, Go and tokio, chapter Micro-Benchmarks, \
             figure \"Transfer Benchmark on Intel and AMD\": time per leadership, 100 tasks per processor",
    said: "DNC: after 5 seconds some had not seen the leader. Figures within a factor of ten of each other are called close.",
    columns: &[
        "Intel park, 2",
        "Intel park, 192",
        "Intel yield, 2",
        "Intel yield, 192",
        "AMD park, 2",
        "AMD park, 256",
        "AMD yield, 2",
        "AMD yield, 256",
    ],
    rows: &[
        (
            "Cforall",
            &[
                "106 µs", "19.9 ms", "68.4 µs", "1.2 ms", "174 µs", "28.4 ms", "78.8 µs", "1.21 ms",
            ],
        ),
        (
            "libfibre",
            &[
                "127 µs", "33.5 ms", "DNC", "DNC", "156 µs", "36.7 ms", "DNC", "DNC",
            ],
        ),
        (
            "Go",
            &[
                "106 µs", "64.0 ms", "24.6 ms", "74.3 ms", "271 µs", "121.6 ms", "1.21 ms", "117.4 ms",
            ],
        ),
        (
            "tokio",
            &[
                "289 µs", "180.6 ms", "DNC", "DNC", "157 µs", "111.0 ms", "DNC", "DNC",
            ],
        ),
    ],
};

/// See `apps`.
pub const PROGRAMS: Published = Published {
    source: "F. Negele, F. Friedrich, S. Oh and B. Egger, \"On the Design and Implementation of an Efficient Lock-Free Scheduler\", table 1: \
             time of the whole program",
    said: "",
    columns: &["native", "Linux", "Windows"],
    rows: &[
        ("city (N = 1000, K = 10, C = 100)", &["61 ms", "63 ms", "138 ms"]),
        ("eratosthenes (N = 10000)", &["3629 ms", "4750 ms", "6347 ms"]),
        (
            "mandelbrot (N = 100, C = 2000, K = 5000)",
            &["4066 ms", "5287 ms", "5040 ms"],
        ),
        (
            "news (N = 1000, M = 10, K = 10)",
            &["1260 ms", "374 ms", "280 ms"],
        ),
        (
            "producer (N = 1, C = 10, K = 10000)",
            &["1382 ms", "269 ms", "225 ms"],
        ),
        (
            "producer (N = 64, C = 10, K = 10000)",
            &["54 495 ms", "105 086 ms", "31 032 ms"],
        ),
        (
            "token ring (N = 1000, K = 1000)",
            &["4506 ms", "15 672 ms", "8759 ms"],
        ),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_a_figure_for_each_column() {
        for published in [CYCLE, YIELD, CHURN, LOCALITY, TRANSFER, PROGRAMS] {
            assert!(!published.source.is_empty());
            for (name, figures) in published.rows {
                assert_eq!(figures.len(), published.columns.len(), "{name}");
            }
        }
    }
}
