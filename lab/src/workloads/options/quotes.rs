//! The source of options: drawn at random, always the same ones, or the rows of a file with commas.
//!
//! ```text
//!  kind,spot,strike,rate,volatility,years
//!  call,100,105,0.03,0.25,0.5
//!  put,100,95,0.03,0.27,0.5
//! ```
//!
//! The first line names the columns, in any order and whatever else there is beside them; `rate` and
//! `volatility` are per year, 0.03 is 3 %. A file with anything missing, negative or not a number is refused
//! with the line and the column, and so is what no lattice can price: a deviation (volatility × √years) that
//! is next to nothing, or so large that the steps would be too coarse.

use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Trim};
use fastrand::Rng;

use super::pricing::{Quote, Side};
use harness::LabError;

/// The columns, in the order of [`Quote`].
const COLUMNS: [&str; 6] = ["kind", "spot", "strike", "rate", "volatility", "years"];

/// The range of spots and strikes: no lattice leaves the numbers that there are.
const PRICES: RangeInclusive<f64> = 1e-9..=1e12;
/// The range of deviations.
const DEVIATIONS: RangeInclusive<f64> = 1e-4..=2.0;

/// `n` options around their forward prices, calls and puts, from some weeks to two years.
pub(super) fn drawn(n: u64) -> Vec<Quote> {
    let mut random = Rng::with_seed(0x0971);
    let mut between = |least: f64, most: f64| least + random.f64() * (most - least);
    (0..n)
        .map(|_| {
            let (spot, rate) = (between(20.0, 500.0), between(0.0, 0.05));
            let (volatility, years) = (between(0.15, 0.5), between(0.1, 2.0));
            // Within one deviation of the forward price: the lattice's error is small beside the price.
            let deviations = between(-1.0, 1.0);
            Quote {
                side: if between(0.0, 1.0) < 0.5 {
                    Side::Call
                } else {
                    Side::Put
                },
                spot,
                strike: spot * (rate * years + deviations * volatility * years.sqrt()).exp(),
                rate,
                volatility,
                years,
            }
        })
        .collect()
}

/// The options of a file, each fit for lattices of at least this number of steps.
pub(super) fn read(path: &Path, steps: u32) -> Result<Vec<Quote>, LabError> {
    let refused = |reason: String| LabError::file("use the chain of options", path, &reason);
    let file = File::open(path).map_err(|error| refused(error.to_string()))?;
    parse(file, steps).map_err(refused)
}

/// The options in a text, or why there are none.
fn parse(text: impl Read, steps: u32) -> Result<Vec<Quote>, String> {
    let mut reader = ReaderBuilder::new()
        .trim(Trim::All)
        .flexible(true)
        .from_reader(text);
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut places = [0; COLUMNS.len()];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        let mut found = (0..)
            .zip(&header)
            .filter(|(_, name)| name.eq_ignore_ascii_case(column));
        *place = match (found.next(), found.next()) {
            (Some((at, _)), None) => at,
            (None, _) => {
                return Err(format!(
                    "its first line names no column `{column}`; it has to name {}",
                    COLUMNS.join(", ")
                ));
            }
            (Some(_), Some(_)) => return Err(format!("its first line names the column `{column}` twice")),
        };
    }
    let mut quotes = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() > header.len() {
            return Err(format!(
                "line {line} has {} values, and the first line names {} columns",
                record.len(),
                header.len()
            ));
        }
        let row = Row {
            record: &record,
            line,
            places,
        };
        quotes.push(row.quote(steps)?);
    }
    if quotes.is_empty() {
        return Err(String::from("it holds no options, only the names of its columns"));
    }
    Ok(quotes)
}

/// A row, and its place in the file.
struct Row<'a> {
    record: &'a StringRecord,
    line: u64,
    places: [usize; COLUMNS.len()],
}

