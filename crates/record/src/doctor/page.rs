//! The checks as text for people.

use icecore_text::quantity::things;
use icecore_text::{Page, Style};

use super::check::{Can, Check, State, Verdict};

/// Where the text of a check begins that lacks something, columns.
const INDENT: usize = 12;

/// Writes a line for each check, in groups, and the verdict.
pub(super) fn page(mut page: Page, checks: &[Check], verdict: Verdict, can: &[Can]) -> String {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let (mut group, mut remedy) = ("", None);
    for check in checks {
        if check.group != group {
            if !group.is_empty() {
                page.gap();
            }
            group = check.group;
            page.styled(Style::Bold, group);
        }
        let style = match check.state {
            State::Ok => Style::Good,
            State::Degraded => Style::Warn,
            State::Missing => Style::Bad,
        };
        let state = page.style(style, &format!("{:<8}", check.state.name()));
        page.line(&format!("  {state}  {:<width$}  {}", check.name, check.found));
        if let Some(lacks) = &check.lacks {
            page.sentence(Style::Plain, INDENT, &format!("lacks: {lacks}"));
        }
        if let Some(mends) = &check.remedy {
            // Several checks may need the same command.
            let said = if remedy == Some(mends) { "the same" } else { mends };
            page.line(&format!("{:INDENT$}remedy: {said}", ""));
            remedy = Some(mends);
        }
    }
    page.gap();
    page.line(&conclusion(checks, verdict, can));
    page.finish()
}

fn conclusion(checks: &[Check], verdict: Verdict, can: &[Can]) -> String {
    let lacking = checks.iter().filter(|check| check.state != State::Ok).count();
    let preventing: Vec<&str> =
        checks.iter().filter(|check| check.prevents).map(|check| check.name).collect();
    match verdict {
        Verdict::Ok => "verdict: ok. This user can record the whole machine with all features.".to_owned(),
        Verdict::Degraded => format!(
            "verdict: degraded. This user can record the whole machine; {} of {} found something degraded or missing.",
            lacking,
            things(checks.len() as u64, "check")
        ),
        Verdict::Impossible => format!(
            "verdict: impossible. This user cannot record the machine here, because of: {}.{}",
            preventing.join(", "),
            if can.contains(&Can::OwnProcesses) {
                " It can record a command, and processes of its own (-p, -t), in user mode."
            } else {
                ""
            }
        ),
    }
}
