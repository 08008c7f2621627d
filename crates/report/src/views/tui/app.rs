//! What is shown, and how actions change it. It draws nothing, and reads no key.

mod filter;
mod search;
mod time;
mod trees;

use super::Facts;
use super::items::{self, Branch, Item};
use super::keys::{Action, Mode};
use super::pane::{Pane, Place, Sort};
use super::words;
use icecore_analysis::explore::Explorer;
use icecore_analysis::explore::filters::{Filters, Verb};
use icecore_analysis::explore::found::Found;
use icecore_analysis::explore::lanes::Lanes;
use icecore_analysis::explore::selected::Selected;
use icecore_profile::named::NamePattern;
use trees::Trees;

/// What an action asks of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    Redraw,
    Suspend,
}

/// A window over the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Popup {
    Help,
    Remarks,
}

/// The time line.
#[derive(Debug)]
pub(super) struct Time {
    /// What it draws, ns.
    pub(super) window_ns: (u64, u64),
    /// The column of the cursor.
    pub(super) cursor: u32,
    /// The begin of a range that is not selected yet: the first column.
    pub(super) mark: Option<u32>,
    /// Keys move its cursor.
    pub(super) is_active: bool,
}

/// The explorer on the screen.
pub(super) struct App<'a> {
    pub(super) facts: &'a Facts,
    pub(super) explorer: &'a Explorer<'a>,
    pub(super) selected: Selected,
    /// Earlier filters, the latest last.
    history: Vec<Filters>,
    pub(super) pane: Pane,
    pub(super) items: Vec<Item>,
    places: [Place; 9],
    pub(super) sort: Sort,
    pub(super) trees: Trees,
    pub(super) time: Time,
    lanes: Option<(u32, Lanes)>,
    pub(super) found: Option<Found>,
    /// The names that match in panes that show no functions.
    pub(super) pattern: Option<NamePattern>,
    /// The pattern that is typed.
    pub(super) typed: Option<String>,
    pub(super) popup: Option<(Popup, usize)>,
    /// The answer to the last action.
    pub(super) message: Option<String>,
    /// Columns by which long lines are moved to the left.
    pub(super) scrolled: u16,
    /// The lines of the pane that fit on the screen.
    pub(super) height: usize,
}

impl<'a> App<'a> {
    /// Begins with the usual events of everything.
    pub(super) fn new(facts: &'a Facts, explorer: &'a Explorer<'a>) -> Self {
        let selected = explorer.select(Self::usual(facts), None);
        let (begin_ns, end_ns) = (facts.span_ns, explorer.span_ns());
        let window_ns = match (begin_ns, end_ns) {
            ((0, 0), sampled) => sampled,
            ((begin, end), (_, last)) => (begin, end.max(last)),
        };
        let mut app = Self {
            facts,
            explorer,
            selected,
            history: Vec::new(),
            pane: Pane::Functions,
            items: Vec::new(),
            places: Default::default(),
            sort: Sort::Own,
            trees: Trees::default(),
            time: Time { window_ns, cursor: 0, mark: None, is_active: false },
            lanes: None,
            found: None,
            pattern: None,
            typed: None,
            popup: None,
            message: None,
            scrolled: 0,
            height: 10,
        };
        app.list();
        app
    }

    fn usual(facts: &Facts) -> Filters {
        Filters::of(facts.events.iter().map(|event| event.is_usual).collect())
    }

    /// Returns what keys mean now.
    pub(super) fn mode(&self) -> Mode {
        match (&self.typed, self.popup, self.time.is_active) {
            (Some(_), ..) => Mode::Typing,
            (_, None, true) => Mode::Time,
            _ => Mode::Normal,
        }
    }

    /// Returns the cursor of the pane.
    pub(super) fn place(&self) -> Place {
        self.places[self.pane as usize]
    }

    /// Returns the item under the cursor.
    pub(super) fn item(&self) -> Option<Item> {
        self.items.get(self.place().cursor).copied()
    }

    /// Does what a key asks for.
    pub(super) fn act(&mut self, action: Action) -> Option<Wish> {
        self.message = None;
        match action {
            Action::Quit if self.popup.is_none() => return Some(Wish::Quit),
            Action::Suspend => return Some(Wish::Suspend),
            Action::Redraw => return Some(Wish::Redraw),
            _ if self.typed.is_some() => self.type_in(action),
            _ if self.popup.is_some() => self.turn(action),
            _ if self.time.is_active && self.in_time(action) => {}
            _ => self.in_pane(action),
        }
        None
    }

