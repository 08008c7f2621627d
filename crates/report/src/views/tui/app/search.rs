//! The search: a pattern is typed, its functions are found, and the cursor goes from match to match.

use super::{App, Item};
use crate::views::tui::items;
use crate::views::tui::keys::Action;
use icecore_analysis::explore::filters::Matching;
use icecore_profile::named::NamePattern;

impl App<'_> {
    /// Changes the pattern that is typed, searches it, or forgets it.
    pub(super) fn type_in(&mut self, action: Action) {
        let Some(typed) = &mut self.typed else { return };
        match action {
            Action::Type(letter) => typed.push(letter),
            Action::Erase => drop(typed.pop()),
            Action::EraseAll => typed.clear(),
            Action::Enter => {
                let typed = self.typed.take().unwrap_or_default();
                self.search(&typed);
            }
            Action::Escape => self.typed = None,
            _ => {}
        }
    }

    /// Searches a pattern; an empty one ends the search.
    fn search(&mut self, pattern: &str) {
        (self.found, self.pattern) = (None, None);
        if pattern.is_empty() {
            return;
        }
        let regex = NamePattern::new(pattern, false);
        let is_in = regex.of(&self.explorer.profile.names);
        if regex.is_only_name() && !is_in.contains(&true) {
            return self.say(format!(
                "cannot search `{pattern}`: no function has this name, and it is no regular expression"
            ));
        }
        let matching = Matching { pattern: pattern.into(), is_in: is_in.into() };
        self.found = Some(self.explorer.find(&self.selected, matching));
        self.pattern = Some(regex);
        if !self.item().is_some_and(|item| self.is_hit(&item)) {
            self.next(true);
        }
    }

    /// Returns true if the search matches an item.
    pub(in crate::views::tui) fn is_hit(&self, item: &Item) -> bool {
        let Some(found) = &self.found else { return false };
        let matches = |name: &str| self.pattern.as_ref().is_some_and(|pattern| pattern.fits(name));
        match *item {
            Item::Node(branch, node) => {
                let node = self.trees.get(branch, self.pane).and_then(|tree| tree.nodes.get(node as usize));
                node.is_some_and(|node| node.is_hit(found))
            }
            Item::Row(row) => matches(&items::name(self.facts, self.explorer, self.pane, row.number)),
            Item::Event(event) => matches(&self.facts.events[usize::from(event)].name),
            Item::Center => {
                self.trees.center().is_some_and(|function| found.matching.is_in[function as usize])
            }
            Item::Filter(_) => false,
        }
    }

    /// Moves the cursor to the next match, or the one before it.
    pub(super) fn next(&mut self, forward: bool) {
        let Some(found) = &self.found else { return self.say("search first: /") };
        let are_all_seen = self.trees.open_to(self.explorer, &self.selected, found, self.pane);
        self.list();
        let (len, at) = (self.items.len(), self.place().cursor);
        let place = |step: usize| if forward { (at + step) % len } else { (at + len - step) % len };
        let hit = (1..=len).map(place).find(|position| self.is_hit(&self.items[*position]));
        match hit {
            Some(position) => self.places[self.pane as usize].cursor = position,
            None if are_all_seen => return self.say("nothing here matches"),
            None => {}
        }
        if !are_all_seen {
            self.say("more matches lie in branches that stay closed: there are too many; filter first");
        }
    }
}
