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
use crate::fields;
use crate::policy::file::read as read_policy;
use crate::toml_reader::{
    Apart, Document, Found, Kind, Mistake, Mistakes, Read, Result as Reads, Table, Value, Version, text,
};
use shared::catalog::{self, Algorithm};
use shared::failure::Failure;
use shared::kernel::io_error;
use shared::kernel::probe::has_accurate_ecn;

const REFERENCE: &str = "scenarios/policy/declared/README.md";
const DEFAULT: &str = "the name of a declared algorithm, such as \"dtcp\"";
const USE: &str = "an algorithm of `tccc list`, or the path of an object file";

fields! {
    section FILE {
        /// Version of the format.
        /// Example: version = 1
        version: Apart = Kind::Is("1"), apart;
        /// The default algorithm of the host: one of those that are declared.
        /// Example: default = "dtcp"
        default: PlacedText = Kind::Form(DEFAULT), unless "the host keeps its default";
        /// A policy file, relative to the folder of this file.
        /// Example: policy = "web.toml"
        policy: PlacedText = Kind::Form("the path of a policy file"), unless "no policy";
        /// Algorithms to load, by the name that they get.
        /// Example: [algorithm.dtcp]
        algorithm: Apart = Kind::Table(&ALGORITHMS), empty "none";
    }
}

fields! {
    section ALGORITHMS {
        /// An algorithm with this name.
        /// Example: [algorithm.dtcp]
        NAME: AlgorithmFields = Kind::Table(&ALGORITHM), empty "none";
    }
}

fields! {
    #[derive(Debug, Default)]
    struct AlgorithmFields: ALGORITHM {
        /// An algorithm of `tccc list`, or the path of an object file, relative to the folder of this file.
        /// Example: use = "mine.bpf.o"
        r#use: PlacedText = Kind::Form(USE), unless "the algorithm with the name of the table";
        /// Tunables that differ from their defaults.
        /// Example: tunables = { keep_avoidance = 896 }
        tunables: BTreeMap<String, Tunable> = Kind::Is("names with numbers"), empty "the algorithm's defaults";
        /// The cgroup to which a companion program is attached.
        /// Example: cgroup = "/sys/fs/cgroup/system.slice"
        cgroup: String = Kind::Form("a path below the cgroup mount"), unless "the root";
        /// Whether to load only the companion program of the receiving side.
        /// Example: receiver = true
        receiver: bool = Kind::Is("true or false"), unless "false";
        /// Whether connections that did not ask for the algorithm may get it although its risk is high.
        /// Example: accept_risk = true
        accept_risk: bool = Kind::Is("true or false"), unless "false";
    }
}

/// A text with its place in the file, for mistakes that are found later.
#[derive(Debug, Clone)]
struct PlacedText {
    text: String,
    at: Box<Mistake>,
}

/// A whole number or a truth value, as text.
#[derive(Debug)]
struct Tunable(PlacedText);

#[derive(Debug)]
struct AlgorithmEntry {
    /// The first place of its table.
    at: Box<Mistake>,
    fields: AlgorithmFields,
}

#[derive(Debug, Default)]
struct PartialDeclaration {
    default: Option<PlacedText>,
    policy: Option<PlacedText>,
    algorithms: BTreeMap<String, AlgorithmEntry>,
    mistakes: Vec<Mistake>,
    /// Whether a table was left out because of its mistakes.
    is_incomplete: bool,
}

impl PlacedText {
    /// A path, resolved against a folder.
    fn below(self, folder: &Path) -> Self {
        PlacedText { text: folder.join(&self.text).display().to_string(), ..self }
    }
}

impl Read for PlacedText {
    fn read(value: &Value<'_>) -> Reads<Self> {
        Ok(PlacedText { text: value.quoted()?.into_owned(), at: value.mistake("") })
    }
}

impl Read for Tunable {
    fn read(value: &Value<'_>) -> Reads<Self> {
        let text = match value.written.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Boolean(is_on) => is_on.to_string(),
            _ => return Err(value.refuse("expected a whole number, or true or false").into()),
        };
        Ok(Tunable(PlacedText { text, at: value.mistake("") }))
    }
}

/// # Errors
/// The folder cannot be read; another user can change a file; every mistake in the files and in their policy.
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
    let PartialDeclaration { default, policy, algorithms, mut mistakes, is_incomplete } = so_far;
    let policy = policy.and_then(|PlacedText { text, .. }| match read_policy(Path::new(&text)) {
        Ok(policy) => Some(DeclaredPolicy { file: text.into(), policy }),
        Err(found) => {
            mistakes.extend(found.mistakes);
            None
        }
    });
    let declared = |(name, entry): (String, _)| Some((name.clone(), declared(&name, entry, &mut mistakes)?));
    let algorithms: BTreeMap<String, Declared> = algorithms.into_iter().filter_map(declared).collect();
    let is_declared = |default: &&PlacedText| is_incomplete || algorithms.contains_key(&default.text);
    if let Some(PlacedText { text, at }) = default.as_ref().filter(|default| !is_declared(default)) {
        let hint = Some(format!("declare it: [algorithm.{text}]"));
        let expected = format!("expected {DEFAULT}; set one of the kernel's own in sysctl.d");
        mistakes.push(Mistake { expected, hint, ..(**at).clone() });
    }
    match mistakes.first().map(|first| first.file.clone()) {
        Some(first) => Err(Mistakes::sorted(&first, mistakes, REFERENCE).into()),
        None => Ok(Declaration { folder, files, default: default.map(|default| default.text), policy, algorithms }),
    }
}

