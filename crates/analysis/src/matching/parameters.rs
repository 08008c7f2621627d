//! Removes the types from C++ signatures, so that names match if the types change.

/// Removes the types of parameters and of the result, and everything after the parameters; template arguments and the part of a
/// coroutine stay. `None` if the name has no parameters.
///
/// `int f<A>(A, long) const` is `f<A>`, `f(int)::{lambda(int)}::operator()(int) const` is `f::{lambda(int)}::operator()`.
pub(super) fn without_parameters(key: &str) -> Option<String> {
    let (name, part) = key.split_at(key.find(" [clone ").unwrap_or(key.len()));
    let mut left = String::with_capacity(key.len());
    let (mut depth, mut parameters, mut begin, mut has_parameters) = (0_usize, 0_usize, 0, false);
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let taken = verbatim(rest).unwrap_or(c.len_utf8());
        let (piece, behind) = rest.split_at(taken);
        rest = behind;
        match c {
            _ if piece.len() > 1 && parameters == 0 => left.push_str(piece),
            '(' if depth == 0 => {
                parameters += 1;
                has_parameters = true;
            }
            ')' if depth == 0 => parameters = parameters.saturating_sub(1),
            _ if parameters > 0 => {}
            // The text before it is the type of the result; the text after parameters is no name.
            ' ' if depth == 0 && !has_parameters => begin = left.len(),
            ' ' if depth == 0 => break,
            _ => {
                match c {
                    '<' | '{' => depth += 1,
                    '>' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                left.push(c);
            }
        }
    }
    has_parameters.then(|| format!("{}{part}", &left[begin..])).filter(|left| !left.is_empty())
}

/// Returns how many bytes at the beginning of a text contain brackets and spaces that are part of a name.
fn verbatim(text: &str) -> Option<usize> {
    const ANONYMOUS: &str = "(anonymous namespace)";
    const OPERATOR: &str = "operator";
    if text.starts_with(ANONYMOUS) {
        return Some(ANONYMOUS.len());
    }
    let operator = text.strip_prefix(OPERATOR)?;
    let symbol = match operator {
        _ if operator.starts_with("()") => 2,
        // `operator new[]`, `operator unsigned long`: up to the parameters.
        _ if operator.starts_with(' ') => operator.find('(').unwrap_or(operator.len()),
        _ => operator.find(|c: char| !"<>=+-*/%^&|~!,[]".contains(c)).unwrap_or(operator.len()),
    };
    Some(OPERATOR.len() + symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_left_of_a_signature() {
        for (key, name) in [
            ("f(int)", "f"),
            ("void f<int>(int, char const*)", "f<int>"),
            ("a::B::f(int) const", "a::B::f"),
            ("(anonymous namespace)::H::go(int)", "(anonymous namespace)::H::go"),
            ("f(int)::{lambda(int)}::operator()(int) const", "f::{lambda(int)}::operator()"),
            ("a::operator<<(a::B&, int)", "a::operator<<"),
            ("a::operator->()", "a::operator->"),
            ("a::B::operator unsigned long() const", "a::B::operator unsigned long"),
            ("operator new[](unsigned long)", "operator new[]"),
            ("std::vector<void (*)(int)> f<void (*)(int)>(void (*)(int))", "f<void (*)(int)>"),
            ("f(int) [clone .resume]", "f [clone .resume]"),
        ] {
            assert_eq!(without_parameters(key).as_deref(), Some(name), "{key}");
        }
    }

    #[test]
    fn a_name_without_parameters_has_no_signature() {
        for key in ["f", "a::b", "<(u8, u8) as a::B>::f", "[unmapped]", "", "()", "JS:f a.js"] {
            assert_eq!(without_parameters(key), None, "{key}");
        }
    }
}
