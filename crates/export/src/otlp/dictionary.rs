//! What all profiles refer to, by positions in tables. Each item is once in its table, and the first one of each is the zero value, which
//! stands for nothing.

use std::hash::Hash;
use std::io::{self, Write};

use icecore_profile::map::Interned;

use super::messages::{
    AnyValue, Function, KeyValueAndUnit, Location, Mapping, Stack,
    data::DICTIONARY,
    dictionary::{ATTRIBUTES, FUNCTIONS, LINKS, LOCATIONS, MAPPINGS, STACKS, STRINGS},
};
use super::nested;
use crate::wire;

/// The growing tables.
pub(super) struct Dictionary {
    strings: Interned<String>,
    attributes: Interned<KeyValueAndUnit>,
    functions: Interned<Function>,
    mappings: Interned<Mapping>,
    locations: Interned<Location>,
    /// The trie of stacks: the position of the caller's node, and a location. Node 0 is the empty stack.
    nodes: Interned<(u32, i32)>,
    /// Stacks by their innermost nodes.
    stacks: Interned<u32>,
}

/// Returns the position of an item. No memory holds the 2³¹ items beyond which there are no positions.
fn position<T: Eq + Hash>(table: &mut Interned<T>, item: T) -> i32 {
    i32::try_from(table.intern(item)).unwrap_or(0)
}

fn table<T: Eq + Hash>(zero: T) -> Interned<T> {
    let mut table = Interned::new();
    table.intern(zero);
    table
}

impl Dictionary {
    /// Makes tables that have nothing but zero values.
    pub(super) fn new() -> Self {
        Self {
            strings: table(String::new()),
            attributes: table(KeyValueAndUnit::default()),
            functions: table(Function::default()),
            mappings: table(Mapping::default()),
            locations: table(Location::default()),
            nodes: table((0, 0)),
            stacks: table(0),
        }
    }

    /// Returns the position of a text.
    pub(super) fn text(&mut self, text: &str) -> i32 {
        position(&mut self.strings, text.to_owned())
    }

    /// Returns the position of an attribute.
    pub(super) fn attribute(&mut self, key: &str, value: impl Into<AnyValue>) -> i32 {
        let key = self.text(key);
        position(&mut self.attributes, KeyValueAndUnit { key, value: Some(value.into()) })
    }

    /// Returns the position of a function.
    pub(super) fn function(&mut self, function: Function) -> i32 {
        position(&mut self.functions, function)
    }

    /// Returns the position of a mapping.
    pub(super) fn mapping(&mut self, mapping: Mapping) -> i32 {
        position(&mut self.mappings, mapping)
    }

    /// Returns the position of a location.
    pub(super) fn location(&mut self, location: Location) -> i32 {
        position(&mut self.locations, location)
    }

    /// Returns the node of the stack in which a location was called by the stack of another node.
    pub(super) fn node(&mut self, caller: u32, location: i32) -> u32 {
        self.nodes.intern((caller, location))
    }

    /// Returns the position of the stack of a node.
    pub(super) fn stack(&mut self, node: u32) -> i32 {
        position(&mut self.stacks, node)
    }

    /// Writes all tables.
    pub(super) fn write(self, out: &mut dyn Write) -> io::Result<()> {
        let (strings, attributes) = (self.strings.into_items(), self.attributes.into_items());
        let (functions, mappings) = (self.functions.into_items(), self.mappings.into_items());
        let (locations, nodes) = (self.locations.into_items(), self.nodes.into_items());
        let stacks = self.stacks.into_items();
        let stack = |mut node: u32| {
            let walk = std::iter::from_fn(|| {
                let (caller, location) = (node != 0).then(|| nodes[node as usize])?;
                node = caller;
                Some(location)
            });
            Stack { locations: walk.collect() }
        };
        nested::measured_message(DICTIONARY, out, |out| {
            mappings.iter().try_for_each(|it| wire::message(MAPPINGS, it, out))?;
            locations.iter().try_for_each(|it| wire::message(LOCATIONS, it, out))?;
            functions.iter().try_for_each(|it| wire::message(FUNCTIONS, it, out))?;
            // Nothing links samples to spans: there is the zero value alone.
            nested::head(LINKS, 0, out)?;
            strings.iter().try_for_each(|it| nested::text(STRINGS, it, out))?;
            attributes.iter().try_for_each(|it| wire::message(ATTRIBUTES, it, out))?;
            stacks.iter().try_for_each(|it| wire::message(STACKS, &stack(*it), out))
        })
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::otlp::messages::Line;

    /// The tables as a reader has them.
    #[derive(Clone, PartialEq, Message)]
    struct Tables {
        #[prost(message, repeated, tag = "1")]
        mappings: Vec<Mapping>,
        #[prost(message, repeated, tag = "2")]
        locations: Vec<Location>,
        #[prost(message, repeated, tag = "3")]
        functions: Vec<Function>,
        #[prost(message, repeated, tag = "4")]
        links: Vec<Stack>,
        #[prost(string, repeated, tag = "5")]
        strings: Vec<String>,
        #[prost(message, repeated, tag = "6")]
        attributes: Vec<KeyValueAndUnit>,
        #[prost(message, repeated, tag = "7")]
        stacks: Vec<Stack>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Data {
        #[prost(message, optional, tag = "2")]
        dictionary: Option<Tables>,
    }

    fn read(dictionary: Dictionary) -> Tables {
        let mut bytes = Vec::new();
        dictionary.write(&mut bytes).expect("memory");
        Data::decode(&bytes[..]).expect("own bytes").dictionary.expect("tables")
    }

    #[test]
    fn each_table_begins_with_the_zero_value() {
        let tables = read(Dictionary::new());
        assert_eq!(tables.mappings, [Mapping::default()]);
        assert_eq!(tables.locations, [Location::default()]);
        assert_eq!(tables.functions, [Function::default()]);
        assert_eq!((tables.links.len(), tables.strings), (1, vec![String::new()]));
        assert_eq!(tables.attributes, [KeyValueAndUnit::default()]);
        assert_eq!(tables.stacks, [Stack::default()]);
    }

    #[test]
    fn a_recursive_stack_has_its_location_as_often_as_it_was_called() {
        let mut dictionary = Dictionary::new();
        let mut location = |address| {
            let name = dictionary.text("f");
            let function = dictionary.function(Function { name, filename: 0, start_line: 0 });
            dictionary.location(Location {
                address,
                lines: vec![Line { function, line: 1 }],
                ..Location::default()
            })
        };
        let (outer, inner) = (location(1), location(2));
        assert_eq!(location(1), outer, "the same location is the same item");
        let mut node = dictionary.node(0, outer);
        for _ in 0..3 {
            node = dictionary.node(node, inner);
        }
        assert_eq!((dictionary.stack(node), dictionary.stack(node), dictionary.stack(0)), (1, 1, 0));
        let tables = read(dictionary);
        assert_eq!(tables.stacks[1].locations, [inner, inner, inner, outer], "leaf first");
        assert_eq!(tables.functions.len(), 2);
    }

    #[test]
    fn attributes_are_alike_if_key_and_value_are() {
        let mut dictionary = Dictionary::new();
        let text = dictionary.attribute("thread.id", "7");
        let number = dictionary.attribute("thread.id", 7);
        assert_ne!(text, number);
        assert_eq!(dictionary.attribute("thread.id", 7), number);
        assert_eq!(read(dictionary).strings, ["", "thread.id"]);
    }
}
