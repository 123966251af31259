//! Reads the files of a declaration, and reports every mistake at once, each with its file, line and field.
//!
//! The files of the folder are read in the order of their names. A field of a later file overrides the same field of an
//! earlier one, so `90-local.toml` overrides `10-site.toml`.
//!
//! `scenarios/policy/declared/README.md` describes the fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::de::DeValue;

use super::{Declaration, Declared, DeclaredPolicy, trusted};
use crate::policy::file::read as read_policy;
use crate::written::{Field, Mistake, Mistakes, Reader, TomlTable, text};
use shared::bounded;
use shared::catalog::{self, Algorithm};
use shared::failure::Failure;

const REFERENCE: &str = "scenarios/policy/declared/README.md";
const FIELDS: [&str; 4] = ["version", "default", "policy", "algorithm"];
const ALGORITHM_FIELDS: [&str; 5] = ["use", "tunables", "cgroup", "receiver", "accept_risk"];
const DEFAULT: &str = "the name of a declared algorithm, such as \"dtcp\"";
const USE: &str = "an algorithm of `tccc list`, or the path of an object file";

/// A text with its place in the file, for mistakes that are found later.
#[derive(Debug, Clone)]
struct PlacedText {
    text: String,
    at: Mistake,
}

#[derive(Debug, Default)]
struct AlgorithmEntry {
    /// The first place of its table.
    at: Option<Mistake>,
    code: Option<PlacedText>,
    tunables: BTreeMap<String, PlacedText>,
    cgroup: Option<PathBuf>,
    receiver: bool,
    accepts_risk: bool,
}

#[derive(Debug, Default)]
struct PartialDeclaration {
    default: Option<PlacedText>,
    policy: Option<PlacedText>,
    algorithms: BTreeMap<String, AlgorithmEntry>,
    mistakes: Vec<Mistake>,
}

impl PlacedText {
    /// A path, resolved against a folder.
    fn below(self, folder: &Path) -> Self {
        PlacedText { text: folder.join(&self.text).display().to_string(), ..self }
    }
}

/// Errors: the folder cannot be read; another user can change a file; every mistake in the files and in their policy.
pub fn read(folder: &Path) -> Result<Declaration, Failure> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let files = files_of(&folder)?;
    trusted::check(&folder)?;
    files.iter().try_for_each(|file| trusted::check(file))?;
    let mut so_far = PartialDeclaration::default();
    for file in &files {
        so_far.file(file);
    }
    so_far.check_named()?;
    let PartialDeclaration { default, policy, algorithms, mut mistakes } = so_far;
    let policy = policy.and_then(|PlacedText { text, .. }| match read_policy(Path::new(&text)) {
        Ok(policy) => Some(DeclaredPolicy { file: text.into(), policy }),
        Err(found) => {
            mistakes.extend(found.mistakes);
            None
        }
    });
    let declared = |(name, entry)| Some((name, declared(entry, &mut mistakes)?));
    let algorithms: BTreeMap<String, Declared> = algorithms.into_iter().filter_map(declared).collect();
    if let Some(PlacedText { text, at }) = default.as_ref().filter(|default| !algorithms.contains_key(&default.text)) {
        let hint = Some(format!("declare it: [algorithm.{text}]"));
        let expected = format!("expected {DEFAULT}; set one of the kernel's own in sysctl.d");
        mistakes.push(Mistake { expected, hint, ..at.clone() });
    }
    match mistakes.first().map(|first| first.file.clone()) {
        Some(first) => Err(Mistakes::sorted(&first, mistakes, REFERENCE).into()),
        None => Ok(Declaration { folder, files, default: default.map(|default| default.text), policy, algorithms }),
    }
}

/// Sorted by name.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| {
        let what = format!("cannot read the folder {}: {}", folder.display(), bounded::reason(&error));
        Failure::usage(what)
            .hint("write a declaration into a file there, such as tccc.toml; `man 7 tccc` has an example")
    })?;
    let files = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    Ok(files)
}

impl PartialDeclaration {
    fn file(&mut self, path: &Path) {
        let file = path.display().to_string();
        let text = match text::read(path) {
            Ok(text) => text,
            Err(why) => return self.mistakes.extend(Mistakes::unreadable(&file, why, REFERENCE).mistakes),
        };
        let mut reader = Reader::new(&file, &text, REFERENCE);
        reader.declaration(path.parent().unwrap_or(Path::new("/")), self);
        if !reader.mistakes.is_empty() {
            self.mistakes.extend(reader.refused().mistakes);
        }
    }

    /// Errors: another user can change a file that the declaration names.
    fn check_named(&self) -> Result<(), Failure> {
        let codes = self.algorithms.values().filter_map(|entry| entry.code.as_ref());
        codes.filter_map(|code| catalog::file_of(&code.text)).try_for_each(trusted::check)?;
        let Some(policy) = &self.policy else { return Ok(()) };
        let file = Path::new(&policy.text);
        trusted::check(file)?;
        let folder = file.parent().unwrap_or(Path::new("/"));
        let lists = trusted::lists_of(&text::read(file).unwrap_or_default());
        lists.iter().try_for_each(|list| trusted::check(&folder.join(list)))
    }
}

