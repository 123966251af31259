//! What the private state of an algorithm holds, field by field, so that any of it can be printed by name.

use derive_more::Display;
use serde::{Deserialize, Serialize};

use crate::btf::{Btf, Encoding, Member, Type, TypeKind};

/// The kernel's private area in a socket (`icsk_ca_priv`), bytes.
pub const STATE_BYTES_MAX: usize = 104;
/// Structs inside structs deeper than this are not taken apart.
const DEPTH_LIMIT: usize = 8;
/// More fields than this do not fit the kernel's private area, whatever a damaged file says.
const FIELD_LIMIT: usize = 256;
/// Members looked at, those without a field of their own too: structs in structs multiply.
const MEMBER_LIMIT: usize = 4096;
/// Most bytes of names of fields and of their values.
const TEXT_LIMIT: usize = 1 << 20;

/// The kernel's structs that are not called by their algorithm's name: tcp_cubic.c began as a copy of tcp_bic.c.
const KERNEL_STRUCTS: [(&str, &str); 2] = [("cubic", "bictcp"), ("bic", "bictcp")];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// First byte of the state while in this phase.
    pub value: u8,
    /// The paper's word, lower case.
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// Whole number from 0; addresses too.
    Unsigned,
    /// Whole number in two's complement.
    Signed,
    Bool,
    /// A number with names for some of its values.
    Enum {
        names: Vec<(i64, String)>,
    },
    /// Several numbers of equal size.
    Array {
        element_size: usize,
        element: Box<FieldKind>,
    },
    /// Anything else: shown as bytes.
    Bytes,
}

/// One field; a field of a struct inside the state is named `outer.inner`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Its name in C.
    pub name: String,
    /// Bytes from the beginning of the state.
    pub offset: usize,
    /// Bytes it takes, or that hold its bits.
    pub size: usize,
    /// First bit and number of bits, when it does not fill its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<(u32, u32)>,
    pub kind: FieldKind,
}

/// The private state of an algorithm: 104 bytes of every socket that uses it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateLayout {
    pub size: usize,
    /// The algorithm's own phases; empty when it declares none.
    pub phases: Vec<Phase>,
    /// Shape: in the order of the C struct.
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq, Display, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StateValue {
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Text(String),
    #[display("[{}]", _0.iter().map(StateValue::to_string).collect::<Vec<_>>().join(", "))]
    List(Vec<StateValue>),
}

impl StateLayout {
    /// The name of the phase that the state is in.
    ///
    /// None: the algorithm declares no phases, or none with this byte.
    pub fn phase_name(&self, state: &[u8]) -> Option<&str> {
        let value = state.first()?;
        self.phases.iter().find(|phase| phase.value == *value).map(|phase| phase.name.as_str())
    }

    /// Every field of a state with its value.
    ///
    /// Shape: in the order of the C struct; a field that lies beyond the given bytes is left out.
    pub fn decode(&self, state: &[u8]) -> Vec<(&str, StateValue)> {
        self.values(state).collect()
    }

    /// The same one after the other.
    pub fn values<'a>(&'a self, state: &[u8]) -> impl Iterator<Item = (&'a str, StateValue)> {
        self.fields.iter().filter_map(|field| Some((field.name.as_str(), field.value(state)?)))
    }

    /// What one of the kernel's own algorithms keeps in a socket, by the kernel's type information.
    ///
    /// `kernel` is the information of the kernel itself, `module` that of the algorithm's module when it is one.
    ///
    /// None: the algorithm keeps nothing there, or its struct cannot be told from another of the same name.
    pub fn of_kernel(algorithm: &str, kernel: &[u8], module: Option<&[u8]>) -> Option<Self> {
        let btf = Btf::parse(kernel)?;
        let btf = match module {
            Some(module) => btf.continued(module)?,
            None => btf,
        };
        let listed = KERNEL_STRUCTS.iter().find(|(id, _)| *id == algorithm);
        let wanted = listed.map_or(algorithm, |(_, name)| name);
        let fits = |state: &Type| (1..=STATE_BYTES_MAX as u32).contains(&state.size_or_type);
        let mut structs =
            btf.iter().map(|(_, t)| t).filter(|t| t.kind == TypeKind::Struct && t.name() == wanted).filter(fits);
        let (Some(state), None) = (structs.next(), structs.next()) else { return None };
        let (size, fields) = fields_of(&btf, state)?;
        Some(StateLayout { size, phases: Vec::new(), fields })
    }

    /// Reads the struct behind `tccc_state` and the enum behind `tccc_phases`; an object without them has none.
    pub(super) fn read(btf: &Btf) -> Option<Self> {
        let mut layout = StateLayout::default();
        if let Some((_, phases)) = btf.variable("tccc_phases") {
            layout.phases = phases.enumerators()?.into_iter().filter_map(phase).collect();
        }
        let Some((_, pointer)) = btf.variable("tccc_state") else { return Some(layout) };
        let state = Some(pointer).filter(|p| p.kind == TypeKind::Ptr).and_then(|p| btf.resolve(p.size_or_type))?;
        if state.kind != TypeKind::Struct {
            return None;
        }
        (layout.size, layout.fields) = fields_of(btf, state)?;
        let names = layout.phases.iter().map(|phase| (i64::from(phase.value), phase.name.clone())).collect::<Vec<_>>();
        if let Some(field) = layout.fields.first_mut().filter(|f| f.name == "phase" && f.size == 1 && !names.is_empty())
        {
            field.kind = FieldKind::Enum { names };
        }
        Some(layout)
    }
}

