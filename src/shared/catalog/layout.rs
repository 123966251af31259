//! The layout of an algorithm's private state, with which its fields can be printed by name.

use derive_more::Display;
use serde::{Deserialize, Serialize};

use crate::btf::{Btf, Encoding, Type, TypeKind};

/// The kernel's private area in a socket (`icsk_ca_priv`), bytes.
pub const STATE_BYTES_MAX: usize = 104;
// Limits for damaged and hostile files: depth of nested structs, fields, members including nested structs, and bytes of
// names.
const DEPTH_LIMIT: usize = 8;
const FIELD_LIMIT: usize = 256;
const MEMBER_LIMIT: usize = 4096;
const TEXT_LIMIT: usize = 1 << 20;

/// Kernel structs whose names differ from their algorithms'. tcp_cubic.c started as a copy of tcp_bic.c.
///
/// The member tells apart structs of one name.
const KERNEL_STRUCTS: [(&str, &str, &str); 4] = [
    ("cubic", "bictcp", "bic_K"),
    ("bic", "bictcp", "delayed_ack"),
    ("highspeed", "hstcp", "ai"),
    ("nv", "tcpnv", "nv_min_rtt"),
];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The first byte of the state in this phase.
    pub value: u8,
    /// The paper's term, lower case.
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// Also used for pointers.
    Unsigned,
    Signed,
    Bool,
    /// A number with names for some of its values.
    Enum {
        names: Vec<(i64, String)>,
    },
    Array {
        element_size: usize,
        element: Box<FieldKind>,
    },
    /// Any other type.
    Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateField {
    /// The name in C; `outer.inner` for a field of a nested struct.
    pub name: String,
    /// Bytes from the beginning of the state.
    pub offset: usize,
    pub size: usize,
    /// First bit and number of bits of a bit field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<(u32, u32)>,
    pub kind: FieldKind,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateLayout {
    pub size: usize,
    /// Empty if the algorithm declares none.
    pub phases: Vec<Phase>,
    /// Shape: in the order of the C struct.
    pub fields: Vec<StateField>,
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
    /// The phase of a state.
    ///
    /// None: the algorithm declares no phase with this byte.
    pub fn phase_name(&self, state: &[u8]) -> Option<&str> {
        let value = state.first()?;
        self.phases.iter().find(|phase| phase.value == *value).map(|phase| phase.name.as_str())
    }

    /// The names and values of all fields.
    ///
    /// Shape: in the order of the C struct; fields beyond the given bytes are left out.
    pub fn decode(&self, state: &[u8]) -> Vec<(&str, StateValue)> {
        self.values(state).collect()
    }

    /// [`StateLayout::decode`] as an iterator.
    pub fn values<'a>(&'a self, state: &[u8]) -> impl Iterator<Item = (&'a str, StateValue)> {
        self.fields.iter().filter_map(|field| Some((field.name.as_str(), field.value(state)?)))
    }

    /// The layout of a kernel algorithm's state.
    ///
    /// `kernel` is the kernel's type information, `module` that of the algorithm's module.
    ///
    /// None: no struct or several structs of that name fit into a socket, or the type information is damaged.
    pub fn of_kernel(algorithm: &str, kernel: &[u8], module: Option<&[u8]>) -> Option<Self> {
        let btf = Btf::parse(kernel)?;
        let btf = match module {
            Some(module) => btf.continued(module)?,
            None => btf,
        };
        let listed = KERNEL_STRUCTS.iter().find(|(id, ..)| *id == algorithm);
        let wanted = listed.map_or(algorithm, |(_, name, _)| name);
        let fits = |state: &Type| (1..=STATE_BYTES_MAX as u32).contains(&state.size_or_type);
        let structs = btf.iter().map(|(_, t)| t).filter(|t| t.kind == TypeKind::Struct && t.name() == wanted);
        let has = |fields: &[StateField], member: &str| fields.iter().any(|field| field.name == member);
        let mut states = structs
            .filter(fits)
            .filter_map(|state| fields_of(&btf, state))
            .filter(|(_, fields)| listed.is_none_or(|(.., member)| has(fields, member)));
        let (Some((size, fields)), None) = (states.next(), states.next()) else { return None };
        Some(StateLayout { size, phases: Vec::new(), fields })
    }

    /// Reads the struct behind `tccc_state` and the enum behind `tccc_phases`. An object may lack both.
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

/// The size and the fields of a struct.
fn fields_of<'a>(btf: &Btf<'a>, state: Type<'a>) -> Option<(usize, Vec<StateField>)> {
    let mut found = FieldCollector { btf, fields: Vec::new(), members: 0, text: 0 };
    found.add_members(state, "", 0, 0)?;
    Some((state.size_or_type as usize, found.fields))
}

