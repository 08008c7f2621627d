use proptest::prelude::*;

use super::*;

/// A name, the columns that it may take, and how it is cut.
const CASES: [(&str, usize, &str); 22] = [
    ("fits", 4, "fits"),
    ("a@", 1, "…"),
    (
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::append(char const*)",
        40,
        "std::string::append(char const*)",
    ),
    ("std::vector<int, std::allocator<int> >::push_back(int&&)", 40, "std::vector<int>::push_back(int&&)"),
    ("std::__1::vector<int, Pool<int> >::push_back(int&&)", 42, "std::vector<int, Pool<int> >::push_back(…)"),
    (
        "f(std::map<std::string, std::vector<int, std::allocator<int> >, std::less<std::string >, std::allocator<std::pair<std::string const, std::vector<int, std::allocator<int> > > > >)",
        45,
        "f(std::map<std::string, std::vector<int> >)",
    ),
    (
        "std::unique_ptr<Node, std::default_delete<Node> > parse(char const*)",
        60,
        "std::unique_ptr<Node> parse(char const*)",
    ),
    ("std::unique_ptr<Node, std::default_delete<Node> > parse(char const*)", 25, "parse(char const*)"),
    ("void ns::run<A<B<int>, C>, D>(A<B<int>, C>, D) const", 30, "ns::run<A<B<int>, C>, D>(…)"),
    ("void ns::run<A<B<int>, C>, D>(A<B<int>, C>, D) const", 24, "ns::run<A<B<int>, C>, D>"),
    ("void ns::run<A<B<int>, C>, D>(A<B<int>, C>, D) const", 20, "ns::run<A<…>, D>"),
    ("void ns::run<A<B<int>, C>, D>(A<B<int>, C>, D) const", 12, "ns::run<…>"),
    ("deep::scope::of::the::method_itself(int)", 20, "…::method_itself"),
    ("a_name_of_c_that_is_too_long", 12, "a_name…_long"),
    ("helper_with_a_long_name(int, char const*) (a.c:3)", 35, "helper_with_a_long_name(…) (a.c:3)"),
    ("ns::parse<Json>(std::istream&) (+0x1130)", 26, "ns::parse<Json> (+0x1130)"),
    ("library_function_api@@VERSION_1.2", 26, "librar…on_api@@VERSION_1.2"),
    ("void Foo<Bar>::run(int) [clone .cold]", 30, "Foo<Bar>::run(…) [clone .cold]"),
    ("non-virtual thunk to ns::Both::second(int, int)", 40, "non-virtual thunk to ns::Both::second(…)"),
    ("std::ostream& operator<< <char>(std::ostream&, char)", 28, "operator<< <char>(…)"),
    ("<alloc::vec::Vec<T> as core::iter::Iterator>::next", 48, "<Vec<T> as Iterator>::next"),
    (
        "main::run::{lambda(int, char)#2}::operator()(int, char) const",
        40,
        "main::run::{lambda(…)#2}::operator()",
    ),
];

#[test]
fn what_says_least_goes_first() {
    let wrong = |(name, most, wanted): &(&str, usize, &str)| {
        let short = short(name, *most);
        (short != *wanted).then(|| format!("{name} in {most}\n  {short}\n  {wanted}"))
    };
    let wrong: Vec<String> = CASES.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_name_of_the_function_stays_whole() {
    let name = "std::_Rb_tree<std::string, std::pair<std::string const, Value>, std::_Select1st<std::pair<std::string const, Value> >, std::less<std::string>, std::allocator<std::pair<std::string const, Value> > >::_M_get_insert_hint_unique_pos(std::_Rb_tree_const_iterator<std::pair<std::string const, Value> >, std::string const&)";
    for most in 32..columns(name) {
        let short = short(name, most);
        assert!(
            columns(&short) <= most && short.contains("::_M_get_insert_hint_unique_pos"),
            "{most}: {short}"
        );
    }
}

proptest! {
    #[test]
    fn no_name_is_wider_than_its_room(text in "[a-c:<>(){}\\[\\]@ ,ü漢&*-]{0,60}", most in 1_usize..50) {
        let short = short(&text, most);
        prop_assert!(columns(&short) <= most, "{short:?} takes {} of {most}", columns(&short));
    }
}