/// Finds the code of an algorithm, and checks its tunables.
fn declared(entry: AlgorithmEntry, mistakes: &mut Vec<Mistake>) -> Option<Declared> {
    let AlgorithmEntry { at, code, tunables, cgroup, receiver, accepts_risk } = entry;
    let code = code?;
    let mut refuse = |at: &Mistake, failure: Failure| {
        mistakes.push(Mistake { expected: failure.what, hint: failure.hint, ..at.clone() });
    };
    let (algorithm, file) = find(&code.text).map_err(|failure| refuse(&code.at, failure)).ok()?;
    let mut settings = Vec::new();
    for (name, PlacedText { text, at }) in &tunables {
        match algorithm.setting(name, text) {
            Ok(setting) => settings.push(setting),
            Err(failure) => refuse(at, failure),
        }
    }
    if algorithm.companion.is_none() && (cgroup.is_some() || receiver) {
        let what = format!("\"{}\" has no companion program: expected neither cgroup nor receiver", algorithm.id);
        refuse(&at.unwrap_or(code.at), Failure::usage(what));
    }
    Some(Declared { algorithm, file, settings, cgroup, receiver, accepts_risk })
}

fn find(text: &str) -> Result<(Cow<'static, Algorithm>, Option<PathBuf>), Failure> {
    if text.contains('/') {
        let file = PathBuf::from(text);
        return Ok((Cow::Owned(catalog::open(&file)?), Some(file)));
    }
    Ok((Cow::Borrowed(catalog::find(text)?), None))
}

impl Reader<'_> {
    fn declaration(&mut self, folder: &Path, so_far: &mut PartialDeclaration) {
        let Some(document) = self.syntax() else { return };
        let document = TomlTable::whole(&document);
        if !self.is_known_version(&document, &FIELDS) {
            return;
        }
        self.refuse_unknown(&document, &FIELDS);
        if let Some(field) = document.field("default") {
            so_far.default = self.placed(&field, DEFAULT).or(so_far.default.take());
        }
        if let Some(field) = document.field("policy") {
            let policy = self.placed(&field, "the path of a policy file").map(|policy| policy.below(folder));
            so_far.policy = policy.or(so_far.policy.take());
        }
        let Some(field) = document.field("algorithm") else { return };
        let Some(table) = field.table() else {
            self.refuse(&field, "expected a table for each algorithm, such as [algorithm.dtcp]");
            return;
        };
        for (name, field) in table.fields() {
            let Some(table) = field.table() else {
                self.refuse(&field, "expected a table of fields");
                continue;
            };
            if let Err(why) = catalog::check_name(name) {
                self.refuse_at(table.span.start, &table.name, why);
                continue;
            }
            self.algorithm(name, &table, folder, so_far.algorithms.entry(name.to_owned()).or_default());
        }
    }

    fn algorithm(&mut self, name: &str, table: &TomlTable<'_>, folder: &Path, entry: &mut AlgorithmEntry) {
        self.refuse_unknown(table, &ALGORITHM_FIELDS);
        let place = self.place(table.span.start, &table.name);
        entry.at.get_or_insert_with(|| place.clone());
        let code = table
            .field("use")
            .and_then(|field| self.placed(&field, USE))
            .map(|code| if catalog::is_object_file(&code.text) { code.below(folder) } else { code });
        entry.code = code.or(entry.code.take()).or(Some(PlacedText { text: name.to_owned(), at: place }));
        if let Some(field) = table.field("tunables") {
            self.tunables(&field, &mut entry.tunables);
        }
        if let Some(field) = table.field("cgroup") {
            entry.cgroup = self.text(&field, "a path below the cgroup mount").map(PathBuf::from);
        }
        if let Some(receiver) = table.field("receiver").and_then(|field| self.flag(&field)) {
            entry.receiver = receiver;
        }
        if let Some(accepts) = table.field("accept_risk").and_then(|field| self.flag(&field)) {
            entry.accepts_risk = accepts;
        }
    }

    fn tunables(&mut self, field: &Field<'_>, tunables: &mut BTreeMap<String, PlacedText>) {
        let Some(table) = field.table() else {
            self.refuse(field, "expected a table such as { keep_avoidance = 896 }");
            return;
        };
        for (name, field) in table.fields() {
            let text = match field.value.get_ref() {
                DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
                DeValue::Boolean(is_on) => is_on.to_string(),
                _ => {
                    self.refuse(&field, "expected a whole number, or true or false");
                    continue;
                }
            };
            let at = self.place(field.value.span().start, &field.name);
            tunables.insert(name.to_owned(), PlacedText { text, at });
        }
    }

    /// Reads a text in quotes.
    fn placed(&mut self, field: &Field<'_>, expected: &str) -> Option<PlacedText> {
        let text = self.text(field, expected)?.to_owned();
        Some(PlacedText { text, at: self.place(field.value.span().start, &field.name) })
    }

    /// The place of a field in the file, for a mistake that is found later.
    fn place(&self, offset: usize, field: &str) -> Mistake {
        let (line, field) = (Some(self.line_of(offset)), field.to_owned());
        Mistake { file: self.file.to_owned(), line, field, given: None, expected: String::new(), hint: None }
    }
}
