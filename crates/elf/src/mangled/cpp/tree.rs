//! What a mangled name says, as a tree.

/// The number of a node in its [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(u32);

/// Qualifiers, as a set of bits.
pub(super) mod quals {
    pub(in super::super) const RESTRICT: u8 = 1;
    pub(in super::super) const VOLATILE: u8 = 2;
    pub(in super::super) const CONST: u8 = 4;
    pub(in super::super) const LVALUE: u8 = 8;
    pub(in super::super) const RVALUE: u8 = 16;
    pub(in super::super) const TRANSACTION_SAFE: u8 = 32;

    /// How each is written, in this order.
    pub(in super::super) const WORDS: [(u8, &str); 6] = [
        (TRANSACTION_SAFE, " transaction_safe"),
        (CONST, " const"),
        (VOLATILE, " volatile"),
        (RESTRICT, " __restrict"),
        (LVALUE, " &"),
        (RVALUE, " &&"),
    ];
}

/// An operator.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operator {
    /// As a mangled name has it: two letters.
    pub code: &'static str,
    /// As a program has it, with a blank behind a word.
    pub text: &'static str,
    /// How many operands it takes.
    pub operands: u8,
}

/// A part of a name.
#[derive(Debug)]
pub(super) enum Node<'n> {
    // Names.
    /// A name of the source, or a type that the language has.
    Text(&'n str),
    /// A name of the standard library that has a code of its own, and the name of its constructors.
    Std(&'static str, &'static str),
    /// `A::B`.
    Qualified(Id, Id),
    /// A name with template arguments.
    Template(Id, Vec<Id>),
    /// `A[abi:tag]`.
    Tagged(Id, &'n str),
    Destructor(Id),
    Operator(Operator),
    /// An operator that a vendor of a compiler or a program adds: `operator"" _km`.
    NamedOperator(&'static str, Id),
    Conversion(Id),
    Lambda(Vec<Id>, u64),
    Unnamed(u64),
    /// `[a, b]`.
    Binding(Vec<Id>),
    /// In the default value of the parameter with this number, from the last.
    DefaultArgument(u64, Id),
    /// A function, with its parameters and the type that it returns.
    Function {
        name: Id,
        result: Option<Id>,
        params: Vec<Id>,
        quals: u8,
        requires: Option<Id>,
    },
    /// What a compiler makes, and for which name.
    Special(&'static str, Id),
    ReferenceTemporary(u64, Id),
    ConstructionTable {
        base: Id,
        derived: Id,
    },
    /// A copy or a part of a function.
    Clone(Id, &'n str),

    // Parameters of templates.
    /// Several template arguments in the place of one.
    Pack(Vec<Id>),
    /// The parameter with this number: of the function in which it stands, or of a lambda whose parameter it is.
    Param(usize),
    /// The same for each element of the packs in it.
    Expansion(Id),

    // Types.
    Pointer(Id),
    Reference(Id),
    RvalueReference(Id),
    Cv(u8, Id),
    /// A word behind the type.
    Followed(Id, &'static str),
    VendorQualified(Id, Id),
    Member {
        class: Id,
        of: Id,
    },
    FunctionType {
        result: Id,
        params: Vec<Id>,
        quals: u8,
        exceptions: Option<Id>,
    },
    Array(Option<Id>, Id),
    Vector(Option<Id>, Id),
    /// `_BitInt(N)`.
    BitInt(&'static str, Id),
    /// A floating-point type of this many bits.
    Float(&'n str, &'static str),
    Decltype(Id),
    Noexcept(Option<Id>),
    Throw(Vec<Id>),

    // Expressions.
    Literal {
        of: Id,
        digits: &'n str,
        is_negative: bool,
    },
    Nullary(Operator),
    Unary(Operator, Id),
    Postfix(Operator, Id),
    Binary(Operator, Id, Id),
    Ternary(Id, Id, Id),
    /// `const_cast<T>(x)`.
    NamedCast(Operator, Id, Id),
    Cast(Id, Id),
    New {
        operator: Operator,
        placement: Vec<Id>,
        of: Id,
        init: Option<Id>,
    },
    /// Both ends of a fold: with two operands the initial value stands opposite the pack.
    Fold {
        operator: Operator,
        left: Option<Id>,
        right: Option<Id>,
    },
    Call(Id, Id),
    /// `(a, b)`.
    List(Vec<Id>),
    /// `T{a, b}`.
    Braced(Option<Id>, Vec<Id>),
    /// `.field = value`, `[index] = value`.
    Designated {
        begin: &'static str,
        at: Id,
        end: &'static str,
        value: Id,
    },
    /// How many elements packs have.
    Length(Vec<Id>),
    /// A parameter of the function, from 1.
    Parameter(u64),
}

/// All parts of a name.
#[derive(Debug, Default)]
pub(super) struct Tree<'n>(Vec<Node<'n>>);

impl<'n> Tree<'n> {
    pub(super) fn add(&mut self, node: Node<'n>) -> Id {
        self.0.push(node);
        Id((self.0.len() - 1) as u32)
    }

    pub(super) fn node(&self, id: Id) -> &Node<'n> {
        &self.0[id.0 as usize]
    }

    /// Returns the name that constructors and destructors of a class have.
    pub(super) fn base(&self, class: Id) -> Id {
        let mut id = class;
        // A chain may be a circle only in what is no name.
        for _ in 0..self.0.len() {
            id = match self.node(id) {
                Node::Template(name, _) | Node::Qualified(_, name) | Node::Tagged(name, _) => *name,
                _ => return id,
            };
        }
        id
    }

    /// Returns the template arguments of the function with this name.
    pub(super) fn arguments(&self, name: Id) -> Option<&[Id]> {
        let name = match self.node(name) {
            // In another function.
            Node::Qualified(_, name) => *name,
            _ => name,
        };
        match self.node(name) {
            Node::Template(_, arguments) => Some(arguments),
            _ => None,
        }
    }
}
