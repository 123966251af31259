//! Reads the files of a declaration: every mistake at once, each with its file, line and field.
//!
//! The files of the folder are read in the order of their names. A field of a later file takes the place of the same field of
//! an earlier one, so that `90-local.toml` overrides `10-site.toml`. `scenarios/policy/declared/README.md` describes the fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::de::DeValue;

use super::{Declaration, Declared, DeclaredPolicy, trusted};
use crate::bounded;
use crate::catalog::{self, Algorithm};
use crate::failure::Failure;
use crate::policy::file::read as read_policy;
use crate::written::{Field, Mistake, Mistakes, Reader, TomlTable, text};

const REFERENCE: &str = "scenarios/policy/declared/README.md";
const FIELDS: [&str; 4] = ["version", "default", "policy", "algorithm"];
const ALGORITHM_FIELDS: [&str; 5] = ["use", "tunables", "cgroup", "receiver", "accept_risk"];
const DEFAULT: &str = "the name of a declared algorithm, such as \"dtcp\"";
const USE: &str = "an algorithm of `tccc list`, or the path of an object file";

/// A text of a file, with the place to name when it turns out to be wrong.
#[derive(Debug, Clone)]
struct Given {
    text: String,
    at: Mistake,
}

#[derive(Debug, Default)]
struct Entry {
    /// Where it is named first.
    at: Option<Mistake>,
    code: Option<Given>,
    tunables: BTreeMap<String, Given>,
    cgroup: Option<PathBuf>,
    receiver: bool,
    accepts_risk: bool,
}

#[derive(Debug, Default)]
struct SoFar {
    default: Option<Given>,
    policy: Option<Given>,
    algorithms: BTreeMap<String, Entry>,
    mistakes: Vec<Mistake>,
}

/// Reads the files of a folder.
///
/// Errors: the folder cannot be read; somebody else than root can change a file; every mistake in the files, and in the
/// policy that they name.
pub fn read(folder: &Path) -> Result<Declaration, Failure> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let files = files_of(&folder)?;
    trusted::check(&folder)?;
    files.iter().try_for_each(|file| trusted::check(file))?;
    let mut so_far = SoFar::default();
    for file in &files {
        so_far.file(file);
    }
    so_far.check_named()?;
    let policy = so_far.policy.take().and_then(|given| so_far.read_policy(&given));
    let algorithms = std::mem::take(&mut so_far.algorithms);
    let algorithms: BTreeMap<String, Declared> =
        algorithms.into_iter().filter_map(|(name, entry)| Some((name, so_far.declared(entry)?))).collect();
    let default = so_far.default.take();
    if let Some(given) = default.as_ref().filter(|given| !algorithms.contains_key(&given.text)) {
        let hint = Some(format!("declare it: [algorithm.{}]", given.text));
        let expected = format!("expected {DEFAULT}; the kernel's own are set by sysctl.d");
        so_far.mistakes.push(Mistake { expected, hint, ..given.at.clone() });
    }
    if !so_far.mistakes.is_empty() {
        let first = so_far.mistakes[0].file.clone();
        return Err(Mistakes::sorted(&first, so_far.mistakes, REFERENCE).into());
    }
    Ok(Declaration { folder, files, default: default.map(|given| given.text), policy, algorithms })
}

/// The files of the folder, sorted by name.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| {
        let what = format!("cannot read the folder {}: {}", folder.display(), bounded::reason(&error));
        Failure::usage(what).hint("write what you want into a file there, such as tccc.toml; `man 7 tccc` shows how")
    })?;
    let files = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    Ok(files)
}

impl SoFar {
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

    /// Refuses files that the folder's files name and that somebody else can change.
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

    fn read_policy(&mut self, given: &Given) -> Option<DeclaredPolicy> {
        let file = PathBuf::from(&given.text);
        match read_policy(&file) {
            Ok(policy) => Some(DeclaredPolicy { file, policy }),
            Err(mistakes) => {
                self.mistakes.extend(mistakes.mistakes);
                None
            }
        }
    }

