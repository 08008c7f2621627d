//! Checks that imports go one way: each room uses only the rooms that docs/ARCHITECTURE.md ("Rooms") lists for it, and these
//! stand above it in the table. So there is no circle, and the table is true. Inside of rooms, files and folders that lie in one
//! folder use each other one way, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseName, UseRename, UseTree, Visibility};

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

/// The names from the root of a crate to a module or to an item in it.
type Name = Vec<String>;

/// A module of a crate, without its tests.
#[derive(Default)]
struct Module {
    /// The module of the file in which it is written.
    file: Name,
    /// What it defines.
    items: BTreeSet<String>,
    /// The paths of the names that it imports or re-exports.
    imports: BTreeMap<String, Name>,
    /// The paths of the modules of which it imports all names.
    globs: Vec<Name>,
    /// The paths that its code and its imports name.
    named: Vec<Name>,
}

/// All modules of a crate, whose sources lie in a folder. Paths are as they are written.
struct Modules(BTreeMap<Name, Module>);

impl Modules {
    fn read(sources: &Path) -> Self {
        let mut reader = Reader { dir: sources.to_owned(), module: Name::new(), modules: BTreeMap::new() };
        reader.modules.insert(Name::new(), Module::default());
        reader.file(&sources.join("lib.rs"));
        Self(reader.modules)
    }

    /// Returns the names from the root of the crate for the path of an import in a module; `None` if it leads to another crate.
    fn imported(&self, module: &Name, path: &[String]) -> Option<Name> {
        let outwards = path.iter().take_while(|name| *name == "super").count();
        let (base, rest) = match path.first()?.as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (&module[..], &path[1..]),
            "super" => (&module[..module.len().checked_sub(outwards)?], &path[outwards..]),
            first => {
                let is_own = self.0[module].items.contains(first)
                    || self.0.contains_key(&[module, &path[..1]].concat());
                (&module[..], is_own.then_some(path)?)
            }
        };
        Some([base, rest].concat())
    }

    /// As [`imported`](Self::imported), for a path in code, which may begin with an imported name.
    fn absolute(&self, module: &Name, path: &[String]) -> Option<Name> {
        let own = &self.0[module];
        self.imported(module, path).or_else(|| {
            let import = match own.imports.get(path.first()?) {
                Some(import) => self.imported(module, import)?,
                None => self.by_glob(module, &path[0])?,
            };
            Some([&import[..], &path[1..]].concat())
        })
    }

    /// Finds a name in the modules of which a module imports all names.
    fn by_glob(&self, module: &Name, name: &String) -> Option<Name> {
        let globs = self.0[module].globs.iter().filter_map(|glob| self.imported(module, glob));
        globs.filter(|glob| self.0.contains_key(glob)).find_map(|mut glob| {
            let has = |it: &Module| it.items.contains(name) || it.imports.contains_key(name);
            let is_there = self.0.get(&glob).is_some_and(has);
            glob.push(name.clone());
            (is_there || self.0.contains_key(&glob)).then_some(glob)
        })
    }

    /// Follows names to where they are defined, through re-exports; returns the module of that file. Returns `None` if they lead to
    /// another crate.
    fn file_of(&self, absolute: &[String]) -> Option<&Name> {
        self.followed(absolute, &mut BTreeSet::new())
    }

    fn followed(&self, absolute: &[String], seen: &mut BTreeSet<Name>) -> Option<&Name> {
        let inside = (0..=absolute.len()).rfind(|len| self.0.contains_key(&absolute[..*len]))?;
        let (at, rest) = (absolute[..inside].to_vec(), &absolute[inside..]);
        let module = &self.0[&at];
        let Some(first) = rest.first().filter(|first| !module.items.contains(*first)) else {
            return Some(&module.file);
        };
        let onward = match module.imports.get(first) {
            Some(import) => self.imported(&at, import)?,
            None => match self.by_glob(&at, first) {
                Some(found) => found,
                None => return Some(&module.file),
            },
        };
        // Names that a macro defines may be found nowhere but in a circle of imports.
        if !seen.insert(onward.clone()) {
            return Some(&module.file);
        }
        self.followed(&[&onward[..], &rest[1..]].concat(), seen)
    }

    /// Returns for each file the other files that it uses, by the names of their modules.
    fn uses(&self) -> BTreeMap<Name, BTreeSet<Name>> {
        let mut uses: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
        for (name, module) in &self.0 {
            let used = uses.entry(module.file.clone()).or_default();
            let named = module.named.iter().filter_map(|path| self.file_of(&self.absolute(name, path)?));
            used.extend(named.filter(|file| **file != module.file).cloned());
        }
        uses
    }
}

