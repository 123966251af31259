//! Compares the layout of the event in `bpf/include/trace_event.h` with the table in `src/shared/event.rs`.

use std::fmt::Write;

use tccc::trace::event::schema::Schema;
use tccc::trace::event::{EVENT_BYTES, EVENT_VERSION, PRIVATE_BYTES};

use crate::compile;

#[test]
fn event_has_the_same_bytes_in_c_and_rust() {
    let schema = Schema::own();
    let mut fields: Vec<_> = schema.fields.iter().map(|it| (it.offset, it.size, it.name.as_str())).collect();
    fields.sort_unstable();
    let ends = std::iter::once(0).chain(fields.iter().map(|&(offset, size, _)| offset + size));
    let begins = fields.iter().map(|&(offset, ..)| offset).chain([EVENT_BYTES]);
    let gaps: Vec<_> = ends.zip(begins).filter(|(end, begin)| end != begin).collect();
    let [(end, begin)] = gaps[..] else { panic!("one gap, which C calls pad: {gaps:?}") };
    fields.push((end, begin - end, "pad"));

    let mut program = String::from("#include <stddef.h>\n#include <stdint.h>\n");
    for bits in [8, 16, 32, 64] {
        writeln!(program, "typedef uint{bits}_t __u{bits};").unwrap();
    }
    program += "#include \"trace_event.h\"\n";
    for (offset, size, name) in fields {
        let field = format!("((struct tccc_event *)0)->{name}");
        let holds = format!("offsetof(struct tccc_event, {name}) == {offset} && sizeof({field}) == {size}");
        writeln!(program, "_Static_assert({holds}, \"{name}\");").unwrap();
    }
    for (name, number) in [
        ("sizeof(struct tccc_event)", EVENT_BYTES),
        ("TCCC_EVENT_VERSION", EVENT_VERSION as usize),
        ("TCCC_PRIVATE_BYTES", PRIVATE_BYTES),
    ] {
        writeln!(program, "_Static_assert({name} == {number}, \"{name}\");").unwrap();
    }
    compile::check(&program);
    assert_eq!(PRIVATE_BYTES, tccc::catalog::STATE_BYTES_MAX);
}
