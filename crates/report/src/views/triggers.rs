//! What asked for a history that a recorder held in memory.

use icecore_format::records::TriggerV1;
use icecore_profile::recording::load::Tables;
use icecore_text::quantity::{duration, utc};
use serde::Serialize;

/// One trigger.
#[derive(Debug, Serialize)]
pub(crate) struct TriggerRow {
    pub(crate) cause: String,
    /// What held, or who asked.
    pub(crate) what: String,
    /// When, by the clock of the recording's other times.
    pub(crate) unix_ns: u64,
    /// The requested length of the history, s.
    pub(crate) asked_s: f64,
    /// The history is shorter because it reached its limit of bytes.
    pub(crate) full: bool,
}

impl TriggerRow {
    /// Lists those of all sessions.
    pub(crate) fn list(tables: &Tables) -> Vec<Self> {
        let parts = &tables.parts;
        let unix_ns = |ns: u64| parts.start_unix_ns().saturating_add(ns.saturating_sub(parts.zero_ns()));
        let rows = parts.iter().filter_map(|part| {
            let TriggerV1 { time_ns, asked_ns, what, cause, is_full } = part.trigger.as_ref()?;
            Some(Self {
                cause: cause.name(),
                what: what.clone(),
                unix_ns: unix_ns(part.time_ns(*time_ns)),
                asked_s: *asked_ns as f64 / 1e9,
                full: *is_full,
            })
        });
        rows.collect()
    }

    /// Says who asked, and when.
    pub(crate) fn text(&self) -> String {
        let asked = duration((self.asked_s * 1e9) as u64);
        let full = if self.full { ", of which only the last part had room" } else { "" };
        let (what, at) = (&self.what, utc(self.unix_ns));
        format!("{what}, at {at}; --flight asked for the {asked} before it{full}")
    }
}
