//! `list`: prints the workloads with their parameters, the runtimes and the policies.

use std::io::{self, BufWriter, Write};

use crate::error::LabError;
use crate::lab::Lab;
use crate::params::Domain;
use crate::text::Table;

/// Prints workloads, runtimes and policies.
pub(crate) fn run(lab: &Lab) -> Result<(), LabError> {
    let mut output = BufWriter::new(io::stdout().lock());
    writeln!(output, "Workloads (WORKLOAD[/VARIANT] [KEY=VALUE]...)")?;
    for workload in lab.workloads.iter().map(|workload| workload.about()) {
        let default = if workload.name == lab.usual {
            "  (the default of explore)"
        } else {
            ""
        };
        writeln!(output, "\n  {}{default}\n    {}", workload.name, workload.about)?;
        let mut table = Table::of_text();
        for param in workload.params {
            let domain = match param.domain {
                Domain::Number { least, most } => format!("{least} to {most}"),
                Domain::Word(words) => words.join(" | "),
                Domain::File => String::from("a file, or none"),
            };
            table.row(vec![
                format!("    {}={}", param.name, param.default),
                format!("{} ({domain})", param.about),
            ]);
        }
        for variant in workload.variants {
            table.row(vec![
                format!("    {}/{}", workload.name, variant.name),
                variant.about.to_owned(),
            ]);
        }
        table.print(&mut output)?;
    }
    writeln!(output, "\nRuntimes (--runtime NAME, or all)\n")?;
    let mut table = Table::of_text();
    for peer in &lab.peers {
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
    let Some((name, policies)) = lab.home() else {
        return Ok(output.flush()?);
    };
    writeln!(output, "\nPolicies of {name} (--policy POLICY)\n")?;
    let mut table = Table::of_text();
    for (name, about) in policies.named() {
        table.row(vec![name.to_owned(), about]);
    }
    table.print(&mut output)?;
    writeln!(output, "\n  {}", policies.grammar())?;
    output.flush()?;
    Ok(())
}
