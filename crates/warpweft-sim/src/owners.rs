//! Which core had which line when: the arrivals of lines, for a picture.

use crate::machine::TICKS;

/// So many arrivals are kept.
const MOST: usize = 4_000_000;
/// So many arrivals of the line that was waited for the longest are shown.
const SHOWN: usize = 400;

/// A line arrives at a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When, in nanoseconds.
    pub ns: u64,
    /// Where.
    pub core: usize,
    /// The core has it alone, and others lose it.
    pub alone: bool,
}

/// The arrivals of a line in a part of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineOwners {
    /// The line's number.
    pub number: usize,
    /// The field by which it was missed the most.
    pub name: String,
    /// The arrivals in their order.
    pub arrivals: Vec<Arrival>,
}

/// All arrivals: the time in ticks, the line, the core, and whether it has the line alone.
#[derive(Debug, Default)]
pub(crate) struct Owners(Vec<(u64, u32, u16, bool)>);

impl Owners {
    pub(crate) fn note(&mut self, ticks: u64, line: usize, core: usize, alone: bool) {
        if self.0.len() < MOST {
            self.0.push((ticks, line as u32, core as u16, alone));
        }
    }

    /// The arrivals of these lines, by number and name, in the middle of the run.
    pub(crate) fn of(&self, lines: &[(usize, String)]) -> Vec<LineOwners> {
        let of_line = |number: usize| {
            let mut arrivals: Vec<_> = self
                .0
                .iter()
                .filter(|(_, line, ..)| *line as usize == number)
                .copied()
                .collect();
            arrivals.sort_unstable();
            arrivals
        };
        let Some(first) = lines.first().map(|(number, _)| of_line(*number)) else {
            return Vec::new();
        };
        let from = first.len().saturating_sub(SHOWN) / 2;
        let shown = &first[from..first.len().min(from + SHOWN)];
        let (Some(begin), Some(end)) = (shown.first(), shown.last()) else {
            return Vec::new();
        };
        let window = begin.0..=end.0;
        lines
            .iter()
            .map(|(number, name)| LineOwners {
                number: *number,
                name: name.clone(),
                arrivals: of_line(*number)
                    .into_iter()
                    .filter(|(ticks, ..)| window.contains(ticks))
                    .map(|(ticks, _, core, alone)| Arrival {
                        ns: ticks / TICKS,
                        core: core.into(),
                        alone,
                    })
                    .collect(),
            })
            .collect()
    }
}
