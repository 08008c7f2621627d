//! What an address asks for: fields by name.

use std::collections::BTreeMap;

use icecore_archive::Selection;
use icecore_archive::select::{Moment, Stretch};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::super::fleet::moment;
use crate::cli::Chosen;

/// The fields that select recordings.
pub(super) const SELECTING: [&str; 4] = ["selection", "last", "since", "until"];

/// Fields by name; none is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads the query of an address.
    pub(in super::super) fn of_address(query: &str) -> Self {
        let decoded =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().trim().to_owned();
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let pairs = pairs.map(|(name, value)| (decoded(name), decoded(value)));
        Self(pairs.filter(|(_, value)| !value.is_empty()).collect())
    }

    /// What was typed as options.
    pub(in super::super) fn of_chosen(chosen: &Chosen) -> Self {
        let mut query = Self::default();
        if let Some(selection) = &chosen.selection {
            query = query.with("selection", selection);
        }
        let (since, until) = super::super::times(&chosen.began);
        let times =
            since.map(|since| ("since", since)).into_iter().chain(until.map(|until| ("until", until)));
        times.fold(query, |query, (name, us)| query.with(name, &moment(us)))
    }

    /// Returns it with a field.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Returns the fields that select recordings.
    pub(super) fn selecting(&self) -> Self {
        let pairs =
            SELECTING.iter().filter_map(|name| Some(((*name).to_owned(), self.get(name)?.to_owned())));
        Self(pairs.collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| &**value)
    }

    /// Returns the address of a page of this server.
    pub(in super::super) fn address(&self, page: &str) -> String {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let pairs: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        if pairs.is_empty() { page.to_owned() } else { format!("{page}?{}", pairs.join("&")) }
    }

    /// Returns the words of a command line that select recordings: the selections of these fields, then times.
    pub(super) fn words(&self, selections: &[&str]) -> Result<Vec<String>, String> {
        let mut words = Vec::new();
        for name in selections {
            let Some(selection) = self.get(name) else { continue };
            // It would be an option.
            if selection.starts_with('-') {
                return Err(format!("`{selection}` is no selection"));
            }
            selection.parse::<Selection>().map_err(|error| error.to_string())?;
            words.push(selection.to_owned());
        }
        if let Some(last) = self.get("last") {
            last.parse::<Stretch>().map_err(|cause| format!("last: {last}: {cause}"))?;
            words.push(format!("--last={last}"));
        }
        for name in ["since", "until"] {
            let Some(time) = self.get(name) else { continue };
            time.parse::<Moment>().map_err(|cause| format!("{name}: {time}: {cause}"))?;
            words.push(format!("--{name}={time}"));
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_and_no_field_is_an_option() {
        let query = Query::of_address("selection=host%3Dweb%2A+x%3D1&last=7d&until=&odd&x=%C3%BC");
        assert_eq!(
            (query.get("selection"), query.get("until"), query.get("x")),
            (Some("host=web* x=1"), None, Some("ü"))
        );
        assert_eq!(query.words(&["selection"]), Ok(vec!["host=web* x=1".to_owned(), "--last=7d".to_owned()]));
        assert_eq!(Query::of_address(&query.address("list")["list?".len()..]), query);
        assert_eq!(query.selecting().address("p"), "p?last=7d&selection=host%3Dweb%2A%20x%3D1");
        for wrong in [
            "selection=--output%3Dx",
            "selection=-o",
            "selection=web",
            "last=soon",
            "since=--until",
            "until=x",
        ] {
            assert!(Query::of_address(wrong).words(&["selection"]).is_err(), "{wrong}");
        }
    }
}