/// Reads the uses of all rooms of a crate, whose sources lie in a folder. Tests may use anything.
fn uses(sources: &Path) -> Uses {
    let mut rooms = Uses::new();
    for (file, used) in Modules::read(sources).uses() {
        let Some(room) = file.first() else { continue };
        let others = used.iter().filter_map(|file| file.first()).filter(|other| *other != room);
        rooms.entry(room.clone()).or_default().extend(others.cloned());
    }
    rooms
}

/// Returns for each folder the uses between what lies in it: files, and folders as a whole. The file of a folder and what lies in
/// the folder may use each other.
fn within_folders(uses: &BTreeMap<Name, BTreeSet<Name>>) -> BTreeMap<Name, Uses> {
    let mut folders: BTreeMap<Name, Uses> = BTreeMap::new();
    for (from, to) in uses.iter().flat_map(|(from, used)| used.iter().map(move |to| (from, to))) {
        let same = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        if let (Some(one), Some(other)) = (from.get(same), to.get(same)) {
            let folder = folders.entry(from[..same].to_vec()).or_default();
            folder.entry(one.clone()).or_default().insert(other.clone());
        }
    }
    folders
}

/// Lists groups in which each uses each other, directly or through others.
fn circles(uses: &Uses) -> BTreeSet<BTreeSet<&str>> {
    fn reached<'u>(uses: &'u Uses, from: &'u str) -> BTreeSet<&'u str> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(used) = next.pop() {
            let more = uses.get(used).into_iter().flatten().map(String::as_str);
            next.extend(more.filter(|name| reached.insert(*name)));
        }
        reached
    }
    let circle = |name| {
        let mut circle: BTreeSet<&str> = reached(uses, name);
        circle.retain(|other| reached(uses, other).contains(name));
        circle
    };
    uses.keys().map(|name| circle(name.as_str())).filter(|circle| !circle.is_empty()).collect()
}

struct Reader {
    /// The folder with the modules of the current module.
    dir: PathBuf,
    /// The current module.
    module: Name,
    modules: BTreeMap<Name, Module>,
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

    fn own(&mut self) -> &mut Module {
        self.modules.get_mut(&self.module).expect("bug: entered")
    }