/// Sorted by name.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| {
        let what = format!("cannot read the folder {}: {}", folder.display(), io_error::reason(&error));
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
        let mut found = Found::default();
        if let Some(document) = found.keep(Document::parse(&file, &text)) {
            let folder = path.parent().unwrap_or(Path::new("/"));
            let read = self.document(&document.source().document(&FILE), folder, &mut found);
            self.is_incomplete |= found.keep(read).is_none();
        }
        self.mistakes.extend(Mistakes::sorted(&file, found.into_vec(), REFERENCE).mistakes);
    }

    fn document(&mut self, document: &Table<'_>, folder: &Path, found: &mut Found) -> Reads<()> {
        if !Version::is_known(document, found) {
            return Ok(());
        }
        let mut refused = Found::default();
        refused.add(Found::unknown_in(document));
        let default: Option<Option<PlacedText>> = refused.keep(document.read("default"));
        self.default = default.flatten().or(self.default.take());
        let policy: Option<Option<PlacedText>> = refused.keep(document.read("policy"));
        self.policy = policy.flatten().map(|policy| policy.below(folder)).or(self.policy.take());
        let algorithms = refused.keep(document.table("algorithm")).unwrap_or_else(|| Table::empty(document.source));
        for (name, value) in algorithms.entries() {
            let read = catalog::check_name(name).map_err(|why| Found::from(value.mistake(why)));
            let read = read.and_then(|()| Ok((value.table()?.refuse(""), AlgorithmFields::read(&value)?)));
            if let Some((at, fields)) = refused.keep(read) {
                let entry = || AlgorithmEntry { at, fields: AlgorithmFields::default() };
                self.algorithms.entry(name.to_owned()).or_insert_with(entry).fields.add(fields, folder);
            }
        }
        refused.end()
    }

    /// # Errors
    /// Another user can change a file that the declaration names.
    fn check_named(&self) -> Result<(), Failure> {
        let codes = self.algorithms.values().filter_map(|entry| entry.fields.r#use.as_ref());
        codes.filter_map(|code| catalog::file_of(&code.text)).try_for_each(trusted::check)?;
        let Some(policy) = &self.policy else { return Ok(()) };
        let file = Path::new(&policy.text);
        trusted::check(file)?;
        let folder = file.parent().unwrap_or(Path::new("/"));
        let lists = trusted::lists_of(&text::read(file).unwrap_or_default());
        lists.iter().try_for_each(|list| trusted::check(&folder.join(list)))
    }
}

impl AlgorithmFields {
    /// The fields of a later file override these.
    fn add(&mut self, later: AlgorithmFields, folder: &Path) {
        let is_file = |code: &PlacedText| catalog::is_object_file(&code.text);
        let code = later.r#use.map(|code| if is_file(&code) { code.below(folder) } else { code });
        self.r#use = code.or(self.r#use.take());
        self.tunables.extend(later.tunables);
        self.cgroup = later.cgroup.or(self.cgroup.take());
        self.receiver = later.receiver.or(self.receiver);
        self.accept_risk = later.accept_risk.or(self.accept_risk);
    }
}

/// Finds the code of an algorithm, and checks its tunables.
fn declared(
    name: &str,
    AlgorithmEntry { at, fields }: AlgorithmEntry,
    mistakes: &mut Vec<Mistake>,
) -> Option<Declared> {
    let mut refuse = |at: &Mistake, failure: Failure| {
        mistakes.push(Mistake { expected: failure.what, hint: failure.hint, ..at.clone() });
    };
    let code = fields.r#use.unwrap_or_else(|| PlacedText { text: name.to_owned(), at: at.clone() });
    let (algorithm, file) = find(&code.text).map_err(|failure| refuse(&code.at, failure)).ok()?;
    if let Err(unmet) = algorithm.check_kernel(has_accurate_ecn) {
        refuse(&code.at, Failure { what: format!("\"{}\" cannot be loaded: {}", algorithm.id, unmet.what), ..unmet });
    }
    let mut settings = Vec::new();
    for (name, Tunable(PlacedText { text, at })) in &fields.tunables {
        match algorithm.setting(name, text) {
            Ok(setting) => settings.push(setting),
            Err(failure) => refuse(at, failure),
        }
    }
    let (cgroup, receiver) = (fields.cgroup.map(PathBuf::from), fields.receiver.unwrap_or(false));
    if algorithm.companion_of_both_ends().is_none() && (cgroup.is_some() || receiver) {
        let what = format!("\"{}\" has no companion program: expected neither cgroup nor receiver", algorithm.id);
        refuse(&at, Failure::usage(what));
    }
    let accepts_risk = fields.accept_risk.unwrap_or(false);
    Some(Declared { algorithm, file, settings, cgroup, receiver, accepts_risk })
}

fn find(text: &str) -> Result<(Cow<'static, Algorithm>, Option<PathBuf>), Failure> {
    if text.contains('/') {
        let file = PathBuf::from(text);
        return Ok((Cow::Owned(catalog::open(&file)?), Some(file)));
    }
    Ok((Cow::Borrowed(catalog::find(text)?), None))
}
