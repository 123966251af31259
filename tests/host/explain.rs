//! Tests `tccc run --explain`, and the tables of `scenarios/REFERENCE.md` generated from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tccc::scenario::Scenario;
use tccc::toml_reader::{Mistake, Mistakes};
use toml::Table;

use crate::common::tccc;
use crate::result_files;

const END: &str = "<!-- end of what is made -->";
/// Most words of a sentence.
const SENTENCE: usize = 25;

/// A small scenario, and an appendix with a place for every field.
const LEAST: &str = include_str!("../fixtures/scenarios/explain-least.toml");
const EVERY_FIELD: &str = include_str!("../fixtures/scenarios/explain-every-field.toml");
/// Metrics in the examples.
const METRICS: &str = "[report]\nmetrics = [\"goodput_bps\", \"qdelay_p95_us\", \"friendliness_ratio\"]\n";
/// Variants, for a scenario without a swept algorithm, and a flow that they may leave out.
const VARIANTS: &str = "[[flow]]\nname = \"bulk\"\nfrom = \"s\"\nto = \"r\"\nalgorithm = \"reno\"\n\
                        [variant.reno]\nflows = [\"data\"]\n[variant.cubic]\nwindow_cap = 9\n";

fn explain(arguments: &[&str]) -> Output {
    tccc().args(["run", "--explain"]).args(arguments).output().unwrap()
}

fn document() -> Value {
    let output = explain(&["-o", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("\"schema\":").count(), 1, "the key occurs once");
    document
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("no list \"{name}\" in {value}"))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn examples(field: &Value) -> impl Iterator<Item = &str> {
    list(field, "examples").iter().map(|example| example.as_str().unwrap())
}

/// The last part of a field's path.
fn key_of(field: &Value) -> &str {
    text(field, "field").rsplit('.').next().unwrap()
}

fn fields(document: &Value) -> impl Iterator<Item = &Value> {
    list(document, "sections").iter().flat_map(|section| list(section, "fields"))
}

/// A field's row in the table of its section.
fn row(field: &Value) -> String {
    let name = key_of(field);
    let value = match (&field["from"], &field["to"]) {
        (Value::String(from), Value::String(to)) => format!("{}, `{from}` to `{to}`", text(field, "kind")),
        _ => text(field, "kind").to_owned(),
    };
    let default = match (&field["needed"], &field["default_is_value"]) {
        (Value::Bool(true), _) => "needed".to_owned(),
        (_, Value::Bool(true)) => format!("`{}`", text(field, "default")),
        _ => text(field, "default").to_owned(),
    };
    let example = examples(field).next().unwrap();
    format!("| `{name}` | {value} | {default} | {} Example: `{example}` |\n", text(field, "text"))
}

fn tables(document: &Value) -> Vec<(String, String)> {
    let of_section = |section: &Value| {
        let name = match text(section, "section") {
            "" => "scenario",
            name => name,
        };
        let rows: String = list(section, "fields").iter().map(row).collect();
        (name.to_owned(), format!("| field | value | default | meaning |\n| --- | --- | --- | --- |\n{rows}"))
    };
    let metric = |metric: &Value| {
        let [name, unit, what] = ["metric", "unit", "text"].map(|key| text(metric, key));
        format!("| `{name}` | {unit} | {what} |\n")
    };
    let metrics: String = list(document, "metrics").iter().map(metric).collect();
    let metrics = format!("| metric | unit | meaning |\n| --- | --- | --- |\n{metrics}");
    let sections = list(document, "sections").iter().map(of_section);
    sections.chain([("metrics".to_owned(), metrics)]).chain(result_files::tables()).collect()
}

#[test]
fn reference_shows_every_field_and_metric() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/REFERENCE.md");
    let text = fs::read_to_string(&path).unwrap();
    let tables = tables(&document());
    let mut made = text.clone();
    for (name, table) in &tables {
        let mark = format!("<!-- made by `cargo xtask bless`: {name} -->\n");
        let begin = made.find(&mark).unwrap_or_else(|| panic!("REFERENCE.md has no {mark}")) + mark.len();
        let end = begin + made[begin..].find(END).unwrap();
        made.replace_range(begin..end, table);
    }
    assert_eq!(made.matches("<!-- made by").count(), tables.len(), "REFERENCE.md has a table that nothing generates");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(&path, &made).unwrap();
    } else {
        assert!(made == text, "REFERENCE.md does not have the program's fields: `cargo xtask bless` updates it");
    }
}