impl Row<'_> {
    fn text(&self, column: usize) -> Result<&str, String> {
        match self.record.get(self.places[column]) {
            None | Some("") => Err(self.wrong(column, "there is nothing")),
            Some(text) => Ok(text),
        }
    }

    fn wrong(&self, column: usize, what: &str) -> String {
        format!("line {}, column `{}`: {what}", self.line, COLUMNS[column])
    }

    /// A number that is right.
    fn number(&self, column: usize, right: &str, is_right: impl Fn(f64) -> bool) -> Result<f64, String> {
        let text = self.text(column)?;
        let number = text
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite() && is_right(*number));
        number.ok_or_else(|| self.wrong(column, &format!("`{text}` is not a number {right}")))
    }

    /// A number above 0.
    fn positive(&self, column: usize) -> Result<f64, String> {
        self.number(column, "above 0", |number| number > 0.0)
    }

    fn price(&self, column: usize) -> Result<f64, String> {
        let right = format!("from {:e} to {:e}", PRICES.start(), PRICES.end());
        self.number(column, &right, |number| PRICES.contains(&number))
    }

    fn quote(&self, steps: u32) -> Result<Quote, String> {
        let side = match self.text(0)?.to_ascii_lowercase().as_str() {
            "call" | "c" => Side::Call,
            "put" | "p" => Side::Put,
            other => return Err(self.wrong(0, &format!("`{other}` is neither call nor put"))),
        };
        let quote = Quote {
            side,
            spot: self.price(1)?,
            strike: self.price(2)?,
            rate: self.number(3, "of 0 or more", |number| number >= 0.0)?,
            volatility: self.positive(4)?,
            years: self.positive(5)?,
        };
        if !DEVIATIONS.contains(&quote.deviation()) {
            return Err(self.wrong(
                4,
                &format!(
                    "volatility × √years is {:e}, and has to be from {:e} to {}",
                    quote.deviation(),
                    DEVIATIONS.start(),
                    DEVIATIONS.end()
                ),
            ));
        }
        if !quote.has_lattice(steps) {
            return Err(self.wrong(
                3,
                &format!(
                    "with {steps} steps a lattice has no probabilities: rate × √(years / steps) has to be less than the volatility; \
                     more steps help"
                ),
            ));
        }
        Ok(quote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "kind,spot,strike,rate,volatility,years\n";

    fn error(rows: &str) -> String {
        parse(format!("{HEADER}{rows}").as_bytes(), 20).expect_err(rows)
    }

    #[test]
    fn rows_are_read_in_any_order_of_columns() {
        let straight = parse(
            format!("{HEADER}call,100,105,0.03,0.25,0.5\nP,50,50,0,0.2,1\n").as_bytes(),
            20,
        );
        let quotes = straight.expect("a right file");
        assert_eq!(quotes.len(), 2);
        assert_eq!((quotes[0].side, quotes[1].side), (Side::Call, Side::Put));
        assert_eq!(
            (quotes[0].strike, quotes[1].rate, quotes[1].years),
            (105.0, 0.0, 1.0)
        );
        let turned = "symbol, Years ,kind,spot,strike,rate,volatility\nX, 0.5 ,call,100,105,0.03,0.25\n";
        assert_eq!(parse(turned.as_bytes(), 20).expect("a right file"), quotes[..1]);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named_by_line_and_column() {
        let right = "call,100,105,0.03,0.25,0.5\n";
        for (row, line, column, word) in [
            ("put,-5,105,0.03,0.25,0.5", 3, "spot", "`-5`"),
            ("put,100,0,0.03,0.25,0.5", 3, "strike", "from 1e-9 to 1e12"),
            ("put,1e300,105,0.03,0.25,0.5", 3, "spot", "`1e300`"),
            ("put,100,105,-0.01,0.25,0.5", 3, "rate", "0 or more"),
            ("put,100,105,0.03,-0.2,0.5", 3, "volatility", "above 0"),
            ("put,100,105,0.03,NaN,0.5", 3, "volatility", "`NaN`"),
            ("put,100,105,0.03,0.25,inf", 3, "years", "`inf`"),
            ("put,100,105,0.03,,0.5", 3, "volatility", "nothing"),
            ("put,100,105", 3, "rate", "nothing"),
            ("swap,100,105,0.03,0.25,0.5", 3, "kind", "neither call nor put"),
            ("put,100,105,9,0.25,0.5", 3, "rate", "less than the volatility"),
            ("put,100,105,0.03,1.5,4", 3, "volatility", "is 3e0"),
            ("put,100,105,0.03,1e-9,1", 3, "volatility", "from 1e-4 to 2"),
        ] {
            let text = error(&format!("{right}{row}\n{right}"));
            let place = format!("line {line}, column `{column}`");
            assert!(text.contains(&place) && text.contains(word), "{row}: {text}");
        }
        assert!(error("call,100,105,0.03,0.25,0.5,7\n").contains("line 2 has 7 values"));
    }

    #[test]
    fn files_without_options_are_refused() {
        assert!(error("").contains("no options"));
        let text = parse("".as_bytes(), 20).expect_err("nothing");
        assert!(text.contains("no column `kind`"), "{text}");
        let text = parse("kind,spot,strike,rate,years\n".as_bytes(), 20).expect_err("a column less");
        assert!(text.contains("`volatility`"), "{text}");
        let text = parse("kind,spot,strike,rate,volatility,years,spot\n".as_bytes(), 20).expect_err("twice");
        assert!(text.contains("twice"), "{text}");
        let text = parse(
            &b"kind,spot,strike,rate,volatility,years\ncall,\xff,1,1,1,1\n"[..],
            20,
        );
        assert!(text.expect_err("no text").contains("line"), "the place is named");
    }

    #[test]
    fn options_that_are_drawn_are_fit_and_always_the_same() {
        let quotes = drawn(2000);
        assert_eq!(quotes, drawn(2000));
        assert!(quotes.iter().all(|quote| quote.has_lattice(1)));
        let calls = quotes.iter().filter(|quote| quote.side == Side::Call).count();
        assert!((800..1200).contains(&calls), "{calls} calls");
    }
}