    fn in_pane(&mut self, action: Action) {
        match action {
            Action::Help => self.popup = Some((Popup::Help, 0)),
            Action::Remarks => self.popup = Some((Popup::Remarks, 0)),
            Action::Show(pane) => self.show(pane),
            Action::NextPane => self.show(Pane::ALL[(self.pane as usize + 1) % Pane::ALL.len()]),
            Action::PreviousPane => {
                self.show(Pane::ALL[(self.pane as usize + Pane::ALL.len() - 1) % Pane::ALL.len()]);
            }
            Action::Move(lines) => self.step(lines),
            Action::Page(pages) => self.step(pages * self.height.saturating_sub(1).max(1) as i64),
            Action::First => self.step(i64::MIN),
            Action::Last => self.step(i64::MAX),
            Action::Scroll(columns) => self.scroll(columns),
            Action::Left | Action::Right => self.sideways(action == Action::Right),
            Action::Enter => self.enter(),
            Action::Callers => self.callers(),
            Action::Filter(verb) => self.filter(verb),
            Action::FilterFound(verb) => self.filter_found(verb),
            Action::OpenHeaviest => self.open_heaviest(),
            Action::Sort => {
                self.sort = match self.sort {
                    Sort::Own => Sort::Total,
                    Sort::Total => Sort::Name,
                    Sort::Name => Sort::Own,
                };
                self.list();
                self.step(i64::MIN);
            }
            Action::Inlined => {
                let inlined_apart = !self.selected.filters.inlined_apart;
                self.select(Filters { inlined_apart, ..self.selected.filters.clone() });
            }
            Action::Time => self.time.is_active = true,
            Action::Zoom => self.zoom(),
            Action::ZoomOut => self.zoom_out(),
            Action::Search => self.typed = Some(String::new()),
            Action::Next => self.next(true),
            Action::Previous => self.next(false),
            Action::Undo => match self.history.pop() {
                Some(filters) => self.apply(filters),
                None => self.say("nothing to undo"),
            },
            Action::Reset | Action::Escape => self.select(Self::usual(self.facts)),
            Action::Mark | Action::Type(_) | Action::Erase | Action::EraseAll => {}
            Action::Quit | Action::Suspend | Action::Redraw => {}
        }
    }

    fn say(&mut self, message: impl Into<String>) {
        self.message = Some(message.into());
    }

    /// Moves a popup, or closes it.
    fn turn(&mut self, action: Action) {
        let Some((popup, top)) = self.popup else { return };
        let page = self.height as i64;
        let lines = match action {
            Action::Move(lines) => lines,
            Action::Page(pages) => pages * page,
            Action::First => i64::MIN,
            Action::Last => i64::MAX,
            _ => return self.popup = None,
        };
        // Drawing knows how long the text is.
        let top = (top as i64).saturating_add(lines).clamp(0, i64::from(u16::MAX)) as usize;
        self.popup = Some((popup, top));
    }

    fn show(&mut self, pane: Pane) {
        self.turn_to(pane);
        self.list();
    }

    fn turn_to(&mut self, pane: Pane) {
        (self.pane, self.scrolled) = (pane, 0);
        // The cursor of one pane says nothing of another.
        self.items.clear();
    }

    fn step(&mut self, lines: i64) {
        let last = self.items.len().saturating_sub(1);
        let place = &mut self.places[self.pane as usize];
        place.cursor = (place.cursor as i64).saturating_add(lines).clamp(0, last as i64) as usize;
    }

    fn scroll(&mut self, columns: i32) {
        self.scrolled = (i32::from(self.scrolled) + columns).clamp(0, 20_000) as u16;
    }

    /// Keeps the cursor on the screen, which has so many lines for the pane.
    pub(super) fn fit(&mut self, height: usize) {
        self.height = height;
        let len = self.items.len();
        let place = &mut self.places[self.pane as usize];
        let lowest = place.top.max((place.cursor + 1).saturating_sub(height));
        place.top = lowest.min(place.cursor).min(len.saturating_sub(height));
    }

    /// Selects by other filters, which can be undone.
    fn select(&mut self, filters: Filters) {
        if filters == self.selected.filters {
            return self.say("no filter changes by this");
        }
        self.history.push(self.selected.filters.clone());
        self.apply(filters);
    }