#[test]
fn every_text_is_plain_and_every_field_has_an_example() {
    for field in fields(&document()) {
        let (name, key) = (text(field, "field"), key_of(field));
        let is_open = key.chars().all(|c| c.is_ascii_uppercase());
        assert!(examples(field).next().is_some(), "{name}");
        for example in examples(field) {
            assert!(is_open || example.starts_with(&format!("{key} = ")), "{name}: {example}");
        }
        let what = text(field, "text");
        assert!(what.ends_with(['.', '…']) && what.starts_with(|c: char| c.is_ascii_uppercase()), "{name}: {what}");
        for sentence in what.split_inclusive(". ") {
            let words = sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
            assert!(words <= SENTENCE, "{name}: {words} words: {sentence}");
        }
    }
}

/// Scenarios that examples are put into, and a folder with the files that examples name.
struct ExampleScenarios {
    folder: tempfile::TempDir,
    bases: Vec<Table>,
}

/// A field's dotted name, as in messages, and a base with a value at that field.
type PlacedField = (String, Table);

impl ExampleScenarios {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in
            [("lte.trace", "5\n10\n"), ("losses.txt", "3\n5\n"), ("mine.bpf.c", ""), ("web.txt", "0 5000\n0.5 9000\n")]
        {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let single = LEAST.replace("\"$algorithm\"", "\"reno\"").replace("algorithm = [\"reno\", \"cubic\"], ", "");
        let plain = LEAST.replace("duplicate = \"$loss\"\n", "").replace(", loss = [\"0%\", \"1%\"]", "");
        let others = [METRICS, EVERY_FIELD].map(|more| format!("{LEAST}{more}"));
        let pfifo = "discipline = \"pfifo\"";
        let disciplined = LEAST.replace("reverse = {}\nchange", &format!("{pfifo}\nreverse = {{ {pfifo} }}\nchange"));
        let texts = [LEAST.to_owned(), plain, disciplined, single + VARIANTS].into_iter().chain(others);
        ExampleScenarios {
            folder,
            bases: texts.map(|text| text.parse().unwrap_or_else(|why| panic!("{why}\n{text}"))).collect(),
        }
    }

    fn read(&self, scenario: &Table) -> Result<Scenario, Mistakes> {
        let file: PathBuf = self.folder.path().join("x.toml");
        let mut read = Scenario::parse(file.to_str().unwrap(), &scenario.to_string())?;
        read.text.clear();
        Ok(read)
    }

    /// The bases with a value at a field's path, or with the field removed.
    fn with(&self, path: &str, key: &str, value: Option<&toml::Value>) -> Vec<PlacedField> {
        let holder: Vec<&str> = path.split('.').rev().skip(1).collect::<Vec<_>>().into_iter().rev().collect();
        self.bases.iter().flat_map(|base| placed(base, "", &holder, key, value)).collect()
    }
}

/// Puts the value at every place of the table that matches the path.
fn placed(table: &Table, place: &str, path: &[&str], key: &str, value: Option<&toml::Value>) -> Vec<PlacedField> {
    let dotted = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    let Some((first, rest)) = path.split_first() else {
        let mut changed = table.clone();
        match value {
            Some(value) => drop(changed.insert(key.to_owned(), value.clone())),
            None => drop(changed.remove(key)),
        }
        return vec![(dotted(key), changed)];
    };
    let is_open = first.chars().all(|c| c.is_ascii_uppercase());
    let mut all = Vec::new();
    for (name, child) in table.iter().filter(|(name, _)| is_open || name == first) {
        let items: Vec<&Table> = match child {
            toml::Value::Table(one) => vec![one],
            toml::Value::Array(items) => items.iter().filter_map(toml::Value::as_table).collect(),
            _ => Vec::new(),
        };
        for (index, item) in items.into_iter().enumerate() {
            for (full, changed) in placed(item, &dotted(name), rest, key, value) {
                let mut whole = table.clone();
                match &mut whole[name] {
                    toml::Value::Array(items) => items[index] = changed.into(),
                    other => *other = changed.into(),
                }
                all.push((full, whole));
            }
        }
    }
    all
}

/// Reads `name = value`.
fn assigned(line: &str) -> (String, toml::Value) {
    let table: Table = line.parse().unwrap_or_else(|why| panic!("{line}: {why}"));
    table.into_iter().next().unwrap()
}