/// Size in bytes and fields of a struct.
fn fields_of<'a>(btf: &Btf<'a>, state: Type<'a>) -> Option<(usize, Vec<Field>)> {
    let mut found = Found::default();
    add_members(btf, state, Nested { prefix: "", offset: 0, depth: 0 }, &mut found)?;
    Some((state.size_or_type as usize, found.fields))
}

/// `PHASE_SLOW_START` is the phase slow_start.
fn phase((name, value): (&str, i64)) -> Option<Phase> {
    let name = name.strip_prefix("PHASE_").unwrap_or(name).to_lowercase();
    Some(Phase { value: u8::try_from(value).ok()?, name })
}

#[derive(Clone, Copy)]
struct Nested<'p> {
    prefix: &'p str,
    offset: usize,
    depth: usize,
}

#[derive(Default)]
struct Found {
    fields: Vec<Field>,
    members: usize,
    /// Bytes of names.
    text: usize,
}

impl Found {
    /// None: there are more names than any state has.
    fn add(&mut self, field: Field) -> Option<()> {
        self.text += field.name.len() + field.kind.text_bytes();
        self.fields.push(field);
        (self.text <= TEXT_LIMIT).then_some(())
    }
}

fn add_members<'a>(btf: &Btf<'a>, of: Type<'a>, at: Nested, found: &mut Found) -> Option<()> {
    for member in of.members()? {
        let inner = btf.resolve(member.type_id)?;
        let offset = at.offset.checked_add(member.offset())?;
        let name = match (at.prefix, member.name) {
            (prefix, "") => prefix.to_owned(),
            ("", name) => name.to_owned(),
            (prefix, name) => format!("{prefix}.{name}"),
        };
        add_type(btf, inner, Nested { prefix: &name, offset, depth: at.depth }, found)?;
        if member.bits != 0 {
            set_bits(found.fields.last_mut()?, &member);
        }
    }
    Some(())
}

fn add_type<'a>(btf: &Btf<'a>, inner: Type<'a>, at: Nested, found: &mut Found) -> Option<()> {
    found.members += 1;
    if found.members > MEMBER_LIMIT || found.fields.len() >= FIELD_LIMIT || at.depth > DEPTH_LIMIT {
        return None;
    }
    let deeper = Nested { depth: at.depth + 1, ..at };
    match inner.kind {
        TypeKind::Struct | TypeKind::Union => add_members(btf, inner, deeper, found),
        TypeKind::Array => add_array(btf, inner, deeper, found),
        _ => {
            let (size, kind) = scalar(inner)?;
            found.add(Field { name: at.prefix.to_owned(), offset: at.offset, size, bits: None, kind })
        }
    }
}

/// An array of numbers is one field; an array of anything else is taken apart as `name[0]`, `name[1]` …
fn add_array<'a>(btf: &Btf<'a>, array: Type<'a>, at: Nested, found: &mut Found) -> Option<()> {
    let (element, count) = array.elements()?;
    let element = btf.resolve(element)?;
    let count = usize::try_from(count).ok().filter(|&count| count <= FIELD_LIMIT)?;
    if let Some((element_size, kind)) = scalar(element) {
        let kind = FieldKind::Array { element_size, element: Box::new(kind) };
        let size = element_size * count;
        return found.add(Field { name: at.prefix.to_owned(), offset: at.offset, size, bits: None, kind });
    }
    let size = Some(element).filter(|e| matches!(e.kind, TypeKind::Struct | TypeKind::Union))?.size_or_type as usize;
    for index in 0..count {
        let prefix = format!("{}[{index}]", at.prefix);
        let offset = at.offset.checked_add(size.checked_mul(index)?)?;
        add_type(btf, element, Nested { prefix: &prefix, offset, depth: at.depth }, found)?;
    }
    Some(())
}

