//! Small pieces of SVG: text that is safe, scales that know their ticks, marks, and labels that do not
//! overlap.

/// Text, escaped for HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Maps values to pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// A linear scale over `values` with some room at both ends, or from 0 if `zero`.
    pub(super) fn linear(values: &[f64], zero: bool, from: f64, to: f64) -> Self {
        let (least, most) = extent(values);
        let room = ((most - least) * 0.1).max(most.abs() * 0.02).max(1e-9);
        let low = if zero { 0.0 } else { (least - room).max(0.0) };
        Self {
            low,
            high: most + room,
            from,
            to,
            log: false,
        }
    }

    /// A logarithmic scale over `values`, with room at both ends.
    pub(super) fn log(values: &[f64], from: f64, to: f64) -> Self {
        let (least, most) = extent(values);
        let (least, most) = (least.max(1.0), most.max(1.0));
        let room = (most / least).powf(0.08).max(1.15);
        Self {
            low: least / room,
            high: most * room,
            from,
            to,
            log: true,
        }
    }

    /// The linear scale between exactly these values.
    pub(super) fn exact(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self {
            low,
            high,
            from,
            to,
            log: false,
        }
    }

    /// The place of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Round values within the scale, about `about` of them.
    pub(super) fn ticks(&self, about: usize) -> Vec<f64> {
        let within = |value: &f64| *value >= self.low * (1.0 - 1e-9) && *value <= self.high * (1.0 + 1e-9);
        if self.log {
            let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let of = |steps: &[f64]| -> Vec<f64> {
                decades
                    .clone()
                    .flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)))
                    .filter(within)
                    .collect()
            };
            let candidates = [
                of(&[1.0]),
                of(&[1.0, 3.0]),
                of(&[1.0, 2.0, 5.0]),
                of(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]),
            ];
            // The finest of these that is not too many.
            let best = candidates
                .iter()
                .rev()
                .find(|ticks| ticks.len() <= about)
                .or(candidates.first());
            return best.cloned().unwrap_or_default();
        }
        let rough = (self.high - self.low) / about.max(1) as f64;
        let unit = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .iter()
            .map(|factor| factor * unit)
            .find(|step| *step >= rough);
        let step = step.unwrap_or(unit * 10.0);
        let first = (self.low / step).ceil() as i64;
        (first..)
            .map(|number| number as f64 * step)
            .take_while(|value| *value <= self.high + step * 1e-9)
            .collect()
    }
}

/// The least and the greatest value; 0 and 1 if there are none.
fn extent(values: &[f64]) -> (f64, f64) {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    match (finite().reduce(f64::min), finite().reduce(f64::max)) {
        (Some(least), Some(most)) => (least, most),
        _ => (0.0, 1.0),
    }
}

/// The marks: one shape per worker count.
const SHAPES: usize = 5;

/// A mark at a point; `class` gives its colour, `title` what a pointer shows.
pub(super) fn mark(svg: &mut String, shape: usize, x: f64, y: f64, class: &str, title: &str) {
    let r = 6.0;
    let path = match shape % SHAPES {
        0 => format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="{:.1}"/>"#, r * 0.92),
        1 => {
            format!(
                r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}"/>"#,
                x - r * 0.85,
                y - r * 0.85,
                r * 1.7,
                r * 1.7
            )
        }
        2 => format!(
            r#"<path d="M{x:.1} {:.1}L{:.1} {:.1}H{:.1}Z"/>"#,
            y - r * 1.15,
            x + r * 1.1,
            y + r * 0.8,
            x - r * 1.1
        ),
        3 => format!(
            r#"<path d="M{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}Z"/>"#,
            y - r * 1.25,
            x + r * 1.25,
            y + r * 1.25,
            x - r * 1.25
        ),
        _ => format!(
            r#"<path d="M{x:.1} {:.1}L{:.1} {:.1}H{:.1}Z"/>"#,
            y + r * 1.15,
            x + r * 1.1,
            y - r * 0.8,
            x - r * 1.1
        ),
    };
    *svg += &format!(
        r#"<g class="mark {class}"><title>{}</title>{path}</g>"#,
        escape(title)
    );
}

/// A rectangle that something occupies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    /// Left, top, right, bottom.
    pub(super) sides: [f64; 4],
}

impl Area {
    /// The area of a mark.
    pub(super) fn of_mark(x: f64, y: f64) -> Self {
        Self {
            sides: [x - 8.0, y - 8.0, x + 8.0, y + 8.0],
        }
    }

