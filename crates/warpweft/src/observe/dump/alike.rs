//! Findings that say the same of many tasks become one, and those that are certain come first.
//!
//! The second look of a dump compares what is said of single tasks. So this is done afterwards.

use super::groups::Groups;
use super::{Dump, Finding, TaskDump, WaitDump};
use std::mem::discriminant;

impl Dump {
    /// Puts findings of single tasks together where their tasks wait for the same, and those that are certain
    /// before the others.
    pub(crate) fn settle(&mut self) {
        let (mut lost, mut abandoned) = (Vec::new(), Vec::new());
        self.findings.retain_mut(|finding| {
            let all = match finding {
                Finding::NobodyCanWake { .. } => &mut lost,
                Finding::Abandoned { .. } => &mut abandoned,
                _ => return true,
            };
            all.extend_from_slice(finding.tasks());
            false
        });
        let lost = by_what(&self.tasks, lost).into_iter();
        let abandoned = by_what(&self.tasks, abandoned).into_iter();
        self.findings
            .extend(lost.map(|tasks| Finding::NobodyCanWake { tasks }));
        self.findings
            .extend(abandoned.map(|tasks| Finding::Abandoned { tasks }));
        let findings = std::mem::take(&mut self.findings).into_iter();
        let (mut certain, others): (Vec<_>, Vec<_>) = findings.partition(Finding::is_certain);
        certain.extend(others);
        self.findings = certain;
    }
}

/// Returns the tasks in groups: those of one group wait for the same objects, in the same way. Those that
/// wait for nothing known are of one spawn site.
pub(super) fn by_what(tasks: &[TaskDump], numbers: Vec<usize>) -> Vec<Vec<usize>> {
    let mut all = Groups::default();
    let mut last: Option<(usize, usize)> = None;
    for number in numbers {
        let task = &tasks[number];
        // Often very many that follow each other wait for one object.
        if let Some((before, group)) = last
            && is_alike(&tasks[before], task)
        {
            all.groups[group].push(number);
            continue;
        }
        let of = |wait: &WaitDump| (wait.object, wait.on.name());
        let open: Vec<_> = task.waits.iter().filter(|wait| !wait.told).map(of).collect();
        let site = task.spawned_at.filter(|_| open.is_empty());
        let site = site.map_or(0, |site| std::ptr::from_ref(site).addr());
        last = Some((number, all.add((site, open), number)));
    }
    all.groups
}

/// Both wait for one known object, the same one, in the same way.
fn is_alike(one: &TaskDump, other: &TaskDump) -> bool {
    let ([one], [other]) = (&one.waits[..], &other.waits[..]) else {
        return false;
    };
    let of = |wait: &WaitDump| (wait.object, discriminant(&wait.on), wait.told);
    !one.told && of(one) == of(other)
}
