//! Bounds what a report may spend on downloads.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes and time for all downloads of a report together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes.
    pub bytes: u64,
    /// Time.
    pub time: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: 500 << 20, time: Duration::from_secs(60) }
    }
}

impl FromStr for Budget {
    type Err = String;

    /// Reads `500M`, `60s`, or both with a comma between.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut budget = Self::default();
        for part in text.split(',') {
            let at = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let (number, unit) = part.split_at(at);
            let scale = |unit: u64| {
                let number: Option<u64> = number.parse().ok();
                let scaled = number.and_then(|number| number.checked_mul(unit));
                scaled.ok_or_else(|| format!("`{part}` is no number with a unit"))
            };
            match unit {
                "s" => budget.time = Duration::from_secs(scale(1)?),
                "m" | "min" => budget.time = Duration::from_secs(scale(60)?),
                "k" | "K" => budget.bytes = scale(1 << 10)?,
                "M" => budget.bytes = scale(1 << 20)?,
                "G" => budget.bytes = scale(1 << 30)?,
                _ => return Err("must be bytes (500M, 2G), a time (60s, 5m), or both: 500M,60s".to_owned()),
            }
        }
        Ok(budget)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes >> 20 {
            0 => write!(f, "{}K", self.bytes >> 10)?,
            mega => write!(f, "{mega}M")?,
        }
        write!(f, ",{}s", self.time.as_secs())
    }
}

/// The rest of a budget; all threads spend from it.
#[derive(Debug)]
pub(super) struct Spending {
    budget: Budget,
    begun: Instant,
    spent_bytes: AtomicU64,
}

impl Spending {
    pub(super) fn new(budget: Budget) -> Self {
        Self { budget, begun: Instant::now(), spent_bytes: AtomicU64::new(0) }
    }

    /// Returns how many bytes are left.
    pub(super) fn left_bytes(&self) -> u64 {
        self.budget.bytes.saturating_sub(self.spent_bytes.load(Ordering::Relaxed))
    }

    /// Returns how much time is left; `None` if it is over.
    pub(super) fn left_time(&self) -> Option<Duration> {
        self.budget.time.checked_sub(self.begun.elapsed()).filter(|left| !left.is_zero())
    }

    /// Spends bytes that have arrived; returns false if they were too many.
    pub(super) fn pay(&self, bytes: u64) -> bool {
        self.spent_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= self.budget.bytes
    }

    /// Returns true if no bytes or no time are left.
    pub(super) fn is_empty(&self) -> bool {
        self.left_bytes() == 0 || self.left_time().is_none()
    }

    pub(super) fn spent_bytes(&self) -> u64 {
        self.spent_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_bytes_time_or_both() {
        let read = |text: &str| text.parse::<Budget>().map(|b| (b.bytes, b.time.as_secs()));
        assert_eq!(read("10M,5s"), Ok((10 << 20, 5)));
        assert_eq!(read("2m,1G"), Ok((1 << 30, 120)));
        assert_eq!(read("7k"), Ok((7 << 10, 60)));
        assert_eq!(read("9s"), Ok((500 << 20, 9)));
        for bad in ["", "5", "M", "5x", "-5M", "99999999999999999999M", "99999999999G", "5M;6s", "1.5G"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(Budget::default().to_string(), "500M,60s");
        assert_eq!("7k,1m".parse::<Budget>().map(|budget| budget.to_string()), Ok("7K,60s".into()));
    }

    #[test]
    fn a_budget_is_spent_when_bytes_or_time_are_spent() {
        let spending = |bytes, seconds| Spending::new(Budget { bytes, time: Duration::from_secs(seconds) });
        assert!(spending(10, 0).is_empty() && spending(0, 10).is_empty());
        let spending = spending(10, 1000);
        assert!(spending.pay(10) && spending.is_empty() && !spending.pay(1));
        assert_eq!((spending.left_bytes(), spending.spent_bytes()), (0, 11));
    }
}