    fn meets(&self, other: &Self) -> bool {
        let [left, top, right, bottom] = self.sides;
        let [other_left, other_top, other_right, other_bottom] = other.sides;
        left < other_right && other_left < right && top < other_bottom && other_top < bottom
    }

    fn lies_in(&self, frame: &Self) -> bool {
        let [left, top, right, bottom] = self.sides;
        left >= frame.sides[0] && top >= frame.sides[1] && right <= frame.sides[2] && bottom <= frame.sides[3]
    }
}

/// Width of a label, estimated: no font is at hand here. Generous, so that nothing touches.
pub(super) fn label_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56
}

/// Finds a place beside the point where the label meets nothing that is there already; notes it as taken.
/// Returns the left end of the text's baseline, or `None` if the surroundings are full.
pub(super) fn place_label(
    taken: &mut Vec<Area>,
    frame: &Area,
    (x, y): (f64, f64),
    text: &str,
    size: f64,
) -> Option<(f64, f64)> {
    let (width, gap) = (label_width(text, size), 10.0);
    let beside = [
        (x + gap, y + size * 0.35),
        (x - gap - width, y + size * 0.35),
        (x - width / 2.0, y - gap),
        (x - width / 2.0, y + gap + size * 0.75),
        (x + gap * 0.7, y - gap * 0.7),
        (x + gap * 0.7, y + gap * 0.7 + size * 0.7),
        (x - gap * 0.7 - width, y - gap * 0.7),
        (x - gap * 0.7 - width, y + gap * 0.7 + size * 0.7),
    ];
    for (left, base) in beside {
        let area = Area {
            sides: [
                left - 1.0,
                base - size * 0.8,
                left + width + 1.0,
                base + size * 0.25,
            ],
        };
        if area.lies_in(frame) && !taken.iter().any(|other| other.meets(&area)) {
            taken.push(area);
            return Some((left, base));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out() {
        assert_eq!(
            escape(r#"<a href="x">&'"#),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;"
        );
    }

    #[test]
    fn linear_scales_have_round_ticks_inside() {
        let scale = Scale::linear(&[1.2e6, 1.9e6], false, 0.0, 100.0);
        let ticks = scale.ticks(5);
        assert!((3..=8).contains(&ticks.len()), "{ticks:?}");
        for tick in &ticks {
            assert!((-0.5..=100.5).contains(&scale.at(*tick)));
            assert!((tick / 1e5).fract().abs() < 1e-6, "{tick} is not round");
        }
        assert!((Scale::exact(0.0, 4.0, 0.0, 100.0).at(1.0) - 25.0).abs() < 1e-9);
        assert!((Scale::linear(&[5.0], true, 10.0, 20.0).at(0.0) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn logarithmic_scales_space_factors_evenly() {
        let scale = Scale::log(&[1e3, 1e6], 0.0, 100.0);
        let step = scale.at(1e4) - scale.at(1e3);
        assert!((scale.at(1e5) - scale.at(1e4) - step).abs() < 1e-9);
        assert!(scale.ticks(6).contains(&1e4));
        let narrow = Scale::log(&[200e3, 400e3], 0.0, 100.0).ticks(6);
        assert!(narrow.len() >= 2, "{narrow:?}");
    }

    #[test]
    fn empty_and_single_values_have_a_scale() {
        for values in [&[][..], &[0.0], &[7.0]] {
            for scale in [
                Scale::linear(values, true, 0.0, 9.0),
                Scale::log(values, 0.0, 9.0),
            ] {
                assert!(scale.at(1.0).is_finite());
                assert!(scale.ticks(5).len() < 50);
            }
        }
    }

    #[test]
    fn labels_never_meet() {
        let frame = Area {
            sides: [0.0, 0.0, 400.0, 200.0],
        };
        let mut random = fastrand::Rng::with_seed(2);
        let points: Vec<(f64, f64)> = (0..40)
            .map(|_| (random.f64() * 400.0, random.f64() * 200.0))
            .collect();
        let mut taken: Vec<Area> = points.iter().map(|(x, y)| Area::of_mark(*x, *y)).collect();
        let marks = taken.len();
        let placed = points
            .iter()
            .filter_map(|point| place_label(&mut taken, &frame, *point, "fifo · 2", 12.0))
            .count();
        assert!(placed > 5);
        for (at, area) in taken.iter().enumerate().skip(marks) {
            assert!(
                taken
                    .iter()
                    .enumerate()
                    .all(|(other, area2)| other == at || !area.meets(area2))
            );
        }
    }
}
