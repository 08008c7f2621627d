//! CPU lists, as `/sys/devices/system/cpu/online` and `-C` write them: `0,2-3`.

use anyhow::{Context as _, ensure};

const ONLINE: &str = "/sys/devices/system/cpu/online";
/// More CPUs than Linux can have (`CONFIG_NR_CPUS` ends at 8,192 on x86).
const MAX_CPU: u32 = 65_535;

/// Lists the CPUs that are online, ascending.
pub(crate) fn online() -> anyhow::Result<Vec<u32>> {
    let text = std::fs::read_to_string(ONLINE).with_context(|| format!("cannot read `{ONLINE}`"))?;
    parse_list(&text).with_context(|| format!("cannot read `{ONLINE}`"))
}

/// Parses a CPU list; the result is ascending and without repetition.
pub fn parse_list(text: &str) -> anyhow::Result<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let parse = |n: &str| {
            n.trim().parse::<u32>().with_context(|| format!("`{part}` is not a CPU or a range of CPUs"))
        };
        let (first, last) = (parse(first)?, parse(last)?);
        ensure!(first <= last && last <= MAX_CPU, "`{part}` is not a range of CPUs");
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Writes a CPU list.
pub fn show_list(cpus: &[u32]) -> String {
    let ranges = cpus.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    ranges.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_understood_and_written() {
        assert_eq!(parse_list("0,2-4,3\n").expect("kernel syntax"), [0, 2, 3, 4]);
        assert_eq!(show_list(&[0, 2, 3, 4]), "0,2-4");
        for wrong in ["", "a", "3-1", "-1", "0-99999999", "1,,2"] {
            assert!(parse_list(wrong).is_err(), "{wrong:?}");
        }
    }
}
