//! The policies of this project's runtime: which are taken when none is named, and how they are written.

use ::warpweft::PolicySpec;
use harness::{LabError, Policies, Variables, corrected};

use super::{Warpweft, pools};

/// The policy that is taken when none is named.
pub(super) const USUAL: &str = "shortest";

impl Policies for Warpweft {
    fn usual(&self) -> &'static str {
        USUAL
    }

    /// Those that differ most, and the one that learns, to be judged against them.
    fn explored(&self) -> &'static [&'static str] {
        &["shortest", "fifo", "lifo", "fifo-one", "deque", "adaptive"]
    }

    /// The default, and the schedulers of others.
    fn compared(&self, quick: bool) -> &'static [&'static str] {
        if quick {
            return &["shortest", "cforall", "negele"];
        }
        &[
            "shortest",
            "fifo",
            "lifo",
            "cforall",
            "negele",
            "negele-local",
            "go",
            "tokio",
            "libfibre",
        ]
    }

    fn named(&self) -> Vec<(&'static str, String)> {
        let presets = PolicySpec::presets();
        presets
            .map(|preset| (preset.name(), format!("{} ({})", preset.about(), preset.source())))
            .collect()
    }

    fn grammar(&self) -> Vec<&'static str> {
        let mut lines = vec!["POLICY = a name or an order, and options: lifo+steal=one+victims=topology"];
        lines.extend(PolicySpec::grammar());
        lines.push(pools::GRAMMAR);
        lines
    }

    fn variables(&self) -> Option<Variables> {
        Some(Variables {
            policy: "WARPWEFT_POLICY",
            workers: "WARPWEFT_WORKERS",
            stats: "WARPWEFT_STATS",
            measure: "WARPWEFT_MEASURE_STEPS",
            // A program that uses rayon by our crate takes its workers from these first.
            cleared: &["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"],
        })
    }

    /// Those that differ most of the policies that every build has, and two that need a feature.
    fn tried(&self) -> &'static [&'static str] {
        &[
            "shortest",
            "fifo",
            "fifo+steal=one",
            "lifo",
            "lifo+steal=one",
            "slot:4",
            "adaptive",
            "go",
        ]
    }

    fn canonical(&self, text: &str) -> String {
        one_policy(text).map_or_else(|_| text.to_owned(), |spec| spec.to_string())
    }

    fn check(&self, text: &str) -> Result<(), LabError> {
        if pools::are_several(text) {
            return pools::check(text);
        }
        one_policy(text).map(drop)
    }
}

/// The policy of one pool.
pub(super) fn one_policy(text: &str) -> Result<PolicySpec, LabError> {
    text.parse().map_err(|error: ::warpweft::ParsePolicyError| {
        let meant = corrected(text, &words(), |text| text.parse::<PolicySpec>().is_ok());
        let meant = meant.map_or_else(String::new, |text| format!("; did you mean `{text}`?"));
        LabError::Usage(format!("{error}{meant}"))
    })
}

/// All words of which texts of policies are made.
fn words() -> Vec<&'static str> {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    let lines = PolicySpec::grammar().iter();
    let grammar = lines.flat_map(|line| line.split(|letter| !is_letter(letter)));
    let names = PolicySpec::presets().map(::warpweft::Preset::name);
    grammar.filter(|word| word.len() > 2).chain(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_and_all_presets_are_policies() {
        Warpweft.check(USUAL).unwrap();
        let presets: Vec<_> = PolicySpec::presets().collect();
        assert!(presets.len() >= 4, "{presets:?}");
        for preset in &presets {
            Warpweft.check(preset.name()).unwrap();
            assert!(!preset.about().is_empty() && !preset.source().is_empty());
        }
        let compared = [true, false].map(|quick| Warpweft.compared(quick)).concat();
        for text in Warpweft.tried() {
            Warpweft.check(text).unwrap();
        }
        for name in Warpweft.explored().iter().chain(&compared) {
            assert!(presets.iter().any(|preset| preset.name() == *name), "{name}");
        }
    }

    #[test]
    fn a_wrong_policy_is_told_what_would_be_right() {
        let text = Warpweft.check("lifo+stael=one").unwrap_err().to_string();
        assert!(
            text.contains("steal=") && text.contains("did you mean `lifo+steal=one`?"),
            "{text}"
        );
        for (wrong, right) in [
            ("lifoo", "lifo"),
            ("fifo+victims=randon", "fifo+victims=random"),
            ("slto:4", "slot:4"),
        ] {
            let text = Warpweft.check(wrong).unwrap_err().to_string();
            assert!(text.contains(&format!("did you mean `{right}`?")), "{text}");
        }
    }
}
