//! What a check of cooperative code costs in machine code: functions with checks against the same without,
//! from an example.
//!
//! The way through a function on which nothing is due is its text from the top to the first `ret`, as long as
//! what is due is further down: the jumps there are not taken. A turn of a loop is the text from where
//! the loop jumps back to, to that jump.

use super::{EXAMPLE, code_of};
use crate::run;
use anyhow::{Context as _, Result, ensure};
use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// The most instructions that a check may be.
const MOST: usize = 3;

/// Prints what the checks add, and demands that it is not more than [`MOST`].
pub(super) fn run(file: &object::File<'_>) -> Result<()> {
    let count = |name: &str, count: fn(&[u8], u64) -> Option<usize>| {
        let name = format!("{EXAMPLE}::{name}");
        let functions = code_of(file, &name)?;
        let [(_, address, code)] = functions[..] else {
            anyhow::bail!("{} functions are called {name}, not one", functions.len());
        };
        count(code, address).with_context(|| format!("{name} does not have the form that is counted"))
    };
    let mut wrong = Vec::new();
    for (place, counted) in [("entry", way as fn(&[u8], u64) -> Option<usize>), ("turn", turn)] {
        let plain = count(&format!("plain_{place}"), counted)?;
        let checked = count(&format!("checked_{place}"), counted)?;
        ensure!(
            plain < checked,
            "the {place} with checks is no longer than the one without"
        );
        let check = checked - plain;
        println!("a check is {check} instructions at {place:5} ({plain} without, {checked} with)");
        if check > MOST {
            wrong.push(format!("{place}: {check} instructions, more than {MOST}"));
        }
    }
    run::complain("checks cost too much", &wrong)
}

/// The instructions from the top to the first `ret`.
fn way(code: &[u8], address: u64) -> Option<usize> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let before = decoder
        .iter()
        .position(|it| it.flow_control() == FlowControl::Return)?;
    Some(before + 1)
}

/// The instructions of the shortest loop: the text between a conditional jump back and where it leads.
fn turn(code: &[u8], address: u64) -> Option<usize> {
    let text: Vec<_> = Decoder::with_ip(64, code, address, DecoderOptions::NONE)
        .iter()
        .collect();
    let loops = text.iter().enumerate().filter_map(|(at, it)| {
        let back = it.flow_control() == FlowControl::ConditionalBranch && it.near_branch_target() <= it.ip();
        let head = text
            .iter()
            .position(|other| other.ip() == it.near_branch_target())?;
        // Else it is no loop, or what is due is inside of it.
        let straight = !text
            .get(head..at)?
            .iter()
            .any(|it| it.flow_control() == FlowControl::Call);
        (back && straight).then_some(at + 1 - head)
    });
    loops.min()
}

#[cfg(test)]
mod tests {
    use super::{turn, way};

    const CODE: [u8; 16] = [
        0x31, 0xc0, // xor eax, eax
        0xff, 0xc0, // inc eax            ◀─┐
        0x83, 0xe9, 0x02, // sub ecx, 2     │
        0x78, 0x03, // js the call          │
        0x75, 0xf7, // jne ─────────────────┘
        0xc3, // ret
        0xff, 0xd0, // call rax
        0xeb, 0xf7, // jmp to the jne
    ];

    #[test]
    fn the_way_and_the_turn_are_counted() {
        assert_eq!(way(&CODE, 0x1000), Some(6));
        assert_eq!(turn(&CODE, 0x1000), Some(4));
        assert_eq!(way(&CODE[..11], 0x1000), None);
        assert_eq!(turn(&CODE[11..], 0x1000), None);
    }
}
