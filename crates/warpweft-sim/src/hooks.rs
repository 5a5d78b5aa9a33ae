//! Parts of the program that are named, such as the hooks of a policy: how often each ran, and how long its
//! accesses waited for lines.

use crate::machine::TICKS;

/// A named part of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookReport {
    /// Its name.
    pub name: String,
    /// How often it ran.
    pub calls: u64,
    /// How long it took over all threads, in nanoseconds.
    pub time_ns: u64,
    /// How long it waited for lines, or for its stores before a read-modify-write, in nanoseconds.
    pub wait_ns: u64,
    /// How often they missed.
    pub misses: u64,
}

/// Counts of a part, in ticks.
#[derive(Debug, Clone)]
struct Part {
    name: &'static str,
    calls: u64,
    time: u64,
    wait: u64,
    misses: u64,
}

/// All parts, in the order in which they ran first.
#[derive(Debug, Default)]
pub(crate) struct Hooks(Vec<Part>);

impl Hooks {
    /// A part begins. Returns its number.
    pub(crate) fn begins(&mut self, name: &'static str) -> usize {
        let number = self.number(name);
        self.0[number].calls += 1;
        number
    }

    /// A part ends after this number of ticks.
    pub(crate) fn ends(&mut self, number: usize, ticks: u64) {
        self.0[number].time += ticks;
    }

    fn number(&mut self, name: &'static str) -> usize {
        if let Some(number) = self.0.iter().position(|part| part.name == name) {
            return number;
        }
        self.0.push(Part {
            name,
            calls: 0,
            time: 0,
            wait: 0,
            misses: 0,
        });
        self.0.len() - 1
    }

    /// A wait within a part, for a line or for stores.
    pub(crate) fn waited(&mut self, number: usize, ticks: u64, is_miss: bool) {
        let part = &mut self.0[number];
        part.wait += ticks;
        part.misses += u64::from(is_miss);
    }

    /// Those that waited the longest come first.
    pub(crate) fn report(&self) -> Vec<HookReport> {
        let mut report: Vec<HookReport> = Vec::new();
        for part in &self.0 {
            let name = short(part.name);
            let (time_ns, wait_ns) = (part.time / TICKS, part.wait / TICKS);
            // Several places of the program may call the same hook.
            match report.iter_mut().find(|known| known.name == name) {
                Some(known) => {
                    known.calls += part.calls;
                    known.time_ns += time_ns;
                    known.wait_ns += wait_ns;
                    known.misses += part.misses;
                }
                None => report.push(HookReport {
                    name,
                    calls: part.calls,
                    time_ns,
                    wait_ns,
                    misses: part.misses,
                }),
            }
        }
        report.sort_by(|a, b| b.wait_ns.cmp(&a.wait_ns).then_with(|| a.name.cmp(&b.name)));
        report
    }
}

/// The last name of a path that is not one of the compiler's: `next` of `<a::Fifo as b::Policy>::next`.
fn short(path: &str) -> String {
    let mut depth = 0_u32;
    let plain: String = path
        .chars()
        .filter(|letter| {
            let inside = depth > 0 || *letter == '<';
            match letter {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            !inside
        })
        .collect();
    let names = plain
        .split("::")
        .filter(|name| !name.is_empty() && !name.starts_with('{'));
    names.last().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn the_name_of_a_hook_is_the_last_one_that_a_person_gave() {
        assert_eq!(short("<a::Fifo as b::Policy>::next"), "next");
        assert_eq!(short("a::Worker<P>::push_anyhow::{{closure}}"), "push_anyhow");
        assert_eq!(short("<a::Stealing<a::X<b::Y>> as b::Policy>::search"), "search");
        assert_eq!(short("count"), "count");
    }
}
