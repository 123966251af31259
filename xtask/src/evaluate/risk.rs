//! What the evaluations say of the risk of each algorithm, in one file that the build embeds.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use fs_err as fs;
use serde_json::Value;

use crate::{process, readme};

const FILE: &str = "scenarios/evaluate/risk.json";

/// Takes over the findings of an evaluation, if they are of an algorithm that tccc carries, with its defaults.
pub fn keep(id: &str, evaluation: &Path) -> Result<()> {
    let found = evaluation.join("risk.json");
    let is_carried =
        readme::listed(&process::fast_tccc())?.iter().any(|line| line["id"] == id && line["from"] == "tccc");
    if !is_carried || !found.exists() {
        return Ok(());
    }
    let file = process::workspace().join(FILE);
    let read = |file: &Path| -> Result<Value> {
        serde_json::from_slice(&fs::read(file)?).with_context(|| format!("read {}", file.display()))
    };
    let mut all: BTreeMap<String, Value> = serde_json::from_value(read(&file)?)?;
    all.insert(id.to_owned(), read(&found)?);
    Ok(fs::write(file, written(&all))?)
}

/// The words of the risk in the README, from a program with these findings.
pub fn write_words() -> Result<()> {
    readme::write(&readme::listed(&process::fast_tccc())?)
}

/// One criterion a line, to keep diffs small.
fn written(all: &BTreeMap<String, Value>) -> String {
    let entries = all.iter().map(|(id, entry)| {
        let criteria = entry["criteria"].as_array().into_iter().flatten();
        let criteria = criteria.map(|one| format!("      {one}")).collect::<Vec<String>>().join(",\n");
        let [schema, code, kernel] = ["schema", "code", "kernel"].map(|field| &entry[field]);
        format!(
            "  \"{id}\": {{\n    \"schema\": {schema},\n    \"code\": {code},\n    \"kernel\": {kernel},\n    \
             \"criteria\": [\n{criteria}\n    ]\n  }}"
        )
    });
    format!("{{\n{}\n}}\n", entries.collect::<Vec<String>>().join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_in_the_tree_is_as_it_is_written() {
        let text = fs::read_to_string(process::workspace().join(FILE)).unwrap();
        let all: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(written(&all), text);
    }
}