    fn apply(&mut self, filters: Filters) {
        self.selected = self.explorer.select(filters, Some(&self.selected));
        self.lanes = None;
        self.trees.are_old();
        if let Some(found) = self.found.take() {
            self.found = Some(self.explorer.find(&self.selected, found.matching));
        }
        self.list();
    }

    /// Lists the items of the pane; the cursor stays on what it was on.
    pub(super) fn list(&mut self) {
        let before = self.item();
        let (facts, explorer, selected) = (self.facts, self.explorer, &self.selected);
        let (items, marked) = match self.pane {
            Pane::Tree => self.trees.whole(explorer, selected, before),
            Pane::Callers => self.trees.around(explorer, selected, before),
            Pane::Events => {
                let events = (0..=u8::MAX).zip(&facts.events);
                (events.map(|(event, _)| Item::Event(event)).collect(), None)
            }
            Pane::Filters => {
                let number = words::filters(facts, explorer, &selected.filters).len();
                ((0..number).map(Item::Filter).collect(), None)
            }
            pane => (items::rows(facts, explorer, selected, (pane, self.sort)), None),
        };
        self.items = items;
        let marked = marked.or(before).and_then(|one| self.items.iter().position(|item| item.is_same(&one)));
        let last = self.items.len().saturating_sub(1);
        let place = &mut self.places[self.pane as usize];
        place.cursor = marked.unwrap_or(place.cursor.min(last));
    }

    /// Opens, closes, selects or leads on, as the pane has it.
    fn enter(&mut self) {
        match self.item() {
            Some(Item::Row(_)) if self.pane == Pane::Functions => self.callers(),
            Some(Item::Row(_)) => self.filter(Verb::Only),
            Some(Item::Event(event)) => {
                let mut filters = self.selected.filters.clone();
                let chosen = &mut filters.events[usize::from(event)];
                *chosen = !*chosen;
                self.select(filters);
            }
            Some(Item::Filter(_)) => self.filter(Verb::Without),
            Some(Item::Node(branch, node)) => {
                self.trees.turn(self.explorer, &self.selected, branch, (self.pane, node));
                self.list();
            }
            Some(Item::Center) | None => {}
        }
    }

    fn sideways(&mut self, right: bool) {
        let Some(Item::Node(branch, node)) = self.item() else {
            return self.scroll(if right { 8 } else { -8 });
        };
        let tree = self.trees.get(branch, self.pane);
        let Some(at) = tree.and_then(|tree| tree.nodes.get(node as usize)) else { return };
        if at.is_open != right && at.has_children {
            self.trees.turn(self.explorer, &self.selected, branch, (self.pane, node));
            self.list();
        } else if !right {
            let parent = Item::Node(branch, at.parent);
            if let Some(position) = self.items.iter().position(|item| *item == parent) {
                self.places[self.pane as usize].cursor = position;
            }
        }
    }

    fn open_heaviest(&mut self) {
        match self.item() {
            Some(Item::Node(branch, node)) => {
                let last = self.trees.open_heaviest(self.explorer, &self.selected, branch, (self.pane, node));
                self.list();
                let last = last.map(|node| Item::Node(branch, node));
                if let Some(position) = self.items.iter().position(|item| Some(*item) == last) {
                    self.places[self.pane as usize].cursor = position;
                }
            }
            _ => self.say("only trees have paths: 2 or 3"),
        }
    }

    /// Returns the function under the cursor.
    pub(super) fn function(&self) -> Option<u32> {
        match self.item()? {
            Item::Row(row) if self.pane == Pane::Functions => Some(row.number),
            Item::Center => self.trees.center(),
            Item::Node(branch, node) => self.trees.function(branch, self.pane, node),
            _ => None,
        }
    }

    /// Shows who calls the function under the cursor.
    fn callers(&mut self) {
        let Some(function) = self.function() else {
            return self.say("there is no function under the cursor");
        };
        self.trees.look_at(function);
        self.turn_to(Pane::Callers);
        self.list();
        self.places[self.pane as usize] = Place::default();
        if let Some(center) = self.items.iter().position(|item| *item == Item::Center) {
            self.places[self.pane as usize].cursor = center;
        }
    }
}

/// Returns which tree of a pane a branch is.
pub(super) fn is_whole(branch: Branch, pane: Pane) -> bool {
    pane == Pane::Tree && branch == Branch::Callees
}
