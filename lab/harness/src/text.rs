//! Figures and tables as text: units that fit, columns that line up.

use std::io::{self, Write};

/// A figure with three digits and a unit prefix: 1.52 M, 873 k, 12.0.
pub(crate) fn si(value: f64) -> String {
    let (scaled, prefix) = match value.abs() {
        v if v >= 999.5e6 => (value / 1e9, " G"),
        v if v >= 999.5e3 => (value / 1e6, " M"),
        v if v >= 999.5 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{prefix}", digits(scaled))
}

/// A duration in nanoseconds with three digits and its unit: 31.2 µs.
pub(crate) fn nanos(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 999.5e6 => (value / 1e9, "s"),
        v if v >= 999.5e3 => (value / 1e6, "ms"),
        v if v >= 999.5 => (value / 1e3, "µs"),
        _ => (value, "ns"),
    };
    format!("{} {unit}", digits(scaled))
}

/// Three significant digits, none after the point from a hundred on.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => String::from("0"),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A ratio: 1.07×.
pub(crate) fn times(ratio: f64) -> String {
    if ratio < 0.01 {
        String::from("<0.01×")
    } else {
        format!("{}×", digits(ratio))
    }
}

/// "1 worker", "2 workers".
pub(crate) fn workers(count: usize) -> String {
    if count == 1 {
        String::from("1 worker")
    } else {
        format!("{count} workers")
    }
}

/// A date, given in seconds since 1970, in the Gregorian calendar: 2026-11-25.
pub(crate) fn date(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// Year, month and day, `days` after the first of January 1970. Years begin in March, so that the leap
/// day is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + carry, month, day)
}

/// Names as a sentence has them: "a", "a and b", "a, b and c".
pub(crate) fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// Returns the text of a table of comma-separated values.
pub(crate) fn csv_bytes(table: csv::Writer<Vec<u8>>) -> Result<Vec<u8>, csv::Error> {
    table
        .into_inner()
        .map_err(|error| csv::Error::from(error.into_error()))
}

/// A table whose columns line up. Columns of names and of free text are set to the left, figures to the
/// right.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    figures: bool,
}

impl Table {
    /// A table of figures with these headings; the first column holds names, the last one text.
    pub(crate) fn of_figures(headings: &[&str]) -> Self {
        Self {
            rows: vec![headings.iter().map(ToString::to_string).collect()],
            figures: true,
        }
    }

    /// A table of text without headings.
    pub(crate) fn of_text() -> Self {
        Self::default()
    }

    /// Adds a row; missing cells are empty.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Adds an empty line.
    pub(crate) fn gap(&mut self) {
        self.rows.push(Vec::new());
    }

    /// Prints it, indented by two.
    pub(crate) fn print(&self, output: &mut dyn Write) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows
                    .iter()
                    .filter_map(|row| row.get(column))
                    .map(|cell| width(cell))
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for row in &self.rows {
            let mut line = String::from(" ");
            for (column, cell) in row.iter().enumerate() {
                let space = " ".repeat(widths[column] - width(cell));
                let left = !self.figures || column == 0 || column + 1 == columns;
                line.push_str(&if left {
                    format!(" {cell}{space} ")
                } else {
                    format!(" {space}{cell} ")
                });
            }
            writeln!(output, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Columns that a text takes on a terminal; all that is printed here is one column wide.
fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_780, "2026-11-23"),
        ] {
            assert_eq!(date(days * 86_400 + 86_399), expected);
        }
    }

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        for (value, text) in [
            (0.5, "0.50"),
            (12.0, "12.0"),
            (999.0, "999"),
            (999.6, "1.00 k"),
            (1.523e6, "1.52 M"),
            (2e9, "2.00 G"),
        ] {
            assert_eq!(si(value), text);
        }
        for (value, text) in [
            (62.0, "62.0 ns"),
            (31_234.0, "31.2 µs"),
            (1e6, "1.00 ms"),
            (2.5e9, "2.50 s"),
        ] {
            assert_eq!(nanos(value), text);
        }
        assert_eq!(
            [times(1.066), times(0.001), times(345.6)],
            ["1.07×", "<0.01×", "346×"]
        );
        assert_eq!(si(0.0), "0");
    }

    #[test]
    fn names_make_a_phrase() {
        let names = |count: usize| {
            list(
                &["a", "b", "c"][..count]
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!([names(1), names(2), names(3)], ["a", "a and b", "a, b and c"]);
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::of_figures(&["name", "µs", "note"]);
        table.row(vec!["a".into(), "100".into(), "x".into()]);
        table.row(vec!["longer".into(), "5".into()]);
        let mut printed = Vec::new();
        table.print(&mut printed).unwrap();
        let text = String::from_utf8(printed).unwrap();
        assert_eq!(text, "  name     µs  note\n  a       100  x\n  longer    5\n");
    }
}
