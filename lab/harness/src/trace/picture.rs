//! `trace svg`: the timeline as a separate picture, for a document. It follows the reader's light or dark
//! scheme.

use super::timeline::{Lane, Slice, Timeline};
use crate::report::escape;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 26.0;
const LANE: f64 = 38.0;
const BAR: f64 = 22.0;
const DEPTH: f64 = 34.0;
/// The colours of names, by their share of the time; further names are grey.
const COLOURS: [&str; 6] = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2"];
/// Two arrows that begin or end closer together than this are one, in pixels.
const ARROW: f64 = 3.0;

/// Draws the part of a timeline from one moment to another, in nanoseconds.
pub(super) fn svg(timeline: &Timeline, from: u64, to: u64) -> String {
    let drawing = Drawing {
        timeline,
        from,
        to: to.max(from + 1),
        names: most(timeline, from, to),
    };
    drawing.draw()
}

/// Returns the names of steps in that part, those that ran longest first.
fn most(timeline: &Timeline, from: u64, to: u64) -> Vec<usize> {
    let mut times = vec![0_u64; timeline.names.len()];
    for slice in timeline.lanes.iter().flat_map(|lane| &lane.slices) {
        if slice.task != 0 && slice.start < to && slice.start + slice.lasts > from {
            times[slice.name] += slice.lasts.max(1);
        }
    }
    let mut names: Vec<usize> = (0..times.len()).filter(|&name| times[name] > 0).collect();
    names.sort_by_key(|&name| std::cmp::Reverse(times[name]));
    names
}

struct Drawing<'a> {
    timeline: &'a Timeline,
    from: u64,
    to: u64,
    names: Vec<usize>,
}

