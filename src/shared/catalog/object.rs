//! Reads an algorithm from the bytes of its object file.

use std::borrow::Cow;
use std::collections::BTreeMap;

use object::SectionIndex;

use super::algorithm::{Algorithm, Callback, Companion, CompanionPlace};
use super::card::Card;
use super::elf::{Elf, Symbol};
use super::layout::{STATE_BYTES_MAX, StateLayout};
use super::need::{self, KernelNeed};
use super::tunable::{Tunable, TunableKind};
use crate::btf::{Btf, Encoding, Type, TypeKind, text_at};
use crate::sanitize::{plain, plain_lines};

/// The kernel's `TCP_CA_NAME_MAX` without the final zero.
pub const NAME_LENGTH_MAX: usize = 15;
/// The kernel's type of an ops table.
pub const OPS_TYPE: &str = "tcp_congestion_ops";
/// In commands, this name means the host's default algorithm.
const RESERVED: &str = "default";
/// Most variables to examine for an ops table.
const VARIABLES_MAX: usize = 256;
const TUNABLES_MAX: usize = 256;
/// Most former names of a tunable.
const FORMER_MAX: usize = 8;
/// The licences that the kernel accepts for a struct_ops program (`license_is_gpl_compatible`).
const LICENCES: [&str; 6] =
    ["GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"];

struct OpsVariable<'a> {
    id: u32,
    variable: &'a str,
    section: SectionIndex,
    offset: u64,
    kind: Type<'a>,
}

/// Reads the algorithm of the ops table `wanted`, or of the object's only one.
///
/// # Errors
/// The reason, as the second half of a sentence.
pub fn read(object: Cow<'static, [u8]>, wanted: Option<&str>) -> Result<Algorithm, String> {
    let elf = Elf::parse(&object)?;
    let btf = elf.section(".BTF").ok_or("it has no type information (BTF); compile it with clang -g")?;
    let btf = Btf::parse(btf).ok_or("its type information (BTF) is damaged")?;
    let table = ops_table(&elf, &btf, wanted)?;
    check_licence(&elf)?;
    let id = kernel_name(&elf, &table)?;
    let layout = StateLayout::read(&btf).ok_or("the type of its private state cannot be read")?;
    if layout.size > STATE_BYTES_MAX {
        let size = layout.size;
        return Err(format!("its private state of {size} bytes is larger than the socket's {STATE_BYTES_MAX}"));
    }
    let flags = flags(&elf, &table);
    let tag = |key: &str| plain_lines(btf.tags(table.id).find_map(|tag| tag.strip_prefix(key)).unwrap_or(""));
    let found = Algorithm {
        id,
        ops_table: table.variable.to_owned(),
        title: plain(&tag("tccc.title=")),
        source: plain(&tag("tccc.source=")),
        card: Card::parse(&tag("tccc.card=")),
        tunables: tunables(&elf, &btf)?,
        layout,
        callbacks: callbacks(&elf, &table)?,
        companion: companion(&btf).or_else(|| need::companion_of_flags(flags)),
        need: KernelNeed::of_flags(flags),
        object: Cow::Borrowed(&[]),
        findings: None,
    };
    Ok(Algorithm { object, ..found })
}

fn ops_table<'a>(elf: &Elf<'a>, btf: &Btf<'a>, wanted: Option<&str>) -> Result<OpsVariable<'a>, String> {
    let sections = btf.iter().filter(|(_, t)| t.kind == TypeKind::Section && t.name().starts_with(".struct_ops"));
    let ids = sections.flat_map(|(_, section)| section.section_variables()).take(VARIABLES_MAX);
    let tables: Vec<OpsVariable> = ids.filter_map(|id| table(elf, btf, id)).collect();
    let names = tables.iter().map(|table| shown(table.variable)).collect::<Vec<_>>().join(", ");
    match (tables.len(), wanted) {
        (0, _) => Err("it has no ops table: no variable of type tcp_congestion_ops in .struct_ops or \
                       .struct_ops.link"
            .to_owned()),
        (2.., None) => Err(format!("it has {} ops tables ({names}): name one, as in FILE:TABLE", tables.len())),
        (_, Some(wanted)) => {
            let found = tables.into_iter().find(|table| table.variable == wanted);
            found.ok_or_else(|| format!("it has no ops table \"{}\", only {names}", shown(wanted)))
        }
        (1, None) => Ok(tables.into_iter().next().expect("there is one")),
    }
}

fn table<'a>(elf: &Elf<'a>, btf: &Btf<'a>, id: u32) -> Option<OpsVariable<'a>> {
    let variable = btf.get(id).filter(|t| t.kind == TypeKind::Var)?;
    let kind = btf.resolve(variable.size_or_type).filter(|t| t.kind == TypeKind::Struct)?;
    // To the kernel, a flavour such as tcp_congestion_ops___v6 is the same type.
    if kind.name().split("___").next() != Some(OPS_TYPE) {
        return None;
    }
    let &Symbol { section, offset, .. } = elf.symbol(variable.name())?;
    Some(OpsVariable { id, variable: variable.name(), section, offset, kind })
}

fn check_licence(elf: &Elf) -> Result<(), String> {
    let licence = elf.section("license").and_then(|bytes| text_at(bytes, 0)).unwrap_or("");
    match licence {
        known if LICENCES.contains(&known) => Ok(()),
        "" => Err("it declares no licence: the kernel requires char LICENSE[] SEC(\"license\") = \"GPL\"".into()),
        other => {
            Err(format!("its licence \"{}\" is not compatible with the GPL, which the kernel requires", shown(other)))
        }
    }
}

