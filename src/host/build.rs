//! Compiles the programs of the tracer and the policy, and embeds the web page if `cargo xtask web` has bundled it.
//!
//! The program also builds without the page, and says so.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result};

/// Where `cargo xtask web` puts the page, and the page's files: path, content type, file.
const PAGE_FOLDER: &str = "serve/web/bundle";
const PAGE_FILES: [(&str, &str, &str); 4] = [
    ("/", "text/html; charset=utf-8", "index.html"),
    ("/page.js", "text/javascript; charset=utf-8", "page.js"),
    ("/page.css", "text/css; charset=utf-8", "page.css"),
    ("/icon.svg", "image/svg+xml", "icon.svg"),
];

/// The structs of programs that this crate reads or writes as bytes, with those in them.
const SHARED_STRUCTS: [&str; 17] = [
    "address_key",
    "algorithm_key",
    "awaited_key",
    "bpf_timer",
    "cgroup_place",
    "guard_cell",
    "guard_key",
    "policy_counts",
    "policy_mark",
    "policy_sight",
    "remote_range",
    "ticking",
    "totals",
    "totals_histogram",
    "totals_key",
    "totals_rtt",
    "policy_name",
];

fn main() -> Result<()> {
    // Watches the folder above the bundle, because a missing folder would count as changed each time.
    println!("cargo:rerun-if-changed=serve/web");
    let [top, out] = ["CARGO_MANIFEST_DIR", "OUT_DIR"].map(|name| env::var_os(name).map(PathBuf::from));
    let (top, out) = top.zip(out).context("find the folders of the build script")?;
    fs::write(out.join("page.rs"), page(&top.join(PAGE_FOLDER))).context("write the page")?;
    programs::skeletons(&["trace", "policy"], &SHARED_STRUCTS)
}

/// The slice of the page's files; empty unless all of them exist.
fn page(folder: &Path) -> String {
    let mut slice = String::from("static FILES: &[PageFile] = &[\n");
    if PAGE_FILES.iter().all(|(_, _, name)| folder.join(name).is_file()) {
        for (path, content_type, name) in PAGE_FILES {
            let file = folder.join(name);
            slice += &format!(
                "    PageFile {{ path: {path:?}, content_type: {content_type:?}, content: include_bytes!({file:?}) }},\n"
            );
        }
    }
    slice + "];\n"
}
