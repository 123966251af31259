//! Turns an object into code that the kernel has verified but not registered yet.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use libbpf_rs::{AsRawLibbpf, MapCore, MapMut, MapType, Object, ObjectBuilder, OpenMapMut, OpenObject};

use super::adapt::{self, CallbackFate, Provided};
use super::companion::{CompanionLink, LoadedCompanion};
use super::refusal;
use super::request::{Request, check_name};
use crate::state::Attachment;
use crate::state::pins::Pins;
use shared::btf::Member;
use shared::catalog::NAME_LENGTH_MAX;
use shared::failure::Failure;
use shared::kernel::btf::Types;
use shared::kernel::probe::Features;
use shared::kernel::{bpf, libbpf_log, struct_ops};
use shared::sanitize::plain;

/// A verified algorithm in the kernel that no socket can choose yet.
#[derive(Debug)]
pub struct Verified {
    object: Object,
    /// Name of the map with the ops table.
    table: String,
    companion: Option<LoadedCompanion>,
    has_link: bool,
    /// One phrase for each callback that this kernel lacks or takes in another form, and one for programs left out.
    pub adapted: Vec<String>,
}

/// State that an upgrade inherits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UpgradeInheritance<'a> {
    /// The map that the companion shares with its algorithm.
    pub companion_map: Option<BorrowedFd<'a>>,
    /// Every user and network namespace may choose the name (net.ipv4.tcp_allowed_congestion_control).
    pub is_allowed: bool,
}

/// Opens an object, sets name and tunables, adapts it to this kernel and has the kernel verify it.
///
/// # Errors
/// A wrong name; the kernel has no struct_ops; the object's callbacks do not fit this kernel; the kernel refuses a
/// program.
pub fn verify(request: &Request, features: &Features) -> Result<Verified> {
    verify_for(request, features, UpgradeInheritance::default(), None)
}

/// As [`verify`]. Writes the verifier's log of a refused program to the folder `logs`.
pub(super) fn verify_for(
    request: &Request,
    features: &Features,
    inheritance: UpgradeInheritance,
    logs: Option<&Path>,
) -> Result<Verified> {
    check_name(request.name)?;
    if !features.struct_ops {
        let what = format!("cannot load \"{}\": this kernel does not support congestion control by BPF", request.name);
        return Err(Failure::unmet(what).hint("`tccc doctor` lists what this host lacks").into());
    }
    let is_fit = request.algorithm.check_kernel(|| features.accurate_ecn);
    is_fit.map_err(|failure| refused(request.name, failure))?;
    let mut object = open(request)?;
    let types = types_of(&object)?;
    let members = members_of(&types, &request.algorithm.ops_table)?;
    let unused = leave_out_others(&mut object, request);
    let companion = request.algorithm.companion.as_ref();
    let verify = |wanted| LoadedCompanion::verify(wanted, request.name, inheritance.companion_map);
    let shared = companion.map(verify).transpose()?;
    let mut decided = Vec::new();
    for mut map in object.maps_mut() {
        let is_table = map.map_type() == MapType::StructOps;
        if is_table && map.name() == OsStr::new(&request.algorithm.ops_table) {
            decided = prepare_table(&mut map, (&types, &members), request.name, features)?;
            if inheritance.is_allowed {
                allow_everybody(&mut map, &members);
            }
        } else if is_table {
            map.set_autocreate(false).context("leave another ops table out")?; // also leaves out its programs
        } else if map.name().to_string_lossy().ends_with(".rodata") {
            let rodata = map.initial_value_mut().unwrap_or_default();
            request.settings.iter().try_for_each(|setting| setting.write(rodata))?;
        } else if let (Some(wanted), Some(companion)) = (companion, &shared)
            && let Some(name) = wanted.map().filter(|name| map.name() == OsStr::new(name))
        {
            map.reuse_fd(companion.map(name)?.as_fd()).context("share the companion's map")?;
        }
    }
    let object =
        object.load().map_err(|error| refusal::explain(request.name, &libbpf_log::take(), &error.to_string(), logs))?;
    // After the programs are loaded, because the kernel itself checks the table only when it is registered.
    adapt::check_complete(&decided).map_err(|failure| refused(request.name, failure))?;
    let adapted = decided.iter().filter_map(|(callback, fate)| phrase(&callback.member, fate));
    let adapted = adapted.chain(unused_phrase(&unused, &request.algorithm.ops_table)).collect();
    let table = request.algorithm.ops_table.clone();
    Ok(Verified { object, table, companion: shared, has_link: features.links, adapted })
}

