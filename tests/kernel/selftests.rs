//! The congestion control of the kernel's own selftests. Each object carries data, or the kernel refuses it.
//!
//! `cargo xtask selftests` fetches the sources, compiles them, and runs this.

use std::path::PathBuf;

use tccc::loader::Request;

use super::*;
use crate::transfer::lab::{WirePath, carry};

const NAME: &str = "kst_subject";
const BYTES: usize = 1 << 20;
/// Objects of each kind, at least. With fewer, the sources were not found or not understood.
const LEAST: usize = 3;

fn objects(folder: &Path) -> Vec<PathBuf> {
    let mut objects: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    objects.retain(|path| path.extension().is_some_and(|extension| extension == "o"));
    objects.sort();
    objects
}

/// `FILE:TABLE` for each ops table of an object, or the file alone if there is one table.
fn tables(object: &Path) -> Vec<PathBuf> {
    let Err(refusal) = catalog::open(object) else { return vec![object.to_owned()] };
    let Some((_, names)) = refusal.what.split_once("ops tables (") else { return vec![object.to_owned()] };
    let names = names.split_once(')').unwrap().0;
    names.split(", ").map(|name| PathBuf::from(format!("{}:{name}", object.display()))).collect()
}

/// Registers an object, sends a megabyte with it, and unregisters it.
///
/// Errors: why the object is refused.
fn carries_data(file: &Path, features: &Features) -> Result<(), String> {
    let algorithm = catalog::open(file).map_err(|failure| failure.what)?;
    let request = Request { name: NAME, ..Request::of(&algorithm) };
    let registered = loader::register(&request, features).map_err(|error| format!("{error:#}"))?;
    let path = WirePath::build(&[]);
    let connection = path.connect(registered.name());
    carry(&connection, BYTES, |client| assert_eq!(algorithm_of(client), NAME));
    path.close(connection);
    registered.unregister().unwrap();
    Ok(())
}

/// The reason of a refusal, without the path and the name.
fn reason(refusal: &str) -> &str {
    let after_name = refusal.split_once(&format!("cannot load \"{NAME}\": ")).map(|(_, why)| why);
    after_name.or_else(|| Some(refusal.split_once("\": ")?.1)).unwrap_or(refusal)
}

#[test]
#[ignore = "needs objects: `cargo xtask selftests` builds them"]
fn selftests_of_the_kernel_carry_data_or_are_refused() {
    needs!(root, struct_ops, tun);
    let folder = std::env::var_os("TCCC_SELFTESTS").expect("TCCC_SELFTESTS names a folder of objects");
    // The verifier's log of a refused object is written to the current folder.
    let scratch = tempfile::tempdir().unwrap();
    std::env::set_current_dir(scratch.path()).unwrap();
    let _host = HostSnapshot::take(&[NAME]);
    let features = Features::probe().unwrap();
    let mut table = String::from("| object | ops table | what happens |\n| --- | --- | --- |\n");
    let (mut carried, mut refused) = (0, 0);
    for file in objects(Path::new(&folder)).iter().flat_map(|object| tables(object)) {
        let name = file.file_name().unwrap().to_string_lossy();
        let (object, ops) = name.split_once(':').unwrap_or((&name, "the only one"));
        let what = match carries_data(&file, &features) {
            Ok(()) => "carries data".to_owned(),
            Err(refusal) => format!("refused: {}", reason(&refusal)),
        };
        if what == "carries data" {
            carried += 1
        } else {
            refused += 1
        }
        println!("{object:32} {ops:14} {what}");
        table.push_str(&format!("| `{object}` | {ops} | {what} |\n"));
    }
    assert!(carried >= LEAST && refused >= LEAST, "{carried} carry data, {refused} are refused");
    if let Some(path) = std::env::var_os("TCCC_SELFTESTS_TABLE") {
        fs::write(path, table).expect("the table is written");
    }
}