    /// Finds the code, and checks the tunables against it.
    fn declared(&mut self, entry: Entry) -> Option<Declared> {
        let code = entry.code?;
        let mut refuse = |at: &Mistake, failure: Failure| {
            self.mistakes.push(Mistake { expected: failure.what, hint: failure.hint, ..at.clone() });
        };
        let (algorithm, file) = match find(&code.text) {
            Ok(found) => found,
            Err(failure) => {
                refuse(&code.at, failure);
                return None;
            }
        };
        let mut settings = Vec::new();
        for (name, given) in &entry.tunables {
            match algorithm.settings(&[format!("{name}={}", given.text)]) {
                Ok(setting) => settings.extend(setting),
                Err(failure) => refuse(&given.at, failure),
            }
        }
        let at = entry.at.unwrap_or(code.at);
        if algorithm.companion.is_none() && (entry.cgroup.is_some() || entry.receiver) {
            let what = format!("\"{}\" has no companion program: expected neither cgroup nor receiver", algorithm.id);
            refuse(&at, Failure::usage(what));
        }
        let Entry { cgroup, receiver, accepts_risk, .. } = entry;
        Some(Declared { algorithm, file, settings, cgroup, receiver, accepts_risk })
    }
}

/// An algorithm of the catalogue, or an object file.
fn find(text: &str) -> Result<(Cow<'static, Algorithm>, Option<PathBuf>), Failure> {
    if text.contains('/') {
        let file = PathBuf::from(text);
        return Ok((Cow::Owned(catalog::open(&file)?), Some(file)));
    }
    Ok((Cow::Borrowed(catalog::find(text)?), None))
}

impl Reader<'_> {
    fn declaration(&mut self, folder: &Path, so_far: &mut SoFar) {
        let Some(document) = self.syntax() else { return };
        let document = TomlTable::whole(&document);
        if !self.is_known_version(&document, &FIELDS) {
            return;
        }
        self.refuse_unknown(&document, &FIELDS);
        if let Some(field) = document.field("default") {
            so_far.default = self.given(&field, DEFAULT).or(so_far.default.take());
        }
        if let Some(field) = document.field("policy") {
            let given = self.given(&field, "the path of a policy file");
            let whole = given.map(|given| Given { text: folder.join(&given.text).display().to_string(), ..given });
            so_far.policy = whole.or(so_far.policy.take());
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

    fn algorithm(&mut self, name: &str, table: &TomlTable<'_>, folder: &Path, entry: &mut Entry) {
        self.refuse_unknown(table, &ALGORITHM_FIELDS);
        let place = self.place(table.span.start, &table.name);
        entry.at.get_or_insert_with(|| place.clone());
        let code = table.field("use").and_then(|field| self.given(&field, USE)).map(|given| {
            match catalog::is_object_file(&given.text) {
                true => Given { text: folder.join(&given.text).display().to_string(), ..given },
                false => given,
            }
        });
        entry.code = code.or(entry.code.take()).or(Some(Given { text: name.to_owned(), at: place }));
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

    fn tunables(&mut self, field: &Field<'_>, tunables: &mut BTreeMap<String, Given>) {
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
            tunables.insert(name.to_owned(), Given { text, at });
        }
    }

    /// A text in quotes, with its place.
    fn given(&mut self, field: &Field<'_>, expected: &str) -> Option<Given> {
        let text = self.text(field, expected)?.to_owned();
        Some(Given { text, at: self.place(field.value.span().start, &field.name) })
    }

    /// A place to name in a mistake that is found later.
    fn place(&self, offset: usize, field: &str) -> Mistake {
        let (line, field) = (Some(self.line_of(offset)), field.to_owned());
        Mistake { file: self.file.to_owned(), line, field, given: None, expected: String::new(), hint: None }
    }
}
