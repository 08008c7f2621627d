//! `--focus`, `--ignore`, `--hide` and `--show`: filters that need names.

use super::{NamePattern, Profile, ProfileRow, Rows, Stack};
use crate::map::Interned;
use crate::named::function::Function;
use crate::named::names::Names;
use crate::stacks::hits::{Cell, Moment};

/// What the patterns say of each function.
#[derive(Debug)]
pub struct Matches {
    /// The function matches `--focus`: samples with it are kept.
    pub in_focus: Vec<bool>,
    /// The function is of the language of `--language`: samples with it are kept.
    pub of_language: Vec<bool>,
    /// The function matches `--ignore`: samples with it are left out.
    pub ignored: Vec<bool>,
    /// The function matches `--hide`, or not `--show`: its frames are removed.
    pub hidden: Vec<bool>,
}

/// The patterns that select samples and frames.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    /// Keeps only samples with a matching function anywhere in the stack.
    pub focus: Option<NamePattern>,
    /// Leaves out samples with a matching function anywhere in the stack.
    pub ignore: Option<NamePattern>,
    /// Removes matching frames from their stacks.
    pub hide: Option<NamePattern>,
    /// Removes all other frames from their stacks.
    pub show: Option<NamePattern>,
    /// Keeps only samples with a function of this language anywhere in the stack.
    pub language: Option<String>,
    /// Shows the machine frames that run functions of interpreters, too.
    pub native: bool,
    /// Counts functions of an interpreter's own file to the function that called them, if the interpreter runs this or one of its callers.
    pub folds_interpreters: bool,
}

impl Patterns {
    /// Matches each distinct function once.
    pub fn matches(&self, names: &Names) -> Matches {
        let matching = |pattern: &Option<NamePattern>, otherwise: bool| match pattern {
            Some(pattern) => pattern.of(names),
            None => vec![otherwise; names.functions.len()],
        };
        let mut hidden = matching(&self.hide, false);
        let shown = matching(&self.show, true);
        hidden.iter_mut().zip(shown).for_each(|(hidden, shown)| *hidden |= !shown);
        let language = |function: &Function| match &self.language {
            Some(language) => function.language_name().as_ref() == Some(language),
            None => true,
        };
        Matches {
            in_focus: matching(&self.focus, true),
            of_language: names.functions.iter().map(language).collect(),
            ignored: matching(&self.ignore, false),
            hidden,
        }
    }

    /// Finds a pattern that is no regular expression and no name of a function either, with the name of its option.
    pub fn broken(&self, names: &Names) -> Option<(&'static str, &NamePattern)> {
        let Self { focus, ignore, hide, show, .. } = self;
        let all = [("focus", focus), ("ignore", ignore), ("hide", hide), ("show", show)];
        let is_broken = |pattern: &&NamePattern| pattern.is_only_name() && !pattern.of(names).contains(&true);
        all.into_iter().find_map(|(option, pattern)| Some((option, pattern.as_ref().filter(is_broken)?)))
    }

    /// Returns true if there are no patterns.
    pub fn are_none(&self) -> bool {
        let Self { focus, ignore, hide, show, language, native: _, folds_interpreters: _ } = self;
        language.is_none() && [focus, ignore, hide, show].into_iter().all(Option::is_none)
    }

