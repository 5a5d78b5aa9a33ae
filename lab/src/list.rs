//! `warpweft list`: what there is to choose from.

use std::io::{self, BufWriter, Write};

use crate::error::LabError;
use crate::peers::{self, RUNTIMES};
use crate::text::Table;
use crate::workloads::params::Domain;
use crate::workloads::spec::{DEFAULT, WORKLOADS};

/// Prints workloads, runtimes and policies.
pub(crate) fn run() -> Result<(), LabError> {
    let mut output = BufWriter::new(io::stdout().lock());
    writeln!(output, "Workloads (WORKLOAD[/VARIANT] [KEY=VALUE]...)")?;
    for workload in WORKLOADS {
        let default = if workload.name == DEFAULT {
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
    for runtime in RUNTIMES {
        let missing = runtime
            .missing()
            .map(|reason| format!(" ({reason})"))
            .unwrap_or_default();
        table.row(vec![
            runtime.name().to_owned(),
            format!("{}{missing}", runtime.about()),
        ]);
    }
    table.print(&mut output)?;
    writeln!(output, "\nPolicies of warpweft (--policy POLICY)\n")?;
    let mut table = Table::of_text();
    for preset in peers::preset_policies() {
        table.row(vec![
            preset.name().to_owned(),
            format!("{} ({})", preset.about(), preset.source()),
        ]);
    }
    table.print(&mut output)?;
    writeln!(output, "\n  {}", peers::policy_grammar())?;
    output.flush()?;
    Ok(())
}