/// The algorithm's name in the kernel: the name field of the ops table, or the variable's name if the field is empty.
fn kernel_name(elf: &Elf, table: &OpsVariable) -> Result<String, String> {
    let members = table.kind.members().ok_or("the type of its ops table is damaged")?;
    let start = members.iter().find(|member| member.name == "name").map(|member| member.offset());
    let bytes = start.and_then(|start| {
        let (_, bytes) = elf.section_at(table.section)?;
        bytes.get(usize::try_from(table.offset).ok()?.checked_add(start)?..)?.get(..=NAME_LENGTH_MAX)
    });
    let bytes = bytes.ok_or("its ops table has no name")?;
    let Some(end) = bytes.iter().position(|&byte| byte == 0) else {
        return Err(format!("the name in its ops table is longer than {NAME_LENGTH_MAX} characters"));
    };
    let name = match &bytes[..end] {
        [] => table.variable,
        name => std::str::from_utf8(name).unwrap_or("?"),
    };
    check_name(name)?;
    Ok(name.to_owned())
}

/// The flags of the ops table. A table without them has none.
fn flags(elf: &Elf, table: &OpsVariable) -> u32 {
    let read = || {
        let start = table.kind.members()?.iter().find(|member| member.name == "flags")?.offset();
        let (_, bytes) = elf.section_at(table.section)?;
        let begin = usize::try_from(table.offset).ok()?.checked_add(start)?;
        Some(u32::from_le_bytes(bytes.get(begin..begin.checked_add(4)?)?.try_into().ok()?))
    };
    read().unwrap_or(0)
}

/// Checks that the kernel and our files can use a name.
///
/// The kernel accepts letters, digits, _ and dots. Its BPF file system refuses dots in the names of pins.
///
/// # Errors
/// The reason, as the second half of a sentence.
pub fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(allowed) {
        return Err(format!("the name \"{}\" may hold only letters, digits and _", shown(name)));
    }
    if name == RESERVED {
        return Err(format!("the name \"{RESERVED}\" is reserved: in tccc it means the host's default algorithm"));
    }
    if name.len() > NAME_LENGTH_MAX {
        return Err(format!("the name \"{name}\" has {} characters: at most {NAME_LENGTH_MAX}", name.len()));
    }
    Ok(())
}

/// Escapes and shortens text from an untrusted file for a terminal.
fn shown(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_default).collect()
}

fn tunables(elf: &Elf, btf: &Btf) -> Result<Vec<Tunable>, String> {
    let tags = btf.iter().filter(|(_, t)| t.kind == TypeKind::Tag);
    let tags = tags.filter_map(|(_, t)| Some((t.size_or_type, t.name().strip_prefix("tccc.tunable=")?)));
    let found: Vec<(u32, &str)> = tags.take(TUNABLES_MAX + 1).collect();
    if found.len() > TUNABLES_MAX {
        return Err(format!("it has more than {TUNABLES_MAX} tunables"));
    }
    let read = found.into_iter().map(|(id, tag)| {
        let name = btf.get(id).map_or("", |t| t.name());
        tunable(elf, btf, id, tag).ok_or_else(|| format!("its tunable \"{}\" is not well-formed", shown(name)))
    });
    read.collect()
}

fn tunable(elf: &Elf, btf: &Btf, id: u32, tag: &str) -> Option<Tunable> {
    let variable = btf.get(id).filter(|t| t.kind == TypeKind::Var)?;
    let number = btf.resolve(variable.size_or_type).filter(|t| t.kind == TypeKind::Int)?;
    let size = Some(number.size_or_type as usize).filter(|size| [1, 2, 4, 8].contains(size))?;
    let symbol = elf.symbol(variable.name())?;
    elf.section_at(symbol.section).filter(|(name, _)| *name == ".rodata")?;
    let kind = match number.encoding() {
        Encoding::Unsigned => TunableKind::Unsigned,
        Encoding::Signed => TunableKind::Signed,
        Encoding::Bool => TunableKind::Bool,
    };
    let offset = usize::try_from(symbol.offset).ok()?;
    let (name, unit, why) = (plain(variable.name()), String::new(), String::new());
    let former = btf.tags(id).filter_map(|tag| tag.strip_prefix("tccc.former="));
    let former = former.take(FORMER_MAX).map(plain).collect();
    Tunable { name, kind, size, offset, default: 0, low: 0, high: 0, unit, why, former }.with_tag(&plain(tag))
}

/// The companion program, named by a tag on the shared map.
fn companion(btf: &Btf) -> Option<Companion> {
    let mut tags = btf.iter().filter(|(_, t)| t.kind == TypeKind::Tag);
    let (id, program) = tags.find_map(|(_, t)| Some((t.size_or_type, t.name().strip_prefix("tccc.companion=")?)))?;
    let times_single_packets = btf.tags(id).any(|tag| tag == "tccc.times_single_packets");
    let map = btf.get(id).filter(|t| t.kind == TypeKind::Var)?.name();
    let place = CompanionPlace::Cgroup { map: plain(map), times_single_packets };
    Some(Companion { program: plain(program), place })
}

/// The members of the ops table that point to a program, in the table's order.
fn callbacks(elf: &Elf, table: &OpsVariable) -> Result<Vec<Callback>, String> {
    let members = table.kind.members().ok_or("the type of its ops table is damaged")?;
    let end = table.offset.saturating_add(table.kind.size_or_type.into());
    let mut programs: BTreeMap<u64, &str> = elf.references(table.section, table.offset..end).into_iter().collect();
    let callbacks = members.iter().filter_map(|member| {
        let program = programs.remove(&table.offset.checked_add(member.offset() as u64)?)?;
        Some(Callback { member: plain(member.name), program: plain(program) })
    });
    Ok(callbacks.collect())
}
