//! Filters by what is under the cursor, and by what a search has found.

use super::{App, Item};
use crate::views::tui::{items, words};
use icecore_analysis::explore::filters::{Filters, Subject, Verb};

impl App<'_> {
    /// Filters by what is under the cursor.
    pub(super) fn filter(&mut self, verb: Verb) {
        let before = &self.selected.filters;
        let filters = match (self.item(), self.function()) {
            (Some(Item::Filter(position)), _) => self.without(position),
            (Some(Item::Event(event)), _) if verb != Verb::Hide => {
                let chosen = |other: u8| match verb {
                    Verb::Only => other == event,
                    _ => other != event && before.has_event(other),
                };
                let events = (0..=u8::MAX).zip(&before.events).map(|(other, _)| chosen(other)).collect();
                Filters { events, ..before.clone() }
            }
            (_, Some(function)) => before.with(verb, Subject::Function(function)),
            (Some(Item::Row(row)), _) => match items::subject(self.pane, row.number) {
                Some(subject) if verb != Verb::Hide || subject.is_code() => before.with(verb, subject),
                _ => return self.say("only functions and images have frames to hide"),
            },
            _ => return self.say("nothing here to filter by"),
        };
        self.select(filters);
    }

    /// Returns the filters without one of those that the pane lists.
    fn without(&self, position: usize) -> Filters {
        let before = &self.selected.filters;
        let mut filters = before.clone();
        let has_range = usize::from(before.range_ns.is_some());
        let has_events = usize::from(!words::is_usual(self.facts, before));
        if position < has_range {
            filters.range_ns = None;
        } else if position < has_range + has_events {
            filters.events = Self::usual(self.facts).events;
        } else if position - has_range - has_events < filters.rules.len() {
            filters.rules.remove(position - has_range - has_events);
        }
        filters
    }

    pub(super) fn filter_found(&mut self, verb: Verb) {
        match &self.found {
            Some(found) => {
                let subject = Subject::Matching(found.matching.clone());
                self.select(self.selected.filters.with(verb, subject));
            }
            None => self.say("search functions first: /"),
        }
    }
}
