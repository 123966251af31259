//! Compiles the program that sets conditions of flows, and the link itself, writes the types of its C, and lists the
//! questions and figures of evaluations.

use std::path::Path;
use std::{env, fs};

fn main() -> anyhow::Result<()> {
    programs::link();
    programs::types("link")?;
    programs::skeletons(&["path"], &["flow_end", "conditions", "receiver"])?;
    list("scenarios/evaluate", ".toml", "questions.rs")?;
    list("scenarios/evaluate/figures", ".json", "figures.rs")
}

/// Writes the names and texts of the files in a folder, sorted by name.
fn list(folder: &str, ending: &str, to: &str) -> anyhow::Result<()> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..").join(folder);
    println!("cargo:rerun-if-changed={}", folder.display());
    let names = fs::read_dir(&folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<anyhow::Result<Vec<String>>>()?;
    names.retain(|name| name.ends_with(ending));
    names.sort();
    let one = |name: &String| {
        let path = folder.join(name).canonicalize()?;
        Ok(format!("({:?}, include_str!({path:?})),\n", name.trim_end_matches(ending)))
    };
    let list = names.iter().map(one).collect::<anyhow::Result<String>>()?;
    Ok(fs::write(Path::new(&env::var("OUT_DIR")?).join(to), format!("[{list}]"))?)
}
