//! Checks that imports go one way: each room uses only the rooms that docs/ARCHITECTURE.md ("Rooms") lists for it, and these
//! stand above it in the table. So there is no circle, and the table is true.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree};

/// The rooms that a room uses, by name.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Returns the rooms of each source folder in the order of its table: name, and the rooms that it uses.
fn tables(architecture: &str) -> BTreeMap<String, Vec<(String, BTreeSet<String>)>> {
    let mut tables: BTreeMap<String, Vec<_>> = BTreeMap::new();
    let mut folder = None;
    for line in architecture.lines() {
        if line.starts_with('#') {
            folder = line.split('`').nth(1).filter(|name| name.starts_with("crates/")).map(str::to_owned);
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (Some(folder), ["", room, _, uses, ""]) = (&folder, &cells[..]) else { continue };
        let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        if let [room] = &words(room)[..] {
            let rows = tables.entry(folder.clone()).or_default();
            rows.push((room.clone(), words(uses).into_iter().collect()));
        }
    }
    tables
}

/// Returns the faults of a table: a room below one that uses it, or uses that differ from those of the code.
fn faults(table: &[(String, BTreeSet<String>)], used: &Uses) -> Vec<String> {
    let mut faults = Vec::new();
    let mut above = BTreeSet::new();
    for (room, listed) in table {
        let Some(used) = used.get(room) else {
            faults.push(format!("there is no room `{room}`"));
            continue;
        };
        faults.extend(used.difference(listed).map(|other| format!("`{room}` must not use `{other}`")));
        faults.extend(listed.difference(used).map(|other| format!("`{room}` does not use `{other}`")));
        faults.extend(listed.difference(&above).map(|other| format!("`{other}` must stand above `{room}`")));
        above.insert(room.clone());
    }
    faults
        .extend(used.keys().filter(|room| !above.contains(*room)).map(|room| format!("no row for `{room}`")));
    faults
}

/// Reads the uses of all rooms of a crate, whose sources lie in a folder. Tests may use anything.
fn uses(sources: &Path) -> Uses {
    let mut reader = Reader { dir: sources.to_owned(), module: Vec::new(), uses: Uses::new() };
    reader.file(&sources.join("lib.rs"));
    let rooms: BTreeSet<String> = reader.uses.keys().cloned().collect();
    // Other names in the root of a crate are re-exported.
    reader.uses.values_mut().for_each(|used| used.retain(|name| rooms.contains(name)));
    reader.uses
}

struct Reader {
    /// The folder with the modules of the current module.
    dir: PathBuf,
    /// The current module; its first name is the room.
    module: Vec<String>,
    uses: Uses,
}

fn is_test(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    };
    attributes.iter().any(is_test)
}

impl Reader {
    fn file(&mut self, path: &Path) {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.visit_file(&file);
    }

    /// Notes a path that begins in the current module.
    fn note(&mut self, segments: &[String]) {
        let outwards = segments.iter().take_while(|segment| *segment == "super").count();
        let named = match segments.first().map(String::as_str) {
            Some("crate") => segments.get(1),
            Some("super") if outwards >= self.module.len() => segments.get(outwards),
            _ => None,
        };
        if let (Some(named), Some(room)) = (named, self.module.first())
            && named != room
        {
            self.uses.entry(room.clone()).or_default().insert(named.clone());
        }
    }

    fn tree(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(&path.tree, before);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(item, before)),
            UseTree::Name(syn::UseName { ident }) | UseTree::Rename(syn::UseRename { ident, .. }) => {
                before.push(ident.to_string());
                self.note(before);
                before.pop();
            }
            UseTree::Glob(_) => self.note(before),
        }
    }

    /// Notes paths in the tokens of a macro call, which are not parsed yet.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        for token in tokens {
            match token {
                TokenTree::Ident(name) => path.push(name.to_string()),
                TokenTree::Punct(colon) if colon.as_char() == ':' => {}
                other => {
                    self.note(&std::mem::take(&mut path));
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.note(&path);
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        let name = module.ident.to_string();
        let dir = self.dir.join(&name);
        let dir = std::mem::replace(&mut self.dir, dir);
        self.module.push(name.clone());
        if self.module.len() == 1 {
            self.uses.entry(name.clone()).or_default();
        }
        match &module.content {
            Some((_, items)) => items.iter().for_each(|item| self.visit_item(item)),
            None => {
                let beside = dir.join(format!("{name}.rs"));
                self.file(&if beside.exists() { beside } else { self.dir.join("mod.rs") });
            }
        }
        self.module.pop();
        self.dir = dir;
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.tree(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.note(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invoked: &'a syn::Macro) {
        self.visit_path(&invoked.path);
        self.tokens(invoked.tokens.clone());
    }

    /// `pub(in super::super)` uses nothing.
    fn visit_vis_restricted(&mut self, _: &'a syn::VisRestricted) {}
}

#[test]
fn rooms_use_what_the_table_of_the_architecture_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("docs/ARCHITECTURE.md")).expect("it is there");
    let tables = tables(&text);
    let of_rooms = tables.iter().filter(|(folder, _)| folder.ends_with("/src"));
    assert!(of_rooms.clone().count() >= 4, "the page has tables of rooms");
    for (folder, table) in of_rooms {
        let faults = faults(table, &uses(&root.join(folder)));
        assert!(faults.is_empty(), "{folder}:\n{}", faults.join("\n"));
    }
}

/// Reads the uses of all packages whose manifests lie below a folder. Tests may use anything.
fn packages(folder: &Path, packages: &mut Uses) {
    let own = |line: &str| {
        line.split(['.', ' ', '"']).find_map(|word| word.strip_prefix("icecore-").map(str::to_owned))
    };
    if let Ok(manifest) = std::fs::read_to_string(folder.join("Cargo.toml")) {
        let section = |name: &str| {
            let lines = manifest.lines().skip_while(|line| *line != name).skip(1);
            lines.take_while(|line| !line.starts_with('[')).filter_map(own).collect::<BTreeSet<_>>()
        };
        let name = section("[package]").pop_first().expect("it has a name");
        packages.insert(name, section("[dependencies]"));
    }
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path());
    for inner in entries.filter(|path| path.is_dir() && !path.ends_with("src")) {
        self::packages(&inner, packages);
    }
}