    /// Describes for people what is kept; `None` if everything is.
    pub fn describe(&self) -> Option<String> {
        let focus = self.focus.as_ref().map(|regex| format!("focus {regex}"));
        let ignore = self.ignore.as_ref().map(|regex| format!("ignore {regex}"));
        let hide = self.hide.as_ref().map(|regex| format!("hide {regex}"));
        let show = self.show.as_ref().map(|regex| format!("show {regex}"));
        let language = self.language.as_ref().map(|language| format!("language {language}"));
        let parts: Vec<String> =
            focus.into_iter().chain(ignore).chain(hide).chain(show).chain(language).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl Profile {
    /// Keeps what the patterns select. Focus and ignore apply before frames are hidden.
    ///
    /// # Cost
    /// Each distinct function is matched once.
    #[must_use]
    pub fn narrow(self, patterns: &Patterns) -> Self {
        if patterns.are_none() {
            return self;
        }
        let Matches { in_focus, of_language, ignored, hidden } = patterns.matches(&self.names);
        // Whether focus and language keep a stack, and whether it is ignored.
        let mut kept = vec![(patterns.focus.is_none(), patterns.language.is_none(), false)];
        let mut renamed = vec![0u32];
        let mut stacks: Interned<Stack> = Interned::new();
        stacks.intern(self.stacks[0]);
        for stack in &self.stacks[1..] {
            let function = self.function_id(*stack) as usize;
            let caller = renamed[stack.caller as usize];
            let before = kept[stack.caller as usize];
            kept.push((
                before.0 || in_focus[function],
                before.1 || of_language[function],
                before.2 || ignored[function],
            ));
            renamed.push(if hidden[function] {
                caller
            } else {
                stacks.intern(Stack { caller, frame: stack.frame })
            });
        }
        let mut rows = Rows::default();
        let mut emptied = 0;
        let narrowed = self.rows.iter().map(|row| match (row.stack, renamed[row.stack as usize]) {
            _ if kept[row.stack as usize] != (true, true, false) => None,
            (1.., 0) => {
                emptied += row.samples;
                None
            }
            (_, stack) => Some(rows.add(ProfileRow { stack, ..*row })),
        });
        let narrowed: Vec<Option<u32>> = narrowed.collect();
        let cell = |cell: &Cell| Some(Cell { row: narrowed[cell.row as usize]?, ..*cell });
        let cells = self.cells.iter().filter_map(cell).collect();
        let moment = |moment: &Moment| Some(Moment { row: narrowed[moment.row as usize]?, ..*moment });
        let moments = self.moments.iter().filter_map(moment).collect();
        let of_hits = self.of_hits.iter().map(|row| narrowed[(*row)? as usize]).collect();
        Self { stacks: stacks.into_items(), rows: rows.rows, cells, moments, of_hits, emptied, ..self }
    }
}

#[cfg(test)]
mod tests {
    use icecore_format::records::WalkEnd;

    use super::super::{Taken, fixture};
    use super::*;

    fn narrowed(focus: Option<&str>, hide: Option<&str>) -> Vec<String> {
        let regex = |text: Option<&str>| text.map(|text| NamePattern::new(text, false));
        let profile = fixture::profile(&[("main;a;b", 1), ("main;c", 2), ("a", 4)]);
        let patterns = Patterns { focus: regex(focus), hide: regex(hide), ..Patterns::default() };
        fixture::folded(&profile.narrow(&patterns))
    }

    #[test]
    fn ignored_functions_take_their_stacks_with_them_and_win_over_the_focus() {
        let ignoring = |ignore: &str, focus: Option<&str>, hide: Option<&str>| {
            let regex = |text: &str| NamePattern::new(text, false);
            let ignore = Some(regex(ignore));
            let patterns =
                Patterns { focus: focus.map(regex), hide: hide.map(regex), ignore, ..Patterns::default() };
            let profile = fixture::profile(&[("main;a;b", 1), ("main;c", 2), ("a", 4)]);
            fixture::folded(&profile.narrow(&patterns))
        };
        assert_eq!(ignoring("^a$", None, None), ["main;c 2"]);
        assert_eq!(ignoring("^b$", Some("^a$"), None), ["a 4"]);
        assert_eq!(ignoring("^c$", None, Some("^c$")), ["main;a;b 1", "a 4"]);
    }

    #[test]
    fn focus_looks_at_the_whole_stack() {
        assert_eq!(narrowed(Some("^a$"), None), ["main;a;b 1", "a 4"]);
    }

    #[test]
    fn hidden_frames_join_their_neighbours_and_empty_stacks_are_dropped() {
        assert_eq!(narrowed(None, Some("^a$")), ["main;b 1", "main;c 2"]);
        assert_eq!(narrowed(None, Some("^[abc]$")), ["main 3"]);
    }

    #[test]
    fn of_shown_functions_only_their_frames_are_left() {
        let profile = fixture::profile(&[("main;a;b", 1), ("main;c", 2), ("a", 4)]);
        let show = Some(NamePattern::new("^[ab]$", false));
        let left = profile.narrow(&Patterns { show, ..Patterns::default() });
        assert_eq!((fixture::folded(&left), left.emptied), (vec!["a;b 1".into(), "a 4".into()], 2));
    }

    #[test]
    fn what_is_left_says_how_it_was_taken() {
        let mut profile = fixture::profile(&[("main;a;b", 1), ("main;c", 2), ("a", 4)]);
        profile.rows[0].taken = Taken { end: WalkEnd::DEPTH, in_kernel: true, ..fixture::TAKEN };
        profile.rows[1].span_ns = (1, 99);
        profile.rows[2].taken.rooted = true;
        profile.rows[2].span_ns = (20, 30);
        let focus = Patterns { focus: Some(NamePattern::new("^a$", false)), ..Patterns::default() };
        let left = profile.narrow(&focus);
        let samples = |which: fn(Taken) -> bool| left.taken(which).samples;
        assert_eq!([samples(|t| t.in_kernel), samples(|t| t.rooted), samples(Taken::is_walked)], [1, 4, 1]);
        assert_eq!(left.span_ns(), Some((0, 30)));
    }

    #[test]
    fn moments_follow_their_rows() {
        let mut profile = fixture::profile(&[("main;a;b", 1), ("main;c", 2), ("a", 4)]);
        let moment =
            |time_ns, row| Moment { time_ns, row, hit: row, cpu: 0, lasted_ns: 0, late_ns: 0, weight: 10 };
        profile.moments = vec![moment(5, 1), moment(6, 2), moment(7, 0)];
        let focus = Patterns { focus: Some(NamePattern::new("^a$", false)), ..Patterns::default() };
        let left = profile.narrow(&focus);
        let row = |moment: &Moment| left.function(left.stacks[left.rows[moment.row as usize].stack as usize]);
        let seen: Vec<(u64, &str)> = left.moments.iter().map(|it| (it.time_ns, &*row(it).name)).collect();
        assert_eq!(seen, [(6, "a"), (7, "b")]);
    }

    #[test]
    fn focus_is_decided_before_anything_is_hidden() {
        assert_eq!(narrowed(Some("^a$"), Some("^a$")), ["main;b 1"]);
    }
}
