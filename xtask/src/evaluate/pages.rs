//! One page for each evaluated algorithm, and the table of all.

use std::path::Path;

use anyhow::{Context, Result};
use fs_err as fs;

use crate::made::GeneratedTable;
use crate::{process, readme};

const FOLDER: &str = "scenarios/evaluate/reports";
const ENDING: &str = ".md";
const TABLE: GeneratedTable =
    GeneratedTable { document: "scenarios/evaluate/README.md", command: "cargo xtask evaluate --bless" };
/// The words of a criterion, in the order of the table.
const WORDS: [&str; 4] = ["worse", "cannot tell", "no worse", "better"];

/// The algorithms with a page, after those that the others are compared with.
pub fn all() -> Result<Vec<String>> {
    let mut all: Vec<String> = super::BASELINES.map(str::to_owned).to_vec();
    let folder = process::workspace().join(FOLDER);
    if folder.exists() {
        let named = process::names_in(&folder, ENDING).into_iter();
        let named = named.map(|name| name.trim_end_matches(ENDING).to_owned());
        all.extend(named.filter(|id| !super::BASELINES.contains(&id.as_str())));
    }
    Ok(all)
}

/// Writes the page of an algorithm from its evaluation.
pub fn write(id: &str, evaluation: &Path) -> Result<()> {
    let folder = process::workspace().join(FOLDER);
    fs::create_dir_all(&folder)?;
    let table = fs::read_to_string(evaluation.join("overview.md"))?;
    let heading = table.strip_prefix("##").and_then(|rest| rest.split_once('\n'));
    let (heading, rest) = heading.context("read the heading of overview.md")?;
    Ok(fs::write(folder.join(format!("{id}{ENDING}")), format!("#{heading}\n\n{}\n{rest}", title_of(id)?))?)
}

/// Its line in `tccc list`, or a sentence on the kernel's own.
fn title_of(id: &str) -> Result<String> {
    let listed = readme::listed(&process::fast_tccc())?;
    let name = id.split('+').next().unwrap_or(id);
    let line = listed.iter().find(|line| line["id"] == name);
    Ok(match line.and_then(|line| Some((line["title"].as_str()?, line["source"].as_str()?))) {
        Some((title, source)) => format!("{title} ({source})."),
        None => "The kernel's own algorithm.".to_owned(),
    })
}

/// The words of a page by criterion.
pub fn words(id: &str) -> Result<Vec<(String, String)>> {
    let file = process::workspace().join(FOLDER).join(format!("{id}{ENDING}"));
    Ok(words_of(&fs::read_to_string(&file)?))
}

/// The criteria that were measured, and their words.
pub fn words_of(page: &str) -> Vec<(String, String)> {
    let cells = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ").map(|cell| cell.trim().to_owned());
        Some((cells.next()?, cells.next()?))
    });
    cells.filter(|(_, word)| WORDS.contains(&word.as_str())).collect()
}

/// Writes or compares the table of all pages.
pub fn settle(is_written: bool) -> Result<()> {
    let mut table = String::from(
        "| algorithm | worse | cannot tell | no worse | better | worse in |\n| --- | ---: | ---: | ---: | ---: | --- |\n",
    );
    for id in all()? {
        let words = words(&id).with_context(|| format!("read the page of {id}"))?;
        let number = |word: &str| words.iter().filter(|(_, said)| said == word).count().to_string();
        let worse = words.iter().filter(|(_, word)| word == "worse");
        let worse: Vec<&str> = worse.map(|(name, _)| name.as_str()).collect();
        let numbers = WORDS.map(number).join(" | ");
        table += &format!("| [`{id}`](reports/{id}.md) | {numbers} | {} |\n", worse.join("; "));
    }
    TABLE.settle(&table, is_written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_in_the_tree_is_made_of_the_pages() {
        settle(false).unwrap();
    }
}