#[test]
fn packages_use_what_the_table_of_the_architecture_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("docs/ARCHITECTURE.md")).expect("it is there");
    let mut used = Uses::new();
    packages(&root.join("crates"), &mut used);
    let faults = faults(&tables(&text)["crates/"], &used);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_files_that_a_change_begins_with_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = |name: &str| std::fs::read_to_string(root.join(name)).expect("it is there");
    let architecture = page("docs/ARCHITECTURE.md");
    let table = architecture
        .split("\n## ")
        .find(|part| part.starts_with("Where to change what"))
        .expect("it is there");
    // Both shorten paths to what the text before them has said.
    let packages = ["format", "profile", "record", "report"].map(|name| format!("crates/{name}/src"));
    let mut folders = ["", "crates", "crates/profile/src/recording"].map(str::to_owned).to_vec();
    folders.extend(packages);
    let is_path = |word: &&str| {
        word.contains('/')
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_./".contains(c))
    };
    for text in [table, &page("CONTRIBUTING.md")] {
        for path in text.split('`').skip(1).step_by(2).filter(is_path) {
            let is_there = folders.iter().any(|folder| root.join(folder).join(path).exists());
            assert!(is_there, "there is no `{path}`");
        }
    }
}

#[test]
fn whatever_way_a_room_is_used_is_seen() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    let rooms = ["a", "b", "c", "d", "e", "f", "g", "tests"];
    let modules: String = rooms.iter().map(|room| format!("mod {room};\n")).collect();
    write("lib.rs", &format!("{modules}pub use a::A;\n#[cfg(test)] mod t;"));
    write("a/mod.rs", "use crate::b::{self, C}; mod inner;");
    write("a/inner.rs", "pub(in super::super) struct I; use super::super::c::*; use super::super::A;");
    write("b.rs", "mod inner { fn f(x: super::super::d::D) {} }");
    write("c.rs", "fn f() { format!(\"{}\", vec![1, crate::e::E.x]); }");
    write("d.rs", "fn f() { let x = crate::f::g::<super::g::G>(); }");
    write("e.rs", "#[cfg(test)] mod tests { use crate::a::A; } #[cfg(test)] use crate::b::B;");
    write("f.rs", "//! [`crate::a`]\nuse other::a::A; fn a() { self::a(); }");
    write("g.rs", "macro_rules! m { () => { $crate::a::A } }");
    write("tests.rs", "impl From<crate::g::G> for X {}");
    let found = uses(dir.path());
    let of = |room: &str| found[room].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(rooms.map(of), [&["b", "c"][..], &["d"], &["e"], &["f", "g"], &[], &[], &["a"], &["g"]]);
}

#[test]
fn a_table_that_is_not_true_is_found() {
    let text = "### `crates/x/src`\n| room | what | uses |\n|---|---|---|\n| `a` | x | |\n| `b` | x | `a`, `c` |\n| `c` | x | `b` |\n| `d` | x | |\n\n## Other\n| `z` | x | |\n";
    let table = &tables(text)["crates/x/src"];
    let used =
        |room: &str, uses: &[&str]| (room.to_owned(), uses.iter().map(|it| (*it).to_owned()).collect());
    let code: Uses = [used("a", &["b"]), used("b", &["a", "c"]), used("c", &[]), used("e", &[])].into();
    let expected = [
        "`a` must not use `b`",
        "`c` must stand above `b`",
        "`c` does not use `b`",
        "there is no room `d`",
        "no row for `e`",
    ];
    assert_eq!(faults(table, &code), expected);
    let circle: Uses = [used("a", &[]), used("b", &["a", "c"]), used("c", &["b"]), used("d", &[])].into();
    assert_eq!(faults(table, &circle), ["`c` must stand above `b`"]);
}
