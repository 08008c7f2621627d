//! Folds what template arguments of the standard library repeat.

use super::brackets::Brackets;

/// Namespaces that only say which version of the library it is.
const VERSIONS: [&str; 4] = ["__cxx11::", "__1::", "__ndk1::", "__8::"];
/// What people write for these types of the library.
const SHORT: [(&str, &str); 11] = [
    ("std::basic_string<char>", "std::string"),
    ("std::basic_string<wchar_t>", "std::wstring"),
    ("std::basic_string_view<char>", "std::string_view"),
    ("std::basic_ostream<char>", "std::ostream"),
    ("std::basic_istream<char>", "std::istream"),
    ("std::basic_iostream<char>", "std::iostream"),
    ("std::basic_ios<char>", "std::ios"),
    ("std::basic_ostringstream<char>", "std::ostringstream"),
    ("std::basic_istringstream<char>", "std::istringstream"),
    ("std::basic_stringstream<char>", "std::stringstream"),
    ("std::basic_stringbuf<char>", "std::stringbuf"),
];

/// Folds default template arguments of the standard library, the namespaces of its versions, and tags of its ABI. An argument is
/// left out only if it is the default one for those before it. `None` if brackets do not match.
///
/// # Example
/// ```
/// use icecore_text::name::folded;
///
/// let map = "std::map<int, char, std::less<int>, std::allocator<std::pair<int const, char> > >";
/// assert_eq!(folded(map).as_deref(), Some("std::map<int, char>"));
/// ```
pub fn folded(name: &str) -> Option<String> {
    let mut text = name.to_owned();
    for version in VERSIONS {
        text = text.replace(&format!("std::{version}"), "std::");
    }
    while let Some((before, tag)) = text.split_once("[abi:")
        && let Some((_, behind)) = tag.split_once(']')
    {
        text = format!("{before}{behind}");
    }
    let brackets = Brackets::of(&text)?;
    let mut begins: Vec<_> =
        brackets.pairs.iter().filter(|(begin, _)| text.as_bytes()[*begin] == b'<').collect();
    begins.sort_unstable();
    Some(part(&text, &begins, 0, text.len()))
}

/// Folds the text from `from` to `end`.
fn part(text: &str, pairs: &[&(usize, usize)], from: usize, end: usize) -> String {
    let mut written = String::new();
    let mut at = from;
    while let Some((open, close)) =
        pairs[pairs.partition_point(|pair| pair.0 < at)..].first().map(|pair| **pair)
    {
        if open >= end {
            break;
        }
        written.push_str(&text[at..open]);
        let arguments = arguments(text, pairs, open + 1, close);
        let head = written
            .rfind(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
            .map_or(0, |at| at + written[at..].chars().next().map_or(0, char::len_utf8));
        let is_std = written[head..].starts_with("std::");
        let kept = if is_std { without_defaults(&arguments) } else { arguments.len() };
        let list = arguments[..kept].join(", ");
        let blank = if list.ends_with('>') { " " } else { "" };
        let whole = format!("{}<{list}{blank}>", &written[head..]);
        let short = SHORT.iter().find(|(long, _)| *long == whole).map_or(&whole[..], |(_, short)| short);
        written.replace_range(head.., short);
        at = close + 1;
    }
    written.push_str(&text[at.min(end)..end]);
    written
}

/// Splits template arguments, and folds each.
fn arguments(text: &str, pairs: &[&(usize, usize)], from: usize, end: usize) -> Vec<String> {
    let (mut list, mut begin, mut level) = (Vec::new(), from, 0_i32);
    let inside = &pairs[pairs.partition_point(|pair| pair.0 < from)..];
    let mut next = 0;
    let mut at = from;
    while at < end {
        // Over the brackets of the arguments' own arguments.
        while inside.get(next).is_some_and(|pair| pair.0 < at) {
            next += 1;
        }
        if let Some(pair) = inside.get(next).filter(|pair| pair.0 == at) {
            at = pair.1 + 1;
            continue;
        }
        match text.as_bytes()[at] {
            b'(' | b'{' | b'[' => level += 1,
            b')' | b'}' | b']' => level -= 1,
            b',' if level == 0 => {
                list.push(part(text, pairs, begin, at).trim().to_owned());
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    let last = part(text, pairs, begin, end);
    if !last.trim().is_empty() || !list.is_empty() {
        list.push(last.trim().to_owned());
    }
    list
}

/// Returns how many arguments are left without the default ones at the end.
fn without_defaults(arguments: &[String]) -> usize {
    let mut kept = arguments.len();
    while kept > 1 && is_default(&arguments[..kept - 1], &arguments[kept - 1]) {
        kept -= 1;
    }
    kept
}

/// Returns true if a library would take this argument if nobody wrote it.
fn is_default(before: &[String], argument: &str) -> bool {
    let Some((head, of)) = argument.strip_suffix('>').and_then(|text| text.split_once('<')) else {
        return false;
    };
    let (of, first) = (of.trim_end(), &before[0]);
    match head {
        "std::char_traits" | "std::less" | "std::hash" | "std::equal_to" | "std::default_delete" => {
            of == first
        }
        "std::allocator" => {
            let pair = before.get(1).map(|second| {
                let blank = if second.ends_with('>') { " " } else { "" };
                [
                    format!("std::pair<{first} const, {second}{blank}>"),
                    format!("std::pair<const {first}, {second}{blank}>"),
                ]
            });
            of == first || pair.is_some_and(|pairs| pairs.iter().any(|pair| pair == of))
        }
        _ => false,
    }
}
