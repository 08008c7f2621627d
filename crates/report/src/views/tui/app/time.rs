//! The time line: its cursor, the range that is marked, and what it draws.

use super::App;
use crate::views::tui::keys::Action;
use icecore_analysis::explore::filters::Filters;
use icecore_analysis::explore::lanes::Lanes;

impl App<'_> {
    /// Returns weight over time in at most so many columns.
    pub(in crate::views::tui) fn lanes(&mut self, columns: u32) -> &Lanes {
        let (explorer, selected, window_ns) = (self.explorer, &self.selected, self.time.window_ns);
        if self.lanes.as_ref().is_some_and(|(known, _)| *known != columns) {
            // Columns of another width are other moments.
            (self.lanes, self.time.mark) = (None, None);
        }
        let (_, lanes) =
            self.lanes.get_or_insert_with(|| (columns, explorer.lanes(selected, window_ns, columns)));
        self.time.cursor = self.time.cursor.min(lanes.slices.number - 1);
        lanes
    }

    /// Returns the columns of the range that is marked but not selected.
    pub(in crate::views::tui) fn marked(&self) -> Option<(u32, u32)> {
        let (mark, cursor) = (self.time.mark?, self.time.cursor);
        Some((mark.min(cursor), mark.max(cursor) + 1))
    }

    /// Does what a key asks for in the time line; returns false if the pane shall do it.
    pub(super) fn in_time(&mut self, action: Action) -> bool {
        let last = self.lanes.as_ref().map_or(0, |(_, lanes)| lanes.slices.number - 1);
        let moved = |by: i64| (i64::from(self.time.cursor) + by).clamp(0, i64::from(last)) as u32;
        match action {
            Action::Move(columns) => self.time.cursor = moved(columns),
            Action::Page(tens) => self.time.cursor = moved(tens * 10),
            Action::First => self.time.cursor = 0,
            Action::Last => self.time.cursor = last,
            Action::Mark if self.time.mark.is_some() => self.time.mark = None,
            Action::Mark => self.time.mark = Some(self.time.cursor),
            Action::Enter => self.select_range(),
            Action::Time => self.time.is_active = false,
            Action::Escape if self.time.mark.is_some() => self.time.mark = None,
            Action::Escape => self.time.is_active = false,
            _ => return false,
        }
        true
    }

    fn select_range(&mut self) {
        let (Some((first, end)), Some((_, lanes))) = (self.marked(), &self.lanes) else {
            return self.say("begin a range with Space, move, then press Enter");
        };
        let range_ns = Some((lanes.begin_ns(first), lanes.begin_ns(end)));
        self.time.mark = None;
        self.select(Filters { range_ns, ..self.selected.filters.clone() });
    }

    pub(super) fn zoom(&mut self) {
        match self.selected.filters.range_ns {
            Some(range_ns) if range_ns.0 < range_ns.1 => self.draw_time(range_ns),
            _ => self.say("select a range first: t, Space, Enter"),
        }
    }

    pub(super) fn zoom_out(&mut self) {
        let whole = match self.facts.span_ns {
            (0, 0) => self.explorer.span_ns(),
            (begin, end) => (begin, end.max(self.explorer.span_ns().1)),
        };
        self.draw_time(whole);
    }

    fn draw_time(&mut self, window_ns: (u64, u64)) {
        (self.time.window_ns, self.time.mark, self.lanes) = (window_ns, None, None);
    }
}