fn is_table(map: &impl MapCore, name: &str) -> bool {
    map.map_type() == MapType::StructOps && map.name() == OsStr::new(name)
}

fn open(request: &Request) -> Result<OpenObject> {
    libbpf_log::start();
    let object = ObjectBuilder::default().name(&request.algorithm.id)?.open_memory(&request.algorithm.object);
    object.map_err(|error| {
        let why = libbpf_log::take_last(&error);
        Failure::failed(format!("cannot load \"{}\": libbpf cannot open its object: {why}", request.name)).into()
    })
}

/// Keeps programs that the ops table does not name from being loaded. Returns their names.
fn leave_out_others(object: &mut OpenObject, request: &Request) -> Vec<String> {
    let callbacks = &request.algorithm.callbacks;
    let mut unused = Vec::new();
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if callbacks.iter().all(|callback| callback.program != name) {
            program.set_autoload(false);
            unused.push(plain(&name));
        }
    }
    unused
}

fn unused_phrase(unused: &[String], table: &str) -> Option<String> {
    let left_out = unused.join(", ");
    (!unused.is_empty())
        .then(|| format!("not loaded, because the ops table \"{table}\" does not name them: {left_out}"))
}

/// The members of an ops table, whose type may be a flavour of the kernel's with another layout.
fn members_of<'a>(types: &'a Types, table: &str) -> Result<Vec<Member<'a>>> {
    let found = types.view().variable(table).and_then(|(_, kind)| kind.members());
    found.with_context(|| format!("find the type of the ops table \"{}\" in the object", plain(table)))
}

fn types_of(object: &OpenObject) -> Result<Types> {
    let mut length = 0u32;
    // SAFETY: the object is open, and its type information lives as long as the object.
    let bytes = unsafe {
        let btf = libbpf_sys::bpf_object__btf(object.as_libbpf_object().as_ptr());
        let begin = if btf.is_null() { std::ptr::null() } else { libbpf_sys::btf__raw_data(btf, &raw mut length) };
        if begin.is_null() { &[][..] } else { std::slice::from_raw_parts(begin.cast::<u8>(), length as usize) }
    };
    Types::parse(bytes.to_vec()).context("read the object's type information")
}

/// Writes name, callbacks and the kind of registration into the table.
fn prepare_table(
    map: &mut OpenMapMut,
    (types, members): (&Types, &[Member]),
    name: &str,
    features: &Features,
) -> Result<Vec<(Provided, CallbackFate)>> {
    let refuse = |failure| refused(name, failure);
    let provided = adapt::provided(types, members, map.initial_value_mut().unwrap_or_default());
    let fates = adapt::fates(&provided, features).map_err(refuse)?;
    let decided: Vec<_> = provided.into_iter().zip(fates).collect();
    adapt::apply(map, members, &decided).map_err(refuse)?;
    write_name(map, members, name);
    let flags = map.map_flags() & !libbpf_sys::BPF_F_LINK;
    let link = if features.links { libbpf_sys::BPF_F_LINK } else { 0 };
    map.set_map_flags(flags | link).context("choose the kind of registration")?;
    Ok(decided)
}

fn refused(name: &str, failure: Failure) -> Failure {
    Failure { what: format!("cannot load \"{name}\": {}", failure.what), ..failure }
}

fn phrase(member: &str, fate: &CallbackFate) -> Option<String> {
    match fate {
        CallbackFate::Kept => None,
        CallbackFate::MovedTo(name) => Some(format!("{member} is used as {name}")),
        CallbackFate::LeftOut => Some(format!("{member} is left out: this kernel does not call it")),
        CallbackFate::Replaced => Some(format!(
            "{member} is left out: this kernel, patched for BBRv3, calls tso_segs instead. What the algorithm does \
             there, such as pacing, never runs"
        )),
    }
}

fn write_name(map: &mut OpenMapMut, members: &[Member], name: &str) {
    if let Some(place) = member_of(map, members, "name", NAME_LENGTH_MAX + 1) {
        place.fill(0);
        place[..name.len()].copy_from_slice(name.as_bytes());
    }
}

