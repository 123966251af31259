//! Compiles the BPF programs for the build scripts: algorithms and their companions to plain objects, the rest to typed
//! skeletons.
//!
//! No list names the programs. A file in `bpf/cc` is an algorithm. A file in `bpf/option` is a companion that an
//! algorithm may ask for. A file in another folder of programs gets a skeleton. Each function writes into the folder of the
//! build script that calls it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use libbpf_cargo::SkeletonBuilder;

#[path = "../src/author/recipe.rs"]
mod recipe;

/// Headers of libbpf that the program carries for users who compile their own algorithms.
const LIBBPF_HEADERS: [&str; 4] = ["bpf_helpers.h", "bpf_helper_defs.h", "bpf_tracing.h", "bpf_core_read.h"];

/// The page that `tccc new` writes beside the template.
const PAGE_FOR_AUTHORS: &str = "PORTING.md";

/// Compiles the algorithms and their companions. Writes `catalog.rs`, `companions.rs`, and `sources.rs`: the sources of modules
/// for the guest of virtual time, path in `bpf` and text.
///
/// # Errors
/// Clang is missing, or refuses a file.
pub fn catalog() -> Result<()> {
    let (bpf, out) = (begin(), out()?);
    let mut catalog = String::from("&[\n");
    for source in programs(&bpf.join("cc"))? {
        let stem = stem(&source);
        let object = out.join(format!("{stem}.bpf.o"));
        let card = out.join(format!("{stem}.card.h"));
        write_card(&source, &card)?;
        let include_card = [named(&card, "/tccc/card.h"), "-include".into(), card.into()];
        builder(&bpf, &source, &object, &include_card)
            .build()
            .with_context(|| format!("compile {}", source.display()))?;
        catalog += &format!("    ({stem:?}, include_bytes!({object:?})),\n");
    }
    fs::write(out.join("catalog.rs"), catalog + "]\n").context("write the catalogue slice")?;
    fs::write(out.join("sources.rs"), slice_of(&bpf, &["cc", "guest", "include", "link"])?)
        .context("write the slice of sources")?;
    fs::write(out.join("companions.rs"), companions(&bpf, &out)?).context("write the slice of companions")
}

/// Compiles the programs of folders of `bpf` and writes a skeleton for each: `NAME.skel.rs`. The structs `shared` can be
/// read from bytes and written as bytes.
///
/// # Errors
/// As [`catalog`]; no program has a struct of `shared`.
pub fn skeletons(folders: &[&str], shared: &[&str]) -> Result<()> {
    let (bpf, out) = (begin(), out()?);
    let mut missing = shared.to_vec();
    for folder in folders {
        for source in programs(&bpf.join(folder))? {
            let skeleton = out.join(format!("{}.skel.rs", stem(&source)));
            generate(&bpf, &source, &skeleton, &[])?;
            let text = fs::read_to_string(&skeleton).context("read a skeleton")?;
            missing.retain(|name| !text.contains(&declaration(name)));
            fs::write(&skeleton, with_bytes(text, shared)).context("write a skeleton")?;
        }
    }
    ensure!(missing.is_empty(), "no program has the structs {missing:?}");
    Ok(())
}

/// Writes the structs and enums of C that `bpf/types/NAME.bpf.c` names as types of Rust: `NAME.types.rs`. The structs
/// can be read from bytes and written as bytes, except for those with pointers.
///
/// # Errors
/// As [`catalog`].
pub fn types(name: &str) -> Result<()> {
    let (bpf, out) = (begin(), out()?);
    let skeleton = out.join(format!("{name}.skel.rs"));
    let own_stdint = OsString::from("-ffreestanding"); // clang's, because the host's is for another processor
    generate(&bpf, &bpf.join(format!("types/{name}.bpf.c")), &skeleton, &[own_stdint])?;
    let text = fs::read_to_string(&skeleton).context("read a skeleton")?;
    let begin = text.find("pub mod types {").context("find the types of a skeleton")?;
    let end = begin + end_of_block(&text[begin..]).context("find the end of the types of a skeleton")?;
    let types = &text[begin..end];
    let structs = types.split("pub struct ").skip(1).filter_map(|rest| rest.split_once(" {"));
    let plain = structs.filter(|(_, rest)| !rest.split('}').next().unwrap_or_default().contains(['*', '(']));
    let plain: Vec<&str> = plain.map(|(name, _)| name).collect();
    let module = with_bytes(types.replacen("pub mod", "mod", 1), &plain);
    fs::write(out.join(format!("{name}.types.rs")), format!("{OF_GENERATED}\n{module}\n")).context("write types")
}

/// Lints judge what people write.
const OF_GENERATED: &str =
    r#"#[allow(clippy::all, clippy::restriction, dead_code, nonstandard_style, unused_imports, reason = "generated")]"#;

/// Offset behind the first block in braces, however it is formatted: without rustfmt it is not.
fn end_of_block(text: &str) -> Option<usize> {
    let mut open = 0;
    text.bytes()
        .position(|byte| {
            open += i32::from(byte == b'{') - i32::from(byte == b'}');
            byte == b'}' && open == 0
        })
        .map(|last| last + 1)
}

fn generate(bpf: &Path, source: &Path, skeleton: &Path, more_args: &[OsString]) -> Result<()> {
    let object = skeleton.with_extension("o");
    let build = builder(bpf, source, &object, more_args).build_and_generate(skeleton);
    build.with_context(|| format!("compile {}", source.display()))
}

/// The beginning of a generated struct.
fn declaration(name: &str) -> String {
    format!("pub struct {name} {{")
}