/// A base with a mistake would refuse any field.
#[test]
fn every_base_is_a_scenario() {
    let bench = ExampleScenarios::new();
    let mistakes: Vec<String> = bench.bases.iter().filter_map(|it| Some(bench.read(it).err()?.to_string())).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn every_example_is_read() {
    let bench = ExampleScenarios::new();
    for field in fields(&document()) {
        let path = text(field, "field");
        for example in examples(field) {
            let (key, value) = assigned(example);
            let read: Vec<_> = bench.with(path, &key, Some(&value)).iter().map(|(_, it)| bench.read(it)).collect();
            let refused = || read.iter().filter_map(|read| Some(read.as_ref().err()?.to_string())).collect::<Vec<_>>();
            assert!(read.iter().any(Result::is_ok), "{path}: {example}: {:#?}", refused());
        }
    }
}

/// An unread field would accept any value.
#[test]
fn every_field_is_read() {
    let bench = ExampleScenarios::new();
    let date = assigned("date = 1979-05-27").1;
    for field in fields(&document()) {
        let path = text(field, "field");
        let (key, _) = assigned(examples(field).next().unwrap());
        let mut refused = Vec::new();
        for (name, scenario) in bench.with(path, &key, Some(&date)) {
            refused.push((name, bench.read(&scenario).expect_err(path).mistakes));
        }
        let is_named = |(name, mistakes): &(String, Vec<Mistake>)| mistakes.iter().any(|it| it.field == *name);
        assert!(refused.iter().any(is_named), "{path}: {refused:?}");
    }
}

#[test]
fn default_is_what_holds_without_the_field() {
    let bench = ExampleScenarios::new();
    let mut checked = 0;
    for field in fields(&document()).filter(|field| field["default_is_value"] == true) {
        let (path, default, key) = (text(field, "field"), text(field, "default"), key_of(field));
        let line = format!("{key} = {default}");
        let value = line.parse::<Table>().map_or_else(|_| default.into(), |table| table[key].clone());
        let (with, without) = (bench.with(path, key, Some(&value)), bench.with(path, key, None));
        let both = with.iter().zip(&without).map(|((_, with), (_, without))| (bench.read(with), bench.read(without)));
        let both: Vec<_> = both.filter_map(|(with, without)| Some((with.ok()?, without.ok()?))).collect();
        assert!(!both.is_empty(), "{path}: no scenario takes both {default} and nothing");
        assert!(both.iter().all(|(with, without)| with == without), "{path}: {default} is not its default");
        checked += 1;
    }
    assert!(checked > 15, "{checked}");
}

#[test]
fn ends_of_a_range_and_every_word_are_taken() {
    let bench = ExampleScenarios::new();
    for field in fields(&document()) {
        let (path, key) = (text(field, "field"), key_of(field));
        let ends = ["from", "to"].map(|end| text(field, end)).into_iter().filter(|end| !end.is_empty());
        let words = text(field, "kind").split(" or ").filter(|word| word.starts_with('"'));
        for text in ends.chain(words.map(|word| word.trim_matches('"'))) {
            let value = text.parse::<i64>().map_or_else(|_| text.into(), toml::Value::Integer);
            let is_wrong = |name: &str, scenario: &Table| {
                bench.read(scenario).is_err_and(|why| why.mistakes.iter().any(|it| it.field == name))
            };
            let all = bench.with(path, key, Some(&value));
            assert!(all.iter().any(|(name, scenario)| !is_wrong(name, scenario)), "{path} = {text}");
        }
    }
}

#[test]
fn one_name_explains_all_its_fields_with_their_examples() {
    let shown = |name: &str| String::from_utf8(explain(&[name]).stdout).unwrap();
    let loss = shown("loss");
    assert!(loss.starts_with("link.loss\n  Packet loss before the queue"), "{loss}");
    assert!(loss.contains("\n  example  loss = \"1%\"\n") && loss.contains("\nlink.change.loss\n"), "{loss}");
    assert!(shown("bottleneck.loss").starts_with("dumbbell.bottleneck.loss\n"));
    assert!(shown("dumbbell.s2.delay").contains("\n  value    time from 0us to 10s\n"));
    assert!(shown("runs").contains("  value    whole number from 1 to 10000\n"));
    let report = shown("report");
    assert!(report.starts_with("[report]\n") && report.contains("\n  tolerance  "), "{report}");
    assert!(shown("goodput_bps").contains("\n  unit     bit/s\n"));
    let all = String::from_utf8(explain(&[]).stdout).unwrap();
    assert!(["\n[[link]]\n", "\n[variant.NAME]\n", "\nMetrics\n"].iter().all(|part| all.contains(part)), "{all}");
    assert!(all.lines().all(|line| line.chars().count() <= 120), "{all}");
}
