//! The congestion control of the kernel's own selftests, built elsewhere: each object carries data, or is refused for the
//! kernel's own reason.
//!
//! `cargo xtask selftests` fetches the sources, compiles them, and runs this.

use std::fs;
use std::path::{Path as File, PathBuf};

use crate::common::{HostSnapshot, needs};
use crate::transfer::lab::{Path, carry};
use tccc::catalog;
use tccc::kernel::probe::Features;
use tccc::loader::{self, Request};

/// The name under which each is registered, for as long as it carries data.
const NAME: &str = "kst_subject";
const BYTES: usize = 1 << 20;
/// The least that there has to be of each kind: fewer, and the sources were not found or not understood.
const LEAST: usize = 3;

/// The files of a folder, sorted.
fn objects(folder: &File) -> Vec<PathBuf> {
    let mut objects: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    objects.retain(|path| path.extension().is_some_and(|extension| extension == "o"));
    objects.sort();
    objects
}

/// `FILE:TABLE` for each table of an object, or the file alone where it has one.
fn tables(object: &File) -> Vec<PathBuf> {
    let Err(refusal) = catalog::open(object) else { return vec![object.to_owned()] };
    let Some((_, names)) = refusal.what.split_once("ops tables (") else { return vec![object.to_owned()] };
    let names = names.split_once(')').unwrap().0;
    names.split(", ").map(|name| PathBuf::from(format!("{}:{name}", object.display()))).collect()
}

/// Registers it, sends a megabyte over a wire between two namespaces, and unregisters it.
///
/// Errors: why it is refused.
fn carries_data(file: &File, features: &Features) -> Result<(), String> {
    let algorithm = catalog::open(file).map_err(|failure| failure.what)?;
    let request = Request { name: NAME, ..Request::of(&algorithm) };
    let registered = loader::register(&request, features).map_err(|error| format!("{error:#}"))?;
    let path = Path::build(&[]);
    let connection = path.connect(registered.name());
    carry(&connection, BYTES, |client| assert_eq!(crate::transfer::lab::algorithm_of(client), NAME));
    path.close(connection);
    registered.unregister().unwrap();
    Ok(())
}

/// The reason alone: without the file's path and the name that this test gives.
fn reason(refusal: &str) -> &str {
    let after_name = refusal.split_once(&format!("cannot load \"{NAME}\": ")).map(|(_, why)| why);
    after_name.or_else(|| Some(refusal.split_once("\": ")?.1)).unwrap_or(refusal)
}

#[test]
#[ignore = "needs objects: `cargo xtask selftests` builds them"]
fn selftests_of_the_kernel_carry_data_or_are_refused() {
    needs!(root, struct_ops, tun);
    let folder = std::env::var_os("TCCC_SELFTESTS").expect("TCCC_SELFTESTS names a folder of objects");
    // What the verifier says of a refused object is written to the folder that a command runs in.
    let scratch = tempfile::tempdir().unwrap();
    std::env::set_current_dir(scratch.path()).unwrap();
    let before = HostSnapshot::take(&[NAME]);
    let features = Features::probe().unwrap();
    let mut table = String::from("| object | ops table | what happens |\n| --- | --- | --- |\n");
    let (mut carried, mut refused) = (0, 0);
    for file in objects(File::new(&folder)).iter().flat_map(|object| tables(object)) {
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
    before.assert_unchanged();
    assert!(carried >= LEAST && refused >= LEAST, "{carried} carry data, {refused} are refused");
    if let Some(path) = std::env::var_os("TCCC_SELFTESTS_TABLE") {
        fs::write(path, table).expect("the table is written");
    }
}
