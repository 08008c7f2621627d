//! Which brackets of a name belong together.

use super::{CUT, MAX_LEVELS};

/// The brackets of a name.
pub(super) struct Brackets {
    /// For each byte the number of brackets that are open there; a bracket counts as inside.
    levels: Vec<usize>,
    /// Where each pair opens and closes, in the order of their ends.
    pub(super) pairs: Vec<(usize, usize)>,
    /// Where `operator` begins, outside of all brackets.
    operator: Option<usize>,
}

/// Operators that have brackets in their names, the longest ones first.
const OPERATORS: [&str; 12] = ["->*", "<=>", "<<=", ">>=", "()", "[]", "->", "<<", ">>", "<=", ">=", "<"];

impl Brackets {
    /// Finds the pairs; `None` if a bracket has no partner.
    pub(super) fn of(name: &str) -> Option<Self> {
        let bytes = name.as_bytes();
        let (mut open, mut pairs): (Vec<usize>, _) = (Vec::new(), Vec::new());
        let (mut at, mut operator) = (0, None);
        while at < bytes.len() {
            let rest = &name.as_bytes()[at..];
            if let Some(len) = operator_len(bytes, at) {
                if open.is_empty() {
                    operator = Some(at);
                }
                at += len;
                continue;
            }
            match rest[0] {
                // An arrow of a type.
                b'-' | b'=' if rest.get(1) == Some(&b'>') => at += 1,
                b'<' | b'(' | b'[' | b'{' => open.push(at),
                b'>' => match open.last() {
                    Some(&begin) if bytes[begin] == b'<' => pairs.extend(open.pop().map(|begin| (begin, at))),
                    // A sign in an expression.
                    Some(_) => {}
                    None => return None,
                },
                close @ (b')' | b']' | b'}') => {
                    let wanted = match close {
                        b')' => b'(',
                        b']' => b'[',
                        _ => b'{',
                    };
                    while open.last().is_some_and(|begin| bytes[*begin] == b'<') {
                        open.pop();
                    }
                    let begin = open.pop().filter(|begin| bytes[*begin] == wanted)?;
                    pairs.push((begin, at));
                }
                _ => {}
            }
            at += 1;
        }
        if !open.is_empty() {
            return None;
        }
        let mut levels = vec![0_usize; name.len() + 1];
        let mut changes = vec![0_i32; name.len() + 2];
        for (begin, end) in &pairs {
            changes[*begin] += 1;
            changes[*end + 1] -= 1;
        }
        let mut level = 0;
        for (at, change) in changes.iter().take(levels.len()).enumerate() {
            level += change;
            levels[at] = usize::try_from(level).ok()?;
        }
        let is_flat = levels.iter().all(|level| *level <= MAX_LEVELS);
        is_flat.then_some(Self { levels, pairs, operator })
    }

    pub(super) fn deepest(&self) -> usize {
        self.levels.iter().copied().max().unwrap_or(0)
    }

    /// Finds the last of these characters before `end` that is outside of all brackets.
    pub(super) fn outer(&self, text: &str, end: usize, wanted: char) -> Option<usize> {
        let mut found = text[..end].char_indices().rev();
        found.find(|(at, c)| *c == wanted && self.levels[*at] == 0).map(|(at, _)| at)
    }

    /// Returns where an operator's name begins.
    pub(super) fn operator(&self) -> Option<usize> {
        self.operator
    }

    /// Finds the parameters of the function: the last round brackets outside of all others, behind which only qualifiers stand.
    pub(super) fn params(&self, text: &str) -> Option<usize> {
        let outer = self
            .pairs
            .iter()
            .filter(|(begin, _)| self.levels[*begin] == 1 && text.as_bytes()[*begin] == b'(');
        let (begin, end) = *outer.max_by_key(|(begin, _)| *begin)?;
        let quals = [" const", " volatile", " &&", " &", " noexcept"];
        let mut behind = &text[end + 1..];
        while let Some(rest) = quals.iter().find_map(|qual| behind.strip_prefix(qual)) {
            behind = rest;
        }
        let is_behind_name =
            text[..begin].ends_with(|c: char| c.is_alphanumeric() || "_>]})*&=+-/%^|~!,".contains(c));
        (behind.is_empty() && begin > 0 && is_behind_name).then_some(begin)
    }

    /// Writes the text with `…` in all brackets of this level.
    pub(super) fn emptied(&self, text: &str, level: usize) -> String {
        let mut written = String::with_capacity(text.len());
        let mut from = 0;
        let mut pairs: Vec<_> = self.pairs.iter().filter(|(begin, _)| self.levels[*begin] == level).collect();
        pairs.sort_unstable();
        for (begin, end) in pairs {
            // Brackets that are names stay: `{closure#0}`, `(anonymous namespace)`.
            let inside = &text[begin + 1..*end];
            let is_name = matches!(text.as_bytes()[*begin], b'{') && !inside.contains(['(', '<'])
                || inside == "anonymous namespace"
                || inside.chars().count() <= 1;
            if is_name {
                continue;
            }
            written.push_str(&text[from..=*begin]);
            // What a lambda is stays: `{lambda(…)#2}`.
            if text.as_bytes()[*begin] == b'{' {
                written.push_str(inside);
            } else if let Some((of, as_what)) = inside.split_once(" as ") {
                // A method of a trait, in Rust; deeper brackets are cut already.
                let last = |path: &str| path[path.rfind("::").map_or(0, |at| at + 2)..].to_owned();
                written.extend([&*last(of), " as ", &*last(as_what)]);
            } else {
                written.push_str(CUT);
            }
            from = *end;
        }
        written.push_str(&text[from..]);
        written
    }

    /// Finds the `::` outside of all brackets, from the first one.
    pub(super) fn separators(&self, text: &str) -> Vec<usize> {
        let colons = text.match_indices("::").map(|(at, _)| at);
        colons
            .filter(|at| self.levels[*at] == 0 && self.operator.is_none_or(|operator| *at < operator))
            .collect()
    }
}

/// Returns how long the name of an operator is that begins at this byte.
fn operator_len(bytes: &[u8], at: usize) -> Option<usize> {
    const WORD: &[u8] = b"operator";
    let is_name = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_';
    let behind = bytes[at..].strip_prefix(WORD)?;
    if at > 0 && is_name(&bytes[at - 1]) || behind.first().is_some_and(is_name) {
        return None;
    }
    let sign = OPERATORS.iter().find(|sign| behind.starts_with(sign.as_bytes()));
    Some(WORD.len() + sign.map_or(0, |sign| sign.len()))
}
