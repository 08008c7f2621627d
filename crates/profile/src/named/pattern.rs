//! Selects functions by a text that a user types: a name, or a pattern of names.

use std::fmt;
use std::str::FromStr;

use regex::{Regex, RegexBuilder};

use crate::named::names::{Function, Names};

/// A name, or a regular expression that names match. Names have brackets and stars, so a text that is the name of a function means
/// that function, whatever it means as an expression.
#[derive(Debug, Clone)]
pub struct NamePattern {
    text: String,
    ignores_case: bool,
    /// `None` if the text is no expression; then it can only be a name.
    regex: Option<Regex>,
}

impl FromStr for NamePattern {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::new(text, false))
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.ignores_case { "(?i)" } else { "" })?;
        f.write_str(&self.text)
    }
}

impl NamePattern {
    /// Takes what was typed.
    pub fn new(text: &str, ignores_case: bool) -> Self {
        let regex = RegexBuilder::new(text).case_insensitive(ignores_case).build().ok();
        Self { text: text.to_owned(), ignores_case, regex }
    }

    /// The same, but upper and lower case letters are equal.
    #[must_use]
    pub fn ignoring_case(&self) -> Self {
        Self::new(&self.text, true)
    }

    /// What was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if the text is no regular expression, and so only a name.
    pub fn is_only_name(&self) -> bool {
        self.regex.is_none()
    }

    /// Returns for each function whether it is meant: those of just this name if there is one, otherwise those of which a name
    /// matches.
    pub fn of(&self, names: &Names) -> Vec<bool> {
        self.among(&names.functions)
    }

    /// Does the same for other functions.
    pub fn among<'f>(&self, functions: impl IntoIterator<Item = &'f Function> + Clone) -> Vec<bool> {
        let exact: Vec<bool> = functions.clone().into_iter().map(|it| self.is_name_of(it)).collect();
        match exact.contains(&true) {
            true => exact,
            false => functions.into_iter().map(|it| self.matches(it)).collect(),
        }
    }

    /// Returns true if another text is the one that was typed, or matches it.
    pub fn fits(&self, text: &str) -> bool {
        self.text == text || self.regex.as_ref().is_some_and(|regex| regex.is_match(text))
    }

    fn is_name_of(&self, function: &Function) -> bool {
        match self.ignores_case {
            false => function.is_named(&self.text),
            true => function.names().any(|name| name.eq_ignore_ascii_case(&self.text)),
        }
    }

    fn matches(&self, function: &Function) -> bool {
        self.regex.as_ref().is_some_and(|regex| function.names().any(|name| regex.is_match(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_a_name_means_that_function_and_no_other() {
        let mut marked = Function::new("helper");
        marked.mark(" (a.c:3)");
        let aliased = Function { aliases: ["drb".into()].into(), ..Function::new("decode_request_body") };
        let all = [
            Function::new("A::A(unsigned long)"),
            Function::new("main::{lambda()#1}"),
            Function::new("main_loop"),
            Function::new("main"),
            marked,
            aliased,
        ];
        let meant = |text: &str| {
            let is_meant = NamePattern::new(text, false).among(&all);
            let meant = all.iter().zip(is_meant).filter(|(_, is_meant)| *is_meant);
            meant.map(|(function, _)| &*function.name).collect::<Vec<_>>()
        };
        assert_eq!(meant("A::A(unsigned long)"), ["A::A(unsigned long)"]);
        assert_eq!(meant("main::{lambda()#1}"), ["main::{lambda()#1}"]);
        assert_eq!(meant("main"), ["main"]);
        assert_eq!(meant("^main"), ["main::{lambda()#1}", "main_loop", "main"]);
        assert_eq!(meant("helper"), ["helper (a.c:3)"]);
        assert_eq!(meant("helper (a.c:3)"), ["helper (a.c:3)"]);
        assert_eq!(meant("^helper$"), ["helper (a.c:3)"]);
        assert_eq!(meant("drb"), ["decode_request_body"]);
        assert_eq!(meant("MAIN"), Vec::<&str>::new());
        assert_eq!(meant("{"), Vec::<&str>::new());
        assert!(NamePattern::new("main::{lambda()#1}(", false).is_only_name());
        let any_case = NamePattern::new("MAIN", true).among(&all);
        assert_eq!(any_case.iter().filter(|is_meant| **is_meant).count(), 1);
    }
}