impl Drawing<'_> {
    fn x(&self, ns: u64) -> f64 {
        let part = (ns as f64 - self.from as f64) / (self.to - self.from) as f64;
        LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn sees(&self, start: u64, end: u64) -> bool {
        start <= self.to && end >= self.from
    }

    /// Returns true for workers, and for other lanes with something in that part.
    fn shows(&self, lane: &Lane) -> bool {
        let name = lane.name.rsplit(" / ").next().unwrap_or_default();
        let mut slices = lane.slices.iter();
        name.starts_with("worker ")
            || slices.any(|slice| self.sees(slice.start, slice.start + slice.lasts))
            || lane
                .instants
                .iter()
                .any(|instant| self.sees(instant.0, instant.0))
    }

    fn draw(&self) -> String {
        let lanes: Vec<(usize, &Lane)> = (self.timeline.lanes.iter().enumerate())
            .filter(|(_, lane)| self.shows(lane))
            .collect();
        let below = TOP + lanes.len() as f64 * LANE;
        let counters = self.timeline.counters.iter().take(1);
        let bottom = below
            + if self.timeline.counters.is_empty() {
                0.0
            } else {
                DEPTH + 14.0
            };
        let height = bottom + 30.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">\n\
             <title>A timeline: workers as lanes, steps of tasks as bars, wakes as arrows</title>\n\
             <style>text{{fill:#333}}.soft{{fill:#777}}.rule{{stroke:#ddd}}.arrow{{stroke:#333;fill:none;\
             stroke-opacity:.55}}.head{{fill:#333;fill-opacity:.7}}.sleep{{fill:#999;fill-opacity:.25}}\
             .depth{{fill:#4e79a7;fill-opacity:.45}}.other{{fill:#aaa}}\
             @media(prefers-color-scheme:dark){{text{{fill:#ddd}}.soft{{fill:#999}}.rule{{stroke:#444}}\
             .arrow{{stroke:#ddd}}.head{{fill:#ddd}}}}</style>\n"
        );
        self.marks(&mut svg, bottom);
        for (row, (_, lane)) in lanes.iter().enumerate() {
            self.lane(&mut svg, TOP + row as f64 * LANE, lane);
        }
        self.arrows(&mut svg, &lanes);
        for counter in counters {
            self.depth(&mut svg, below + 8.0, &counter.values);
        }
        self.legend(&mut svg, height - 10.0);
        svg.push_str("</svg>\n");
        svg
    }

    /// Marks of time at 1, 2 or 5 times a power of ten.
    fn marks(&self, svg: &mut String, bottom: f64) {
        let span = (self.to - self.from) as f64;
        let power = 10_f64.powf((span / 8.0).log10().floor()).max(1.0);
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|times| times * power)
            .into_iter()
            .find(|step| span / step <= 9.0)
            .unwrap_or(span)
            .max(1.0) as u64;
        let mut ns = self.from.div_ceil(step) * step;
        while ns <= self.to {
            let x = self.x(ns);
            let text = time(ns - self.from);
            *svg += &format!(
                "<path class=\"rule\" d=\"M{x:.1} {:.1}V{bottom:.1}\"/><text class=\"soft\" x=\"{:.1}\" \
                     y=\"14\" font-size=\"11\">{text}</text>\n",
                TOP - 6.0,
                (x + 3.0).min(WIDTH - 46.0),
            );
            ns += step;
        }
    }

    fn lane(&self, svg: &mut String, top: f64, lane: &Lane) {
        let name = lane.name.rsplit(" / ").next().unwrap_or_default();
        let (y, middle) = (top + (LANE - BAR) / 2.0, top + LANE / 2.0 + 4.0);
        *svg += &format!("<text x=\"8\" y=\"{middle:.1}\">{}</text>\n", escape(name));
        let mut slices: Vec<&Slice> = lane.slices.iter().collect();
        slices.sort_by_key(|slice| slice.start);
        let mut drawn = 0.0;
        for slice in slices {
            if !self.sees(slice.start, slice.start + slice.lasts) {
                continue;
            }
            let (left, right) = (self.x(slice.start), self.x(slice.start + slice.lasts));
            // A bar for each third of a pixel is enough.
            if right < drawn + 0.3 {
                continue;
            }
            let wide = (right - left).max(0.7);
            drawn = left + wide;
            let colour = match self.colour(slice) {
                Some(colour) => format!("fill=\"{colour}\""),
                None if slice.task == 0 => "class=\"sleep\"".to_owned(),
                None => "class=\"other\"".to_owned(),
            };
            *svg += &format!(
                "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{BAR}\" {colour}/>\n"
            );
        }
    }

    fn colour(&self, slice: &Slice) -> Option<&'static str> {
        let place = self
            .names
            .iter()
            .position(|&name| name == slice.name && slice.task != 0)?;
        COLOURS.get(place).copied()
    }

    /// Arrows from pushes to the steps that follow, those between two lanes and those over some distance.
    fn arrows(&self, svg: &mut String, lanes: &[(usize, &Lane)]) {
        let row = |lane| lanes.iter().position(|(number, _)| *number == lane);
        let mut flows: Vec<_> = self.timeline.flows.iter().collect();
        flows.sort_by_key(|flow| (flow.from, flow.to, flow.since));
        let mut last: Option<(usize, usize, f64, f64)> = None;
        for flow in flows {
            let (Some(from), Some(to)) = (row(flow.from), row(flow.to)) else {
                continue;
            };
            if flow.since < self.from || flow.at > self.to {
                continue;
            }
            let (x1, x2) = (self.x(flow.since), self.x(flow.at));
            let is_near = last.is_some_and(|(a, b, c, d)| {
                (a, b) == (from, to) && (x1 - c).abs() < ARROW && (x2 - d).abs() < ARROW
            });
            if is_near || (from == to && x2 - x1 < ARROW) {
                continue;
            }
            last = Some((from, to, x1, x2));
            let edge = (LANE - BAR) / 2.0;
            let top = |row: usize| TOP + row as f64 * LANE;
            // Downwards from the lower edge of a bar, upwards from its upper edge.
            let (y1, y2, tip) = match from.cmp(&to) {
                std::cmp::Ordering::Less => (top(from) + LANE - edge, top(to) + edge, -4.0),
                std::cmp::Ordering::Equal => (top(from) + edge, top(to) + edge, -4.0),
                std::cmp::Ordering::Greater => (top(from) + edge, top(to) + LANE - edge, 4.0),
            };
            let bend = if from == to { -10.0 } else { 0.0 };
            let middle = (x1 + x2) / 2.0;
            *svg += &format!(
                "<path class=\"arrow\" d=\"M{x1:.1} {y1:.1}C{middle:.1} {:.1} {middle:.1} {:.1} {x2:.1} {:.1}\"/>\
                     <path class=\"head\" d=\"M{x2:.1} {y2:.1}l-2.5 {tip}h5z\"/>\n",
                y1 + bend,
                y2 + bend,
                y2 + tip,
            );
        }
    }

    /// The number of runnable tasks over time.
    fn depth(&self, svg: &mut String, top: f64, values: &[(u64, i64)]) {
        let most = values.iter().map(|value| value.1).max().unwrap_or(0).max(1);
        let bottom = top + DEPTH;
        let y = |value: i64| bottom - value as f64 / most as f64 * DEPTH;
        let mut path = format!("M{LEFT} {bottom:.1}");
        let mut last = 0;
        for &(ns, value) in values {
            if ns >= self.from && ns <= self.to {
                path += &format!("L{:.1} {:.1}V{:.1}", self.x(ns), y(last), y(value));
            }
            last = value;
        }
        path += &format!("V{bottom:.1}Z");
        *svg += &format!(
            "<path class=\"depth\" d=\"{path}\"/><text x=\"8\" y=\"{:.1}\">runnable</text>\
                 <text class=\"soft\" x=\"8\" y=\"{:.1}\" font-size=\"11\">at most {most}</text>\n",
            top + 14.0,
            top + 29.0,
        );
    }

    /// What the colours are.
    fn legend(&self, svg: &mut String, y: f64) {
        let mut x = LEFT;
        for (&name, colour) in self.names.iter().zip(COLOURS) {
            let name = &self.timeline.names[name];
            // About the width of the letters.
            let wide = 30.0 + 6.6 * name.chars().count() as f64;
            if x + wide > WIDTH {
                break;
            }
            *svg += &format!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"10\" fill=\"{colour}\"/>\
                     <text x=\"{:.1}\" y=\"{y:.1}\">{}</text>\n",
                y - 9.0,
                x + 17.0,
                escape(name),
            );
            x += wide;
        }
    }
}

fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", ns as f64 / 1e3),
        _ => format!("{} ms", ns as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read::timeline;

    #[test]
    fn a_picture_has_lanes_bars_arrows_and_a_legend() {
        let timeline = timeline(crate::trace::EXAMPLE).expect("a trace");
        let svg = svg(&timeline, 0, timeline.span);
        for part in [
            "worker 0",
            "worker 1",
            "class=\"arrow\"",
            "class=\"depth\"",
            ">answer<",
            "dark",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(svg.matches("<rect").count() > 5);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("<script"));
    }

    #[test]
    fn a_part_of_no_length_and_names_with_markup_are_drawn() {
        let mut timeline = timeline(crate::trace::EXAMPLE).expect("a trace");
        timeline
            .names
            .iter_mut()
            .for_each(|name| *name = "<b>&".to_owned());
        let svg = svg(&timeline, 5, 5);
        assert!(!svg.contains("<b>") && !svg.contains("NaN"));
        let all = super::svg(&timeline, 0, timeline.span);
        assert!(all.contains("&lt;b&gt;&amp;"));
    }

    #[test]
    fn times_have_their_unit() {
        assert_eq!(
            [time(5), time(1_500), time(2_000_000)],
            ["5 ns", "1.5 µs", "2 ms"]
        );
    }
}
