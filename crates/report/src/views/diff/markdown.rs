//! Writes the page for a pull request.

use super::Diff;
use icecore_profile::named::names::short;
use icecore_text::quantity::things;

impl Diff {
    /// Writes Markdown for GitHub and GitLab.
    pub fn markdown(&self) -> String {
        let is_of_cpu = self.is_cpu_time || self.weight_unit == "cycles";
        let what = if is_of_cpu { "CPU profile" } else { "Profile" };
        let mut text = format!("### {what}: before and after\n\n");
        let (_, found) = self.found();
        text.push_str(&format!("**{found}** {}\n\n", self.detectable()));
        for (label, total) in self.totals().iter().filter(|(label, _)| !label.is_empty()) {
            text.push_str(&format!("- {label}: {total}\n"));
        }
        let (rows, _) = self.shown();
        if !rows.is_empty() {
            text.push_str(&format!("\n| before | after | change | 95% interval | | {} | image |\n", self.by));
            text.push_str("|---:|---:|---:|---:|---|---|---|\n");
            for row in rows {
                let cells = self.cells(row).join(" | ");
                let (name, image) = (code(&row.called()), row.image.as_deref().map(|path| code(short(path))));
                text.push_str(&format!(
                    "| {cells} | {} | {name} | {} |\n",
                    row.mark(),
                    image.unwrap_or_default()
                ));
            }
        }
        for check in self.fail_on.iter().filter(|check| check.holds()) {
            let causes: Vec<String> = check.rows.iter().map(|cause| code(&cause.name)).collect();
            text.push_str(&format!(
                "\n**Failed:** {} holds for {}\n",
                code(&check.condition),
                causes.join(", ")
            ));
        }
        text.push_str("\n<details><summary>How this was compared</summary>\n\n");
        for (label, side) in [("before", &self.before), ("after", &self.after)] {
            for it in side {
                let (file, seconds) = (code(&it.file), it.duration_s);
                let damaged = if it.damaged > 0 { ", damaged" } else { "" };
                text.push_str(&format!(
                    "- {label}: {file}, {seconds:.2} s, {}{damaged}\n",
                    things(it.samples, "sample")
                ));
            }
        }
        self.remarks().iter().for_each(|remark| text.push_str(&format!("- {remark}\n")));
        text.push_str(&format!("- rates: {}\n- noise: {}\n", self.rates(), self.noise()));
        text.push_str("\n</details>\n");
        text
    }
}

/// Returns a name as code in a cell of a table: nothing in it counts as Markdown.
fn code(name: &str) -> String {
    let name = name.replace('|', "\\|");
    let longest = name.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    if longest > 0 { format!("{fence} {name} {fence}") } else { format!("{fence}{name}{fence}") }
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn names_are_no_markdown() {
        assert_eq!([code("f<T>"), code("a|b"), code("a`b")], ["`f<T>`", "`a\\|b`", "`` a`b ``"]);
        assert_eq!(code("a``b`"), "``` a``b` ```");
    }
}
