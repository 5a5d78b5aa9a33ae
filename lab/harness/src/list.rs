//! `list`: prints the workloads with their parameters, the runtimes and the policies.

use std::io::{self, BufWriter, Write};

use clap::Args;
use serde_json::{Value, json};

use crate::error::{LabError, nearest};
use crate::lab::Lab;
use crate::params::Domain;
use crate::text::Table;
use crate::workload::{About, Peer};

/// `list`.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Only what has one of these words in its name, or else in its description; or `workloads`, `runtimes`,
    /// `policies`
    #[arg(value_name = "WORD")]
    words: Vec<String>,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// What is listed.
struct Listed {
    workloads: Vec<&'static About>,
    peers: Vec<&'static dyn Peer>,
    policies: Vec<(&'static str, String)>,
}

impl Listed {
    fn all(lab: &Lab) -> Self {
        Self {
            workloads: lab.workloads.iter().map(|workload| workload.about()).collect(),
            peers: lab.peers.clone(),
            policies: lab
                .home()
                .map(|(_, policies)| policies.named())
                .unwrap_or_default(),
        }
    }

    fn names(&self) -> Vec<&'static str> {
        let workloads = self.workloads.iter().map(|about| about.name);
        let peers = self.peers.iter().map(|peer| peer.info().name);
        let policies = self.policies.iter().map(|(name, _)| *name);
        workloads.chain(peers).chain(policies).collect()
    }

    fn is_empty(&self) -> bool {
        self.workloads.is_empty() && self.peers.is_empty() && self.policies.is_empty()
    }

    /// Only what `fits`, by name and description.
    fn only(mut self, fits: impl Fn(&str, &str) -> bool) -> Self {
        self.workloads.retain(|about| fits(about.name, about.about));
        self.peers
            .retain(|peer| fits(peer.info().name, peer.info().about));
        self.policies.retain(|(name, about)| fits(name, about));
        self
    }

    /// What the words say; an error if there is no such thing.
    fn chosen(lab: &Lab, words: &[String]) -> Result<Self, LabError> {
        let all = Self::all(lab);
        if words.is_empty() {
            return Ok(all);
        }
        let mut chosen = Self {
            workloads: Vec::new(),
            peers: Vec::new(),
            policies: Vec::new(),
        };
        for word in words {
            let lower = word.to_lowercase();
            let with_name = || Self::all(lab).only(|name, _| name.to_lowercase().contains(&lower));
            let found = match lower.as_str() {
                "workloads" => Self {
                    peers: Vec::new(),
                    policies: Vec::new(),
                    ..Self::all(lab)
                },
                "runtimes" => Self {
                    workloads: Vec::new(),
                    policies: Vec::new(),
                    ..Self::all(lab)
                },
                "policies" => Self {
                    workloads: Vec::new(),
                    peers: Vec::new(),
                    ..Self::all(lab)
                },
                _ if with_name().is_empty() => {
                    Self::all(lab).only(|_, about| about.to_lowercase().contains(&lower))
                }
                _ => with_name(),
            };
            if found.is_empty() {
                let nearest = nearest(&lower, &all.names());
                let meant = nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
                return Err(LabError::Usage(format!(
                    "`{word}` is in the name or the description of nothing{meant}"
                )));
            }
            chosen.workloads.extend(found.workloads);
            chosen.peers.extend(found.peers);
            chosen.policies.extend(found.policies);
        }
        Ok(chosen)
    }
}

/// Prints workloads, runtimes and policies.
pub(crate) fn run(lab: &Lab, arguments: &ListArgs) -> Result<(), LabError> {
    let listed = Listed::chosen(lab, &arguments.words)?;
    let mut output = BufWriter::new(io::stdout().lock());
    if arguments.json {
        let text = serde_json::to_string_pretty(&document(lab, &listed)).map_err(io::Error::from)?;
        writeln!(output, "{text}")?;
        return Ok(output.flush()?);
    }
    workloads(lab, &listed, &mut output)?;
    if !listed.peers.is_empty() {
        writeln!(output, "\nRuntimes (--runtime NAME, or all)\n")?;
        let mut table = Table::of_text();
        for peer in &listed.peers {
            let missing = peer
                .missing()
                .map(|reason| format!(" ({reason})"))
                .unwrap_or_default();
            table.row(vec![
                peer.info().name.to_owned(),
                format!("{}{missing}", peer.info().about),
            ]);
        }
        table.print(&mut output)?;
    }
    if let (Some((name, policies)), false) = (lab.home(), listed.policies.is_empty()) {
        writeln!(output, "\nPolicies of {name} (--policy POLICY)\n")?;
        let mut table = Table::of_text();
        for (name, about) in listed.policies {
            table.row(vec![name.to_owned(), about]);
        }
        table.print(&mut output)?;
        writeln!(output)?;
        for line in policies.grammar() {
            writeln!(output, "  {line}")?;
        }
    }
    Ok(output.flush()?)
}

fn workloads(lab: &Lab, listed: &Listed, output: &mut dyn Write) -> Result<(), LabError> {
    if listed.workloads.is_empty() {
        return Ok(());
    }
    writeln!(output, "Workloads (WORKLOAD[/VARIANT] [KEY=VALUE]...)")?;
    for workload in &listed.workloads {
        let default = if workload.name == lab.usual {
            "  (the default of explore)"
        } else {
            ""
        };
        writeln!(output, "\n  {}{default}\n    {}", workload.name, workload.about)?;
        let mut table = Table::of_text();
        for param in workload.params {
            table.row(vec![
                format!("    {}={}", param.name, param.default),
                format!("{} ({})", param.about, domain(param.domain)),
            ]);
        }
        for variant in workload.variants {
            table.row(vec![
                format!("    {}/{}", workload.name, variant.name),
                variant.about.to_owned(),
            ]);
        }
        table.print(output)?;
    }
    Ok(())
}

fn domain(domain: Domain) -> String {
    match domain {
        Domain::Number { least, most } => format!("{least} to {most}"),
        Domain::Word(words) => words.join(" | "),
        Domain::File => String::from("a file, or none"),
    }
}

/// The same as data.
fn document(lab: &Lab, listed: &Listed) -> Value {
    let workload = |about: &&About| {
        let param = |param: &crate::params::Param| {
            json!({
                "name": param.name,
                "about": param.about,
                "default": param.default,
                "values": domain(param.domain),
            })
        };
        let variant = |variant: &crate::params::Variant| {
            let set: serde_json::Map<_, _> = variant
                .set
                .iter()
                .map(|(name, value)| ((*name).to_owned(), json!(value)))
                .collect();
            json!({ "name": variant.name, "about": variant.about, "set": set })
        };
        json!({
            "name": about.name,
            "about": about.about,
            "unit": about.unit,
            "latency": about.latency,
            "usual": about.name == lab.usual,
            "parameters": about.params.iter().map(param).collect::<Vec<_>>(),
            "variants": about.variants.iter().map(variant).collect::<Vec<_>>(),
        })
    };
    let peer = |peer: &&dyn Peer| {
        let info = peer.info();
        json!({
            "name": info.name,
            "about": info.about,
            "has_policies": peer.policies().is_some(),
            "missing": peer.missing(),
        })
    };
    let policy = |(name, about): &(&str, String)| json!({ "name": name, "about": about });
    json!({
        "workloads": listed.workloads.iter().map(workload).collect::<Vec<_>>(),
        "runtimes": listed.peers.iter().map(peer).collect::<Vec<_>>(),
        "policies": listed.policies.iter().map(policy).collect::<Vec<_>>(),
    })
}
