//! The fields of `run.json` and `events.jsonl`: their tables in `scenarios/REFERENCE.md`, from the types' doc comments.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use schemars::schema_for;
use serde_json::Value;
use tccc::lab::event_line::EventLine;
use tccc::loader::survey::layout_in_kernel;
use tccc::model::run::RunRecord;
use tccc::virtual_time::kernel_states;

use crate::common::needs;
use crate::lab::virtual_time::{Bench, scenario};

/// Most words of a sentence.
const SENTENCE: usize = 25;

/// A field of a file.
struct FileField {
    /// `links[].counters[].sent_pkts`.
    path: String,
    kind: String,
    meaning: String,
}

/// Collects the fields of an object, and of the objects in it, in the order of the file.
struct Fields<'a> {
    root: &'a Value,
    found: Vec<FileField>,
}

impl<'a> Fields<'a> {
    fn of(root: &'a Value) -> Vec<FileField> {
        let mut fields = Fields { root, found: Vec::new() };
        fields.add(root, "");
        fields.found
    }

    fn add(&mut self, object: &'a Value, prefix: &str) {
        let needed = object["required"].as_array().map_or(&[][..], Vec::as_slice);
        for (name, field) in object["properties"].as_object().into_iter().flatten() {
            let path = format!("{prefix}{name}");
            let (kind, inner) = self.kind(field);
            let kind =
                if needed.contains(&Value::from(name.as_str())) { kind } else { format!("{kind}, may be absent") };
            let meaning = plain(field["description"].as_str().unwrap_or_default());
            self.found.push(FileField { path: path.clone(), kind, meaning });
            if let Some(inner) = inner {
                let below = if field["type"] == "array" { format!("{path}[].") } else { format!("{path}.") };
                self.add(inner, &below);
            }
        }
    }

    /// The type of a field in words, and the object that it holds.
    fn kind(&self, field: &'a Value) -> (String, Option<&'a Value>) {
        if let Some(name) = field["$ref"].as_str() {
            return self.kind(self.root.pointer(name.trim_start_matches('#')).unwrap());
        }
        if let Some(options) = field["anyOf"].as_array().or(field["oneOf"].as_array()) {
            let kinds: Vec<_> = options.iter().map(|option| self.kind(option)).collect();
            let inner = kinds.iter().find_map(|(_, inner)| *inner);
            let words: Vec<&str> = kinds.iter().map(|(words, _)| words.as_str()).collect();
            return (words.join(" or "), inner);
        }
        if let Some(word) = field["const"].as_str() {
            return (format!("`{word}`"), None);
        }
        if let Some(words) = field["enum"].as_array() {
            let words: Vec<String> = words.iter().map(|word| format!("`{}`", word.as_str().unwrap())).collect();
            return (words.join(" or "), None);
        }
        let names: Vec<&str> = match &field["type"] {
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            name => name.as_str().into_iter().collect(),
        };
        let (mut inner, mut words) = (None, Vec::new());
        for name in names {
            words.push(match name {
                "integer" => "whole number".to_owned(),
                "string" => "text".to_owned(),
                "boolean" => "true or false".to_owned(),
                "array" => {
                    let (kind, object) = self.kind(&field["items"]);
                    inner = object;
                    if object.is_some() { "list of objects".to_owned() } else { format!("list of {kind}s") }
                }
                "object" => {
                    inner = field.get("properties").map(|_| field);
                    "object".to_owned()
                }
                other => other.to_owned(),
            });
        }
        (words.join(" or "), inner)
    }
}

/// A doc comment for readers of files.
fn plain(comment: &str) -> String {
    let words = comment.replace('\n', " ").replace("`None` ", "Absent or null ").replace("`None`:", "Absent or null:");
    words.replace("[`RunRecord::why`]", "`why`").replace("[`Machine::id`]", "Id of the machine").replace(['[', ']'], "")
}

fn files() -> [(&'static str, Vec<FileField>); 2] {
    let (run, event) = (schema_for!(RunRecord), schema_for!(EventLine));
    [("run.json", Fields::of(run.as_value())), ("events.jsonl", Fields::of(event.as_value()))]
}

/// Name and content of each table of the reference.
pub fn tables() -> impl Iterator<Item = (String, String)> {
    files().into_iter().map(|(name, fields)| {
        let row = |field: &FileField| format!("| `{}` | {} | {} |\n", field.path, field.kind, field.meaning);
        let rows: String = fields.iter().map(row).collect();
        (name.to_owned(), format!("| field | value | meaning |\n| --- | --- | --- |\n{rows}"))
    })
}

#[test]
fn every_field_of_a_file_is_described_in_short_sentences() {
    for (file, fields) in files() {
        for FileField { path, meaning, .. } in fields {
            assert!(
                meaning.ends_with('.') && !meaning.contains("None") && !meaning.contains("::"),
                "{file} {path}: {meaning}"
            );
            for sentence in meaning.split_inclusive(". ") {
                let words = sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
                assert!(words <= SENTENCE, "{file} {path}: {words} words: {sentence}");
            }
        }
    }
}

/// The paths of all members of a JSON value. Members below `open` have names of their own.
fn paths(value: &Value, prefix: &str, open: &[&str], into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            into.insert(path.clone());
            if !open.contains(&path.as_str()) {
                paths(member, &path, open, into);
            }
        }),
        Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{prefix}[]"), open, into)),
        _ => {}
    }
}

/// Whether all members of the files of a run are described. Old files have fewer.
fn assert_described(folder: &Path) {
    let [run, event] = files().map(|(_, fields)| fields.into_iter().map(|field| field.path).collect::<BTreeSet<_>>());
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let mut found = [BTreeSet::new(), BTreeSet::new()];
    paths(&serde_json::from_str(&read("run.json")).unwrap(), "", &["at"], &mut found[0]);
    for line in read("events.jsonl").lines() {
        paths(&serde_json::from_str(line).unwrap(), "", &["state"], &mut found[1]);
    }
    for (found, described) in found.iter().zip([run, event]) {
        assert!(!found.is_empty());
        let unknown: Vec<&String> = found.difference(&described).collect();
        assert!(unknown.is_empty(), "no description of {unknown:?}");
    }
}

#[test]
fn files_of_a_run_have_no_field_without_a_description() {
    needs!(guest);
    let algorithms = [("dctcp", "dctcp_alpha", false), ("bbr", "pacing_gain", false), ("dtcp", "losses_ca", true)];
    for (algorithm, field, has_phase) in algorithms {
        let bench = Bench::new(&scenario(algorithm, "0.5%"));
        let runs = bench.runs("out", "").join("runs");
        let folder = fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
        assert_described(&folder);
        let events = fs::read_to_string(folder.join("events.jsonl")).unwrap();
        let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
        assert!(last["state"][field].is_u64(), "{algorithm} has no {field}: {last}");
        assert_eq!(last["phase"].is_string(), has_phase, "{algorithm}: {last}");
    }
}

/// The guest has no type information, so its layouts are a table.
#[test]
fn layouts_of_the_guest_are_those_of_a_kernel_with_types() {
    needs!(btf);
    let mut compared = 0;
    for (algorithm, _) in kernel_states::STATES {
        let Some(expected) = layout_in_kernel(algorithm) else { continue };
        assert_eq!(kernel_states::layout(algorithm).unwrap(), expected, "{algorithm}");
        compared += 1;
    }
    assert!(compared > 0, "this kernel has no algorithm of the table");
}