/// Size and reading of a type that is one value; none for structs, unions and arrays.
fn scalar(of: Type) -> Option<(usize, FieldKind)> {
    let size = of.size_or_type as usize;
    let kind = match of.kind {
        TypeKind::Ptr => return Some((8, FieldKind::Unsigned)),
        TypeKind::Int => match of.encoding() {
            Encoding::Unsigned => FieldKind::Unsigned,
            Encoding::Signed => FieldKind::Signed,
            Encoding::Bool => FieldKind::Bool,
        },
        TypeKind::Enum | TypeKind::Enum64 => {
            FieldKind::Enum { names: of.enumerators()?.into_iter().map(|(n, v)| (v, n.to_owned())).collect() }
        }
        TypeKind::Other => FieldKind::Bytes,
        _ => return None,
    };
    Some((size, if size <= 8 { kind } else { FieldKind::Bytes }))
}

/// Bit fields: the bytes that hold the bits, and the bits among them.
fn set_bits(field: &mut Field, member: &Member) {
    let first = member.bit_offset % 8;
    field.size = (first + member.bits).div_ceil(8) as usize;
    field.bits = Some((first, member.bits));
}

impl Field {
    /// Its value in a state.
    ///
    /// None: it lies beyond the given bytes.
    pub fn value(&self, state: &[u8]) -> Option<StateValue> {
        let bytes = state.get(self.offset..self.offset.checked_add(self.size)?)?;
        if let FieldKind::Array { element_size, element } = &self.kind {
            let parts = bytes.chunks_exact((*element_size).max(1));
            return Some(StateValue::List(parts.map(|part| element.value(part, None)).collect()));
        }
        Some(self.kind.value(bytes, self.bits))
    }
}

impl FieldKind {
    fn text_bytes(&self) -> usize {
        match self {
            FieldKind::Enum { names } => names.iter().map(|(_, name)| name.len() + size_of::<(i64, String)>()).sum(),
            FieldKind::Array { element, .. } => element.text_bytes(),
            _ => 0,
        }
    }

    fn value(&self, bytes: &[u8], bits: Option<(u32, u32)>) -> StateValue {
        if bytes.len() > 8 || matches!(self, FieldKind::Bytes | FieldKind::Array { .. }) {
            return StateValue::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        let raw = bytes.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
        let (first, count) = bits.unwrap_or((0, 8 * bytes.len() as u32));
        let unused = 64u32.saturating_sub(count).min(63);
        let unsigned = (raw >> first.min(63)) << unused >> unused;
        let signed = (unsigned << unused) as i64 >> unused;
        match self {
            FieldKind::Bool => StateValue::Bool(unsigned != 0),
            FieldKind::Signed => StateValue::Signed(signed),
            FieldKind::Enum { names } => {
                let named = |(value, _): &&(i64, String)| *value == unsigned as i64 || *value == signed;
                names
                    .iter()
                    .find(named)
                    .map_or(StateValue::Unsigned(unsigned), |(_, name)| StateValue::Text(name.clone()))
            }
            _ => StateValue::Unsigned(unsigned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, offset: usize, size: usize, kind: FieldKind) -> Field {
        Field { name: name.into(), offset, size, bits: None, kind }
    }

    #[test]
    fn values_are_read_by_kind() {
        let names = vec![(1, "slow_start".to_owned())];
        let pair = FieldKind::Array { element_size: 2, element: Box::new(FieldKind::Unsigned) };
        let mut fields = vec![
            field("phase", 0, 1, FieldKind::Enum { names }),
            field("flag", 1, 1, FieldKind::Bool),
            field("gap", 2, 2, FieldKind::Signed),
            field("pair", 4, 4, pair),
            field("low", 8, 1, FieldKind::Unsigned),
            field("high", 8, 1, FieldKind::Signed),
            field("beyond", 100, 8, FieldKind::Unsigned),
        ];
        fields[4].bits = Some((0, 3));
        fields[5].bits = Some((3, 5));
        let layout = StateLayout { size: 9, phases: vec![Phase { value: 1, name: "slow_start".into() }], fields };
        let state = [1, 1, 0xfe, 0xff, 1, 0, 2, 0, 0b1111_1101];
        let shown: Vec<String> = layout.decode(&state).iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["phase=slow_start", "flag=true", "gap=-2", "pair=[1, 2]", "low=5", "high=-1"]);
        assert_eq!(layout.phase_name(&state), Some("slow_start"));
        assert_eq!(layout.phase_name(&[9]), None);
        assert_eq!(layout.phase_name(&[]), None);
    }

    #[test]
    fn layout_survives_serialisation() {
        let layout = StateLayout { size: 8, phases: Vec::new(), fields: vec![field("bw", 0, 8, FieldKind::Unsigned)] };
        let text = serde_json::to_string(&layout).unwrap();
        assert_eq!(serde_json::from_str::<StateLayout>(&text).unwrap(), layout);
    }
}