/// Converts `PHASE_SLOW_START` to the phase slow_start.
fn phase((name, value): (&str, i64)) -> Option<Phase> {
    let name = name.strip_prefix("PHASE_").unwrap_or(name).to_lowercase();
    Some(Phase { value: u8::try_from(value).ok()?, name })
}

struct FieldCollector<'b, 'a> {
    btf: &'b Btf<'a>,
    fields: Vec<StateField>,
    members: usize,
    /// Bytes of names.
    text: usize,
}

/// Each method returns `None` if the type information is damaged or exceeds a limit.
impl<'a> FieldCollector<'_, 'a> {
    fn add_members(&mut self, of: Type<'a>, prefix: &str, offset: usize, depth: usize) -> Option<()> {
        for member in of.members()? {
            let name = match (prefix, member.name) {
                (prefix, "") => prefix.to_owned(),
                ("", name) => name.to_owned(),
                (prefix, name) => format!("{prefix}.{name}"),
            };
            self.add_type(self.btf.resolve(member.type_id)?, name, offset.checked_add(member.offset())?, depth)?;
            if member.bits != 0 {
                let (field, first) = (self.fields.last_mut()?, member.bit_offset % 8);
                field.size = (first + member.bits).div_ceil(8) as usize;
                field.bits = Some((first, member.bits));
            }
        }
        Some(())
    }

    fn add_type(&mut self, of: Type<'a>, name: String, offset: usize, depth: usize) -> Option<()> {
        self.members += 1;
        if self.members > MEMBER_LIMIT || self.fields.len() >= FIELD_LIMIT || depth > DEPTH_LIMIT {
            return None;
        }
        match of.kind {
            TypeKind::Struct | TypeKind::Union => self.add_members(of, &name, offset, depth + 1),
            TypeKind::Array => self.add_array(of, name, offset, depth + 1),
            _ => {
                let (size, kind) = scalar(of)?;
                self.add_field(StateField { name, offset, size, bits: None, kind })
            }
        }
    }

    /// Adds an array of numbers as one field, and any other array as `name[0]`, `name[1]` …
    fn add_array(&mut self, array: Type<'a>, name: String, offset: usize, depth: usize) -> Option<()> {
        let (element, count) = array.elements()?;
        let element = self.btf.resolve(element)?;
        let count = usize::try_from(count).ok().filter(|&count| count <= FIELD_LIMIT)?;
        if let Some((element_size, kind)) = scalar(element) {
            let kind = FieldKind::Array { element_size, element: Box::new(kind) };
            return self.add_field(StateField { name, offset, size: element_size * count, bits: None, kind });
        }
        let is_nested = matches!(element.kind, TypeKind::Struct | TypeKind::Union);
        let size = is_nested.then_some(element.size_or_type as usize)?;
        for index in 0..count {
            let offset = offset.checked_add(size.checked_mul(index)?)?;
            self.add_type(element, format!("{name}[{index}]"), offset, depth)?;
        }
        Some(())
    }

    fn add_field(&mut self, field: StateField) -> Option<()> {
        self.text += field.name.len() + field.kind.text_bytes();
        self.fields.push(field);
        (self.text <= TEXT_LIMIT).then_some(())
    }
}

/// The size and kind of a type with one value. None: a struct, union or array.
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

impl StateField {
    /// None: the field lies beyond the given bytes.
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
            return StateValue::Text(hex::encode(bytes));
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
                let name = names.iter().find(|(value, _)| [unsigned as i64, signed].contains(value));
                name.map_or(StateValue::Unsigned(unsigned), |(_, name)| StateValue::Text(name.clone()))
            }
            _ => StateValue::Unsigned(unsigned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, offset: usize, size: usize, kind: FieldKind) -> StateField {
        StateField { name: name.into(), offset, size, bits: None, kind }
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
}
