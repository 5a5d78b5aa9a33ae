//! Counts of tests, from what `cargo test` prints.

/// Lines of what failed tests wrote that are said again at the end.
const LINES: usize = 200;

/// Sums of the `test result:` lines, and what failed tests wrote.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tests {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    pub(crate) failures: Vec<String>,
    /// Between `failures:` and the next `test result:`.
    in_failures: bool,
}

impl Tests {
    /// Adds a line like `test result: ok. 6 passed; 0 failed; 1 ignored; 0 measured; …`, or one of those that
    /// say what failed.
    pub(crate) fn add(&mut self, line: &str) {
        self.in_failures |= line == "failures:";
        let Some(rest) = line.trim_start().strip_prefix("test result:") else {
            if self.in_failures && !line.is_empty() && self.failures.len() < LINES {
                self.failures.push(line.to_owned());
            }
            return;
        };
        self.in_failures = false;
        for part in rest.split(['.', ';']) {
            let mut words = part.split_whitespace();
            if let (Some(Ok(number)), Some(what)) = (words.next().map(str::parse::<usize>), words.next()) {
                match what {
                    "passed" => self.passed += number,
                    "failed" => self.failed += number,
                    "ignored" => self.ignored += number,
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tests;

    #[test]
    fn result_lines_are_summed() {
        let mut tests = Tests::default();
        tests.add(
            "test result: ok. 6 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 1.54s",
        );
        tests.add("test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.13s");
        tests.add("running 6 tests");
        tests.add("99 passed; 99 failed");
        assert_eq!((tests.passed, tests.failed, tests.ignored), (11, 2, 1));
        assert!(tests.failures.is_empty());
    }

    #[test]
    fn what_failed_tests_wrote_is_kept() {
        let mut tests = Tests::default();
        let output = [
            "test one ... FAILED",
            "",
            "failures:",
            "",
            "---- one stdout ----",
            "thread 'one' panicked at lib.rs:1:1:",
            "failures:",
            "    one",
            "test result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.13s",
            "test two ... ok",
        ];
        output.iter().for_each(|line| tests.add(line));
        assert_eq!(
            tests.failures,
            [
                "failures:",
                "---- one stdout ----",
                "thread 'one' panicked at lib.rs:1:1:",
                "failures:",
                "    one"
            ]
        );
    }
}