/// Lets structs be read from bytes and written as bytes. Padding is a field of its own there.
fn with_bytes(text: String, structs: &[&str]) -> String {
    const DERIVE: &str =
        "#[derive(PartialEq, Eq, Hash, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]";
    structs.iter().map(|name| declaration(name)).fold(text, |text, it| text.replace(&it, &format!("{DERIVE}\n{it}")))
}

/// Compiles one direction of a link for the emulator, and links it with the crate. Debug builds trap undefined behaviour, as
/// Rust's debug builds do.
///
/// # Panics
/// There is no C compiler, or it refuses a file.
pub fn link() {
    let bpf = begin();
    let mut build = cc::Build::new();
    build.file(bpf.join("link/emulator.c")).opt_level(2).debug(false).extra_warnings(true);
    build.flag("-fno-strict-aliasing").flag("-Wno-unused-parameter").flag(named(&bpf, "/tccc/bpf"));
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        build.flag("-fsanitize=undefined").flag("-fsanitize-undefined-trap-on-error");
    }
    build.compile("tccc_link");
}

/// Writes `author.rs`: what else authors of algorithms need, path and text. The native build, the template, a page, and headers
/// of libbpf.
///
/// # Errors
/// A file cannot be read or written.
pub fn for_authors() -> Result<()> {
    let bpf = begin();
    let mut slice = slice_of(&bpf, &["host", "template"])?;
    let headers = PathBuf::from(env::var_os("DEP_BPF_INCLUDE").context("find libbpf's headers")?).join("bpf");
    slice.truncate(slice.len() - "]\n".len());
    slice += &format!("    ({PAGE_FOR_AUTHORS:?}, include_str!({:?})),\n", bpf.join(PAGE_FOR_AUTHORS));
    for name in LIBBPF_HEADERS {
        slice += &format!("    ({:?}, include_str!({:?})),\n", format!("libbpf/bpf/{name}"), headers.join(name));
    }
    fs::write(out()?.join("author.rs"), slice + "]\n").context("write the slice of what authors need")
}

/// This folder, which the build script watches.
fn begin() -> PathBuf {
    let bpf = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    println!("cargo:rerun-if-changed={}", bpf.display());
    println!("cargo:rerun-if-env-changed=CLANG");
    bpf
}

fn out() -> Result<PathBuf> {
    Ok(env::var_os("OUT_DIR").context("find the folder of the build script")?.into())
}

/// Compiles the companions of algorithms; returns the slice of their objects.
fn companions(bpf: &Path, out: &Path) -> Result<String> {
    let mut slice = String::from("&[\n");
    for source in programs(&bpf.join("option"))? {
        let stem = stem(&source);
        let object = out.join(format!("{stem}.bpf.o"));
        builder(bpf, &source, &object, &[]).build().with_context(|| format!("compile {}", source.display()))?;
        slice += &format!("    ({stem:?}, include_bytes!({object:?})),\n");
    }
    Ok(slice + "]\n")
}

/// A slice of the files in folders of `bpf`: path there, and text.
fn slice_of(bpf: &Path, folders: &[&str]) -> Result<String> {
    let mut slice = String::from("&[\n");
    for folder in folders {
        let entries = fs::read_dir(bpf.join(folder)).with_context(|| format!("list bpf/{folder}"))?;
        let mut names: Vec<OsString> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
        names.sort();
        let is_source = |name: &&str| [".c", ".h", ".toml", "Makefile"].iter().any(|end| name.ends_with(end));
        for name in names.iter().filter_map(|name| name.to_str()).filter(is_source) {
            let file = bpf.join(folder).join(name);
            slice += &format!("    ({:?}, include_str!({file:?})),\n", format!("{folder}/{name}"));
        }
    }
    Ok(slice + "]\n")
}

/// The programs of a folder, sorted; a folder that does not exist has none.
fn programs(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut found: Vec<PathBuf> = fs::read_dir(folder)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .collect();
    found.sort();
    Ok(found)
}

fn stem(source: &Path) -> String {
    source.file_name().unwrap_or_default().to_string_lossy().trim_end_matches(".bpf.c").to_owned()
}

fn builder(bpf: &Path, source: &Path, object: &Path, more_args: &[OsString]) -> SkeletonBuilder {
    let mut args: Vec<OsString> = recipe::BPF_FLAGS.map(Into::into).into();
    args.push("-Werror".into());
    args.extend(["-I".into(), bpf.join("include").into_os_string()]);
    args.push("-ffile-compilation-dir=/tccc".into());
    args.push(named(bpf, "/tccc/bpf"));
    if let Some(headers) = env::var_os("DEP_BPF_INCLUDE") {
        args.push(named(Path::new(&headers), "/libbpf"));
        args.extend(["-isystem".into(), headers]); // libbpf's own headers, from libbpf-sys
    }
    args.extend_from_slice(more_args);
    let mut builder = SkeletonBuilder::new();
    builder.source(source).obj(object).clang_args(args);
    if let Some(clang) = env::var_os("CLANG") {
        builder.clang(clang);
    }
    builder
}

/// Clang's option that writes `name` instead of a path of this machine, so that objects are the same anywhere.
fn named(path: &Path, name: &str) -> OsString {
    let mut word = OsString::from("-ffile-prefix-map=");
    word.extend([path.as_os_str(), "=".as_ref(), name.as_ref()]);
    word
}

/// Writes the file's header comment as the C string that `ALGORITHM` embeds, so that `tccc show` needs no source file.
fn write_card(source: &Path, card: &Path) -> Result<()> {
    let text = fs::read_to_string(source).with_context(|| format!("read {}", source.display()))?;
    fs::write(card, recipe::card(&text)).context("write the card header")
}