    /// Reads what a `use` imports. A module that re-exports what its own folder has does not use it.
    fn tree(&mut self, tree: &UseTree, before: &mut Name, is_exported: bool) {
        let (name, alias) = match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(&path.tree, before, is_exported);
                before.pop();
                return;
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|item| self.tree(item, before, is_exported));
            }
            UseTree::Name(UseName { ident }) => (Some(ident), ident),
            UseTree::Rename(UseRename { ident, rename, .. }) => (Some(ident), rename),
            UseTree::Glob(_) => {
                self.own().globs.push(before.clone());
                self.own().named.extend((!is_exported).then(|| before.clone()));
                return;
            }
        };
        let mut path = before.clone();
        path.extend(name.filter(|name| *name != "self").map(ToString::to_string));
        let alias =
            if alias == "self" { path.last().cloned().unwrap_or_default() } else { alias.to_string() };
        let is_outside = matches!(path.first().map(String::as_str), Some("crate" | "super"));
        if !is_exported || is_outside {
            self.own().named.push(path.clone());
        }
        self.own().imports.insert(alias, path);
    }

    /// Reads paths in the tokens of a macro call, which are not parsed yet.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Name::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(name) if colons == 2 => path.push(name.to_string()),
                TokenTree::Punct(colon) if colon.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(name) => self.name(std::mem::replace(&mut path, vec![name.to_string()])),
                other => {
                    self.name(std::mem::take(&mut path));
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
            colons = 0;
        }
        self.name(path);
    }

    /// Notes a path in code. One name by itself is no module, but may be a variable that is called as one.
    fn name(&mut self, path: Name) {
        let is_imported = |own: &Module| own.imports.contains_key(&path[0]) || !own.globs.is_empty();
        if path.len() > 1 || path.len() == 1 && is_imported(self.own()) {
            self.own().named.push(path);
        }
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item(&mut self, item: &'a Item) {
        let (attributes, name) = match item {
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Impl(item) => (&item.attrs, None),
            Item::Use(item) => (&item.attrs, None),
            Item::Mod(item) => (&item.attrs, None),
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            self.own().items.extend(name.map(ToString::to_string));
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        let name = module.ident.to_string();
        let dir = self.dir.join(&name);
        let dir = std::mem::replace(&mut self.dir, dir);
        let outer = self.own().file.clone();
        self.module.push(name.clone());
        let file = if module.content.is_some() { outer } else { self.module.clone() };
        self.modules.insert(self.module.clone(), Module { file, ..Module::default() });
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
        self.tree(&item.tree, &mut Name::new(), !matches!(item.vis, Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.name(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
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
fn what_lies_in_a_folder_uses_each_other_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = Vec::new();
    for package in std::fs::read_dir(root).expect("a folder") {
        let package = package.expect("readable").path();
        for (folder, uses) in within_folders(&Modules::read(&package.join("src")).uses()) {
            let place = package.join("src").join(folder.join("/"));
            found.extend(circles(&uses).iter().map(|circle| format!("{}: {circle:?}", place.display())));
        }
    }
    assert!(found.is_empty(), "{} circles:\n{}", found.len(), found.join("\n"));
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

/// Writes the files of a crate.
fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    dir
}

#[test]
fn whatever_way_a_room_is_used_is_seen() {
    let rooms = ["a", "b", "c", "d", "e", "f", "g", "tests"];
    let modules: String = rooms.iter().map(|room| format!("mod {room};\n")).collect();
    let dir = written(&[
        ("lib.rs", &format!("{modules}pub use a::A;\n#[cfg(test)] mod t;")),
        ("a/mod.rs", "use crate::b::{self, C}; mod inner;"),
        ("a/inner.rs", "pub(in super::super) struct I; use super::super::c::*; use super::super::A;"),
        ("b.rs", "mod inner { fn f(x: super::super::d::D) {} }"),
        ("c.rs", "fn f() { format!(\"{}\", vec![1, crate::e::E.x]); }"),
        ("d.rs", "fn f() { let x = crate::f::g::<super::g::G>(); }"),
        ("e.rs", "#[cfg(test)] mod tests { use crate::a::A; } #[cfg(test)] use crate::b::B;"),
        ("f.rs", "//! [`crate::a`]\nuse other::a::A; fn a() { self::a(); }"),
        ("g.rs", "macro_rules! m { () => { $crate::a::A } }"),
        ("tests.rs", "impl From<crate::g::G> for X {}"),
    ]);
    let found = uses(dir.path());
    let of = |room: &str| found[room].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(rooms.map(of), [&["b", "c"][..], &["d"], &["e"], &["f", "g"], &[], &[], &["a"], &["g"]]);
}

#[test]
fn files_of_a_folder_that_use_each_other_are_found() {
    let dir = written(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        // Through a re-export; the file of the folder and its files may use each other.
        ("a.rs", "mod x; mod y; mod z; pub use x::X; pub struct Own; fn f() { z::f(); }"),
        ("a/x.rs", "pub struct X; fn f() { super::y::g(); }"),
        ("a/y.rs", "use super::X; pub fn g() {}"),
        ("a/z.rs", "use super::{Own, X}; pub fn f() {}"),
        // Over three files: a glob, a macro, an alias.
        ("b/mod.rs", "mod p; mod q; mod r;"),
        ("b/p.rs", "use super::q::*; pub fn f() { g(); }"),
        ("b/q.rs", "pub fn g() { m!(let x: u8 = super::r::h()); }"),
        ("b/r/mod.rs", "mod inner; pub fn h() {}"),
        ("b/r/inner.rs", "use crate::b::p as other; fn f() { other::f(); }"),
        // One way: of its uses one is of a test, and a variable has the name of a module.
        ("c.rs", "mod s; mod t;"),
        ("c/s.rs", "use super::t::T; pub struct S;"),
        ("c/t.rs", "pub struct T; fn f(s: u8) { g(s); } #[cfg(test)] mod tests { use crate::c::s::S; }"),
    ]);
    let folders = within_folders(&Modules::read(dir.path()).uses());
    let of = |folder: &str| folders.get(&vec![folder.to_owned()]).map(circles).unwrap_or_default();
    assert_eq!(of("a"), [["x", "y"].into()].into());
    assert_eq!(of("b"), [["p", "q", "r"].into()].into());
    assert_eq!((of("c"), folders.get(&Name::new()).map(circles)), (BTreeSet::new(), None));
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
