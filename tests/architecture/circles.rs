//! Finds circles of imports among the files of a crate.
//!
//! A file depends on the file that declares an item it names, through any number of `use`
//! and `pub use`. Code under `#[cfg(test)]` does not count. Nor does a child that names
//! what its parent's own file declares.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, Macro, UseTree};

pub(super) type ModulePath = Vec<String>;

/// Each group of files that depend on one another, as lines `a uses b`. `sources` holds
/// the module path and the text of each file.
pub(super) fn circles(sources: &[(ModulePath, String)]) -> Vec<Vec<String>> {
    let uses = Crate::read(sources).uses();
    let reached: BTreeMap<_, _> = uses.keys().map(|file| (file, reached(&uses, file))).collect();
    let mut circles: BTreeMap<BTreeSet<&ModulePath>, Vec<String>> = BTreeMap::new();
    for (file, used) in &uses {
        let circle: BTreeSet<_> =
            reached[file].iter().copied().filter(|other| reached[other].contains(file)).collect();
        for used in used.iter().filter(|used| circle.contains(used)) {
            let line = format!("{} uses {}", file.join("::"), used.join("::"));
            circles.entry(circle.clone()).or_default().push(line);
        }
    }
    circles.into_values().collect()
}

type Uses = BTreeMap<ModulePath, BTreeSet<ModulePath>>;

fn reached<'a>(uses: &'a Uses, file: &ModulePath) -> BTreeSet<&'a ModulePath> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<_> = uses[file].iter().collect();
    while let Some(next) = waiting.pop() {
        if reached.insert(next) {
            waiting.extend(&uses[next]);
        }
    }
    reached
}

/// What one module declares and names. A file is a module as well.
#[derive(Default)]
struct Module {
    file: ModulePath,
    declared: HashSet<String>,
    /// Imported names, and the paths they stand for.
    imports: HashMap<String, Vec<String>>,
    glob_imports: Vec<Vec<String>>,
    named: Vec<Vec<String>>,
}

struct Crate {
    modules: HashMap<ModulePath, Module>,
}

enum Found {
    Module,
    /// An item that this file declares.
    Item(ModulePath),
}

/// More imports in a row than any name needs.
const MAX_STEPS: usize = 32;

impl Crate {
    fn read(sources: &[(ModulePath, String)]) -> Self {
        let mut reader = Reader::default();
        for (path, text) in sources {
            let file = syn::parse_file(text).expect("our own source parses");
            reader.read_module(path, path.clone(), &file.items);
        }
        let Reader { mut modules, tests } = reader;
        modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
        Self { modules }
    }

    fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (path, module) in &self.modules {
            let targets = uses.entry(module.file.clone()).or_default();
            for named in &module.named {
                if let Some(Found::Item(file)) = self.find(path, named, MAX_STEPS)
                    && file != module.file
                    && file != parent(&module.file)
                {
                    targets.insert(file);
                }
            }
        }
        uses
    }

    /// What `named` means in the module at `from`; `None` if it is of another crate.
    fn find(&self, from: &[String], named: &[String], steps: usize) -> Option<Found> {
        let (first, rest) = named.split_first()?;
        let steps = steps.checked_sub(1)?;
        match first.as_str() {
            "crate" => self.beneath(&[], rest, steps),
            "self" => self.beneath(from, rest, steps),
            "super" => self.beneath(parent(from), rest, steps),
            _ if self.has(from, first) => self.beneath(from, named, steps),
            _ => {
                let globs = self.modules.get(from)?.glob_imports.iter();
                let mut through = globs.filter_map(|glob| {
                    let named = [glob, named].concat();
                    self.find(from, &named, steps)
                });
                through.next()
            }
        }
    }

    fn has(&self, module: &[String], name: &str) -> bool {
        let known = self.modules.get(module);
        self.modules.contains_key(&child(module, name))
            || known.is_some_and(|known| {
                known.declared.contains(name) || known.imports.contains_key(name)
            })
    }

    fn beneath(&self, module: &[String], named: &[String], steps: usize) -> Option<Found> {
        let Some((name, rest)) = named.split_first() else { return Some(Found::Module) };
        if name == "super" {
            return self.beneath(parent(module), rest, steps);
        }
        let inner = child(module, name);
        if self.modules.contains_key(&inner) {
            return self.beneath(&inner, rest, steps);
        }
        let module_found = self.modules.get(module)?;
        if let Some(import) = module_found.imports.get(name)
            && !module_found.declared.contains(name)
        {
            return self.find(module, &[import, rest].concat(), steps);
        }
        // A macro of the module makes names that are not visible here.
        Some(Found::Item(module_found.file.clone()))
    }
}

fn parent(module: &[String]) -> &[String] {
    module.split_last().map_or(&[], |(_, parent)| parent)
}

fn child(module: &[String], name: &str) -> ModulePath {
    [module, &[name.to_owned()]].concat()
}

#[derive(Default)]
struct Reader {
    modules: HashMap<ModulePath, Module>,
    /// Modules that exist for tests only.
    tests: Vec<ModulePath>,
}

