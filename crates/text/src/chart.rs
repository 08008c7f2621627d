//! Draws values as bars of characters.

/// Bars by eighths of a character.
const LEVELS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// Draws `tall` lines of characters, the uppermost first. Every value above zero has at least an eighth of a character.
pub fn chart(values: &[f64], peak: f64, tall: usize) -> Vec<String> {
    let eighths = |value: &f64| {
        if peak > 0.0 && *value > 0.0 {
            ((value / peak * (tall * 8) as f64).round() as usize).clamp(1, tall * 8)
        } else {
            0
        }
    };
    let line = |row: usize| {
        values.iter().map(|value| LEVELS[eighths(value).saturating_sub(row * 8).min(8)]).collect()
    };
    (0..tall).rev().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_drawn_and_the_peak_fills_the_line() {
        assert_eq!(chart(&[0.0, 0.001, 0.5, 1.0], 1.0, 1), [" ▁▄█"]);
        assert_eq!(chart(&[0.25, 2.0, 1.0], 2.0, 2), [" █ ", "▂██"]);
        assert_eq!(chart(&[0.0], 0.0, 1), [" "]);
    }
}
