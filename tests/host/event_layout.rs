//! The event in C and in Rust: `bpf/include/trace_event.h` and the table of `src/trace/event.rs` give the same bytes.

use std::fmt::Write;

use tccc::trace::event::schema::Schema;
use tccc::trace::event::{EVENT_BYTES, EVENT_VERSION, PRIVATE_BYTES};

use crate::compile;

/// What the C compiler says: offset and size of each of these fields in turn, then the struct's size, version and
/// private bytes.
fn numbers(fields: &[&str]) -> Vec<usize> {
    let mut source = String::from("#include <stddef.h>\n#include <stdint.h>\n");
    for bits in [8, 16, 32, 64] {
        writeln!(source, "typedef uint{bits}_t __u{bits};").unwrap();
    }
    source += "#include \"trace_event.h\"\nconst uint64_t numbers[] = {\n";
    for field in fields {
        let size = format!("sizeof(((struct tccc_event *)0)->{field})");
        writeln!(source, "offsetof(struct tccc_event, {field}), {size},").unwrap();
    }
    source += "sizeof(struct tccc_event), TCCC_EVENT_VERSION, TCCC_PRIVATE_BYTES};\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout.c");
    std::fs::write(&path, source).unwrap();
    let (_library_folder, library) = compile::library(&[&path]);
    // SAFETY: the library is data only.
    let library = unsafe { libloading::Library::new(library) }.unwrap();
    // SAFETY: the array has two numbers a field, and three more.
    let numbers = unsafe {
        let numbers = library.get::<*const u64>("numbers").unwrap();
        std::slice::from_raw_parts(*numbers, 2 * fields.len() + 3)
    };
    numbers.iter().map(|&number| usize::try_from(number).unwrap()).collect()
}

#[test]
fn event_has_the_same_bytes_in_c_and_rust() {
    let schema = Schema::own();
    let mut places: Vec<_> = schema.fields.iter().map(|it| (it.name.as_str(), it.offset, it.size)).collect();
    let names: Vec<&str> = places.iter().map(|(name, ..)| *name).chain(["pad"]).collect();
    let numbers = numbers(&names);
    let (in_c, sizes) = numbers.split_at(2 * names.len());
    let in_c: Vec<_> = names.into_iter().zip(in_c.chunks_exact(2)).map(|(name, it)| (name, it[0], it[1])).collect();
    places.extend(in_c.last());
    assert_eq!(places, in_c);
    places.sort_unstable_by_key(|&(_, offset, _)| offset);
    let end = places.into_iter().try_fold(0, |end, (_, offset, size)| (offset == end).then_some(end + size));
    assert_eq!(end, Some(EVENT_BYTES), "a field of struct tccc_event is missing from the table");
    assert_eq!(sizes, [EVENT_BYTES, EVENT_VERSION as usize, PRIVATE_BYTES]);
    assert_eq!(PRIVATE_BYTES, tccc::catalog::STATE_BYTES_MAX);
}
