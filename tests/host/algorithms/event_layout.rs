//! Compares the fields of the event in `bpf/include/trace_event.h` with the table in `src/shared/event.rs`.

use std::mem::offset_of;

use tccc::trace::event::schema::Schema;
use tccc::trace::event::{EVENT_BYTES, PRIVATE_BYTES, RawEvent};

#[test]
fn every_byte_of_the_event_is_in_a_field_except_for_the_padding() {
    let fields = Schema::own().fields;
    let ends = std::iter::once(0).chain(fields.iter().map(|field| field.offset + field.size));
    let begins = fields.iter().map(|field| field.offset).chain([EVENT_BYTES]);
    let gaps: Vec<_> = ends.zip(begins).filter(|(end, begin)| end != begin).collect();
    let pad = offset_of!(RawEvent, pad);
    assert_eq!(gaps, [(pad, pad + RawEvent::default().pad.len())]);
    assert_eq!(PRIVATE_BYTES, tccc::catalog::STATE_BYTES_MAX);
}