/// The kernel stores this permission with the code. A table without the member `flags` gets it after its registration.
fn allow_everybody(map: &mut OpenMapMut, members: &[Member]) {
    /// The kernel's TCP_CONG_NON_RESTRICTED.
    const NON_RESTRICTED: u32 = 1;
    if let Some(place) = member_of(map, members, "flags", size_of::<u32>()) {
        let flags = u32::from_ne_bytes(place.try_into().expect("four bytes"));
        place.copy_from_slice(&(flags | NON_RESTRICTED).to_ne_bytes());
    }
}

/// The bytes of a member of the ops table.
fn member_of<'a>(map: &'a mut OpenMapMut, members: &[Member], name: &str, length: usize) -> Option<&'a mut [u8]> {
    let at = members.iter().find(|member| member.name == name)?.offset();
    map.initial_value_mut()?.get_mut(at..at + length)
}

impl Verified {
    /// Id of the map with the table.
    pub(crate) fn map_id(&self) -> Result<u32> {
        bpf::map_id(&self.map()?)
    }

    /// Callback programs with the number of instructions that the verifier processed, 0 if the kernel does not show it.
    ///
    /// # Errors
    /// As [`struct_ops::cost_of`].
    pub fn verifier_cost(&self) -> Result<Vec<(String, u32)>> {
        let costs = self.object.progs().filter_map(|program| {
            // SAFETY: the program belongs to the object, which outlives this call.
            let fd = unsafe { libbpf_sys::bpf_program__fd(program.as_libbpf_object().as_ptr()) };
            let is_loaded = fd >= 0; // false for callbacks that were left out
            is_loaded.then(|| (program.name().to_string_lossy().into_owned(), struct_ops::cost_of(&fd)))
        });
        costs.map(|(name, cost)| Ok((name, cost?.verified_instructions))).collect()
    }

    /// Registers the algorithm. Returns the link if the kernel has links.
    ///
    /// # Errors
    /// The kernel refuses the name or the table.
    pub(super) fn attach(&mut self) -> Result<Option<OwnedFd>> {
        let has_link = self.has_link;
        let mut link = self.table()?.attach_struct_ops().map_err(|error| attach_refusal(&error))?;
        if has_link {
            return Ok(Some(link.as_fd().try_clone_to_owned()?));
        }
        link.disconnect(); // otherwise libbpf unregisters when its handle is dropped
        Ok(None)
    }

    /// # Errors
    /// No such cgroup; the kernel refuses.
    pub(super) fn attach_companion(&self, place: Option<&Attachment>) -> Result<Vec<CompanionLink>> {
        let both = self.companion.as_ref().zip(place);
        both.map_or_else(|| Ok(Vec::new()), |(companion, place)| companion.attach(place))
    }

    /// As [`LoadedCompanion::renew`].
    pub(super) fn renew_companion(&self, pins: &Pins, name: &str) -> Result<Vec<CompanionLink>> {
        self.companion.as_ref().map_or_else(|| Ok(Vec::new()), |companion| companion.renew(pins, name))
    }

    pub(super) fn companion_program(&self) -> Result<Option<OwnedFd>> {
        self.companion.as_ref().map(LoadedCompanion::program).transpose()
    }

    /// Fills the map, so that a link can be pointed to it.
    ///
    /// # Errors
    /// The kernel refuses the table.
    pub(super) fn publish(&mut self) -> Result<OwnedFd> {
        // libbpf fills the map and then asks for a new link. The kernel refuses that, because the name is taken.
        match self.table()?.attach_struct_ops() {
            Err(error) if error.kind() == libbpf_rs::ErrorKind::AlreadyExists => self.map(),
            Err(error) => Err(attach_refusal(&error)),
            Ok(_) => bail!("the earlier registration vanished meanwhile"),
        }
    }

    pub(super) fn map(&self) -> Result<OwnedFd> {
        let table = self.object.maps().find(|map| is_table(map, &self.table));
        Ok(table.context("find the ops table")?.as_fd().try_clone_to_owned()?)
    }

    fn table(&mut self) -> Result<MapMut<'_>> {
        let mut maps = self.object.maps_mut();
        maps.find(|map| is_table(map, &self.table)).context("find the ops table")
    }
}

fn attach_refusal(error: &libbpf_rs::Error) -> anyhow::Error {
    libbpf_log::take();
    let why = match error.kind() {
        libbpf_rs::ErrorKind::AlreadyExists => "the name was taken meanwhile".to_owned(),
        libbpf_rs::ErrorKind::PermissionDenied => "not permitted, perhaps inside a container".to_owned(),
        _ => error.to_string(),
    };
    anyhow!("the kernel refuses the registration: {why}")
}
