//! Compares the layout of each algorithm's private state in its native build and its BPF object.
//!
//! Virtual time runs the native build, and reads the state with the object's type information.

use std::fmt::Write;

use super::catalog;
use crate::compile;

#[test]
fn private_state_has_the_same_bytes_natively_as_in_its_object() {
    const STATE: &str = "__typeof__(*tccc_state)";
    for source in compile::sources() {
        let id = compile::stem(&source);
        let layout = &catalog::find(&id).unwrap().layout;
        let mut program = format!("#include <stddef.h>\n#include \"{}\"\n", source.display());
        writeln!(program, "_Static_assert(sizeof({STATE}) == {}, \"size\");", layout.size).unwrap();
        // `offsetof` cannot tell where bits are. Their place follows from the fields around them and the size.
        for field in layout.fields.iter().filter(|field| field.bits.is_none()) {
            let (name, offset, size) = (&field.name, field.offset, field.size);
            let holds = format!("offsetof({STATE}, {name}) == {offset} && sizeof((({STATE} *)0)->{name}) == {size}");
            writeln!(program, "_Static_assert({holds}, \"{name}\");").unwrap();
        }
        compile::check(&program);
    }
}