impl Reader {
    fn read_module(&mut self, file: &ModulePath, path: ModulePath, items: &[Item]) {
        let mut names = Names(Module { file: file.clone(), ..Module::default() });
        for item in items {
            if let Item::Mod(inner) = item {
                let path = child(&path, &inner.ident.to_string());
                match &inner.content {
                    _ if is_for_tests(&inner.attrs) => self.tests.push(path),
                    Some((_, items)) => self.read_module(file, path, items),
                    None => {}
                }
            } else {
                names.0.declared.extend(name_of(item));
                names.visit_item(item);
            }
        }
        self.modules.insert(path, names.0);
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|what| what.is_ident("test"))
    })
}

/// Collects every path that a module names.
struct Names(Module);

impl Names {
    fn import(&mut self, tree: &UseTree, prefix: &[String]) {
        match tree {
            UseTree::Path(path) => {
                self.import(&path.tree, &child(prefix, &path.ident.to_string()));
            }
            UseTree::Name(name) if name.ident == "self" => {
                self.import_as(prefix.last().cloned(), prefix.to_vec());
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.import_as(Some(name.clone()), child(prefix, &name));
            }
            UseTree::Rename(name) => {
                let path = child(prefix, &name.ident.to_string());
                self.import_as(Some(name.rename.to_string()), path);
            }
            UseTree::Glob(_) => self.0.glob_imports.push(prefix.to_vec()),
            UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.import(item, prefix));
            }
        }
    }

    fn import_as(&mut self, name: Option<String>, path: Vec<String>) {
        self.0.named.push(path.clone());
        self.0.imports.extend(name.map(|name| (name, path)));
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.import(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.0.named.push(path.segments.iter().map(|part| part.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    /// syn leaves the arguments of a macro as tokens.
    fn visit_macro(&mut self, called: &'ast Macro) {
        let tokens = called.tokens.to_string();
        let words: Vec<&str> = tokens.split_whitespace().collect();
        for path in words.split(|word| !is_part_of_path(word)).filter(|path| path.len() > 2) {
            let names = path.iter().filter(|word| **word != "::");
            self.0.named.push(names.map(|name| (*name).to_owned()).collect());
        }
        visit::visit_macro(self, called);
    }
}

fn is_part_of_path(word: &str) -> bool {
    word == "::" || word.chars().all(|char| char.is_alphanumeric() || char == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sources: &[(&str, &str)], expected: &[&[&str]]) {
        let path = |file: &str| file.split("::").map(str::to_owned).collect::<ModulePath>();
        let sources: Vec<_> =
            sources.iter().map(|(file, text)| (path(file), (*text).to_owned())).collect();
        assert_eq!(circles(&sources), expected, "{sources:?}");
    }

    const CIRCLE: &[&[&str]] = &[&["a::b uses a::c", "a::c uses a::b"]];

    #[test]
    fn files_that_name_each_other_are_a_circle() {
        check(
            &[
                ("a", "mod b; mod c; mod d;"),
                ("a::b", "use super::c::C; pub struct B;"),
                ("a::c", "use crate::a::b::B; pub struct C;"),
                ("a::d", "use super::b::B; use super::c::C;"),
            ],
            CIRCLE,
        );
    }

    #[test]
    fn a_circle_is_found_whatever_way_a_file_is_named() {
        for (use_of_c, use_of_b) in [
            ("fn f() -> super::c::C { todo!() }", "use super::b; fn f() { b::f() }"),
            ("use super::{c::{self}}; fn f() { c::f() }", "use super::*; fn f() { b::f() }"),
            ("use super::C as Other;", "fn f() { println!(\"{}\", super::b::f()) }"),
            ("fn f() { use super::c; c::f() }", "mod inner { use super::super::b::B; }"),
        ] {
            check(
                &[("a", "mod b; mod c; pub use c::C;"), ("a::b", use_of_c), ("a::c", use_of_b)],
                CIRCLE,
            );
        }
    }

    #[test]
    fn a_child_may_name_what_its_parent_declares_but_not_what_is_imported_there() {
        let parent = "mod b; mod c; use b::B; use c::C; pub struct A;";
        check(&[("a", parent), ("a::b", "use super::A;"), ("a::c", "use super::A;")], &[]);
        check(&[("a", parent), ("a::b", "use super::C;"), ("a::c", "use super::B;")], CIRCLE);
        check(
            &[("a", parent), ("a::b", "mod d; use d::D;"), ("a::b::d", "use crate::a::A;")],
            &[&["a uses a::b", "a::b uses a::b::d", "a::b::d uses a"]],
        );
    }

    #[test]
    fn tests_and_other_crates_do_not_count() {
        check(
            &[
                ("a", "mod b; mod c;"),
                ("a::b", "use super::c::C; use c::D;"),
                ("a::c", "#[cfg(test)] mod tests; #[cfg(test)] mod more { use crate::a::b::B; }"),
                ("a::c::tests", "use crate::a::b::B;"),
            ],
            &[],
        );
    }
}
