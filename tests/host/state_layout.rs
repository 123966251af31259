//! The private state of every algorithm: its native build lays the fields out as its BPF object says.
//!
//! Virtual time runs the native build, and reads its state with the type information of the object.

use std::fmt::Write;
use std::path::Path;

use tccc::catalog::{self, StateLayout};

use crate::compile;

/// What the C compiler says: the size of the state, then offset and size of each field in turn.
fn native(source: &Path, layout: &StateLayout) -> Vec<u64> {
    let state = "__typeof__(*tccc_state)";
    let mut program = format!("#include <stddef.h>\n#include \"{}\"\n", source.display());
    writeln!(program, "const uint64_t numbers[] = {{ sizeof({state}),").unwrap();
    for field in &layout.fields {
        let name = &field.name;
        writeln!(program, "offsetof({state}, {name}), sizeof((({state} *)0)->{name}),").unwrap();
    }
    program += "};\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout.c");
    std::fs::write(&path, program).unwrap();
    let (_library_folder, library) = compile::library(&[&compile::in_tree("bpf/host/shim.c"), &path]);
    // SAFETY: the library runs no code when it is loaded.
    let library = unsafe { libloading::Library::new(library) }.unwrap();
    // SAFETY: the array has one number and two a field.
    unsafe {
        let numbers = library.get::<*const u64>("numbers").unwrap();
        std::slice::from_raw_parts(*numbers, 1 + 2 * layout.fields.len()).to_vec()
    }
}

#[test]
fn private_state_has_the_same_bytes_natively_as_in_its_object() {
    for source in compile::sources() {
        let id = compile::stem(&source);
        let layout = &catalog::find(&id).unwrap().layout;
        assert!(layout.fields.iter().all(|field| field.bits.is_none()), "{id}: offsetof cannot tell where bits are");
        let mut expected = vec![layout.size as u64];
        expected.extend(layout.fields.iter().flat_map(|field| [field.offset as u64, field.size as u64]));
        assert_eq!(native(&source, layout), expected, "{id}");
    }
}
