//! Adapts an object to this kernel: type information alone decides which of its callbacks are used.
//!
//! A member `NAME___N` of the ops table is the form of NAME with N parameters. Members that the kernel lacks are left
//! out, so that one object can carry callbacks that only some kernels call.

use libbpf_rs::OpenMapMut;

use shared::btf::Member;
use shared::failure::Failure;
use shared::kernel::btf::Types;
use shared::kernel::probe::Features;

const POINTER_BYTES: usize = size_of::<usize>();

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provided {
    /// Includes the `___N` of a form.
    pub member: String,
    pub parameters: u8,
    /// In the object's ops table, bytes.
    pub offset: usize,
}

/// What becomes of a provided callback on this kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackFate {
    Kept,
    /// Used as this member.
    MovedTo(String),
    LeftOut,
    /// The kernel is patched for BBRv3, and asks `tso_segs` instead.
    Replaced,
}

/// # Errors
/// The kernel's callback has other parameters, and no form of it fits.
pub fn fates(provided: &[Provided], features: &Features) -> Result<Vec<CallbackFate>, Failure> {
    provided.iter().map(|callback| fate(callback, provided, features)).collect()
}

/// # Errors
/// The table lacks a callback without which the kernel registers no algorithm.
pub fn check_complete(decided: &[(Provided, CallbackFate)]) -> Result<(), Failure> {
    let stays = |name: &str| {
        decided.iter().any(|(callback, fate)| match fate {
            CallbackFate::Kept => callback.member == name,
            CallbackFate::MovedTo(member) => member == name,
            CallbackFate::LeftOut | CallbackFate::Replaced => false,
        })
    };
    let needed = [
        ("the callback ssthresh", stays("ssthresh")),
        ("the callback undo_cwnd", stays("undo_cwnd")),
        (
            "both of the callbacks cong_avoid and cong_control, of which the kernel wants one",
            stays("cong_avoid") || stays("cong_control"),
        ),
    ];
    let Some((what, _)) = needed.iter().find(|(_, is_there)| !is_there) else { return Ok(()) };
    let hint = "every congestion control needs it; see bpf/README.md";
    Err(Failure::usage(format!("its ops table lacks {what}")).hint(hint))
}

fn fate(callback: &Provided, all: &[Provided], features: &Features) -> Result<CallbackFate, Failure> {
    let (name, form) = split(&callback.member);
    let Some(wanted) = features.slots.get(name).and_then(|slot| slot.parameters) else {
        let is_replaced = name == "min_tso_segs" && features.asks_tso_segs();
        return Ok(if is_replaced { CallbackFate::Replaced } else { CallbackFate::LeftOut });
    };
    if form.is_some() {
        return Ok(if form == Some(wanted) { CallbackFate::MovedTo(name.to_owned()) } else { CallbackFate::LeftOut });
    }
    if callback.parameters == wanted {
        return Ok(CallbackFate::Kept);
    }
    if all.iter().any(|other| split(&other.member) == (name, Some(wanted))) {
        return Ok(CallbackFate::LeftOut);
    }
    let what = format!("its callback {name} takes {} parameters, this kernel's {wanted}", callback.parameters);
    Err(Failure::unmet(what).hint("provide both forms with CONG_CONTROL_BOTH of bpf/include/compat.bpf.h"))
}

/// Splits `cong_control___2` into the name and its number of parameters.
fn split(member: &str) -> (&str, Option<u8>) {
    match member.split_once("___") {
        Some((name, form)) => (name, form.parse().ok()),
        None => (member, None),
    }
}

/// The callbacks in the table of an opened object.
pub fn provided(object: &Types, members: &[Member], table: &[u8]) -> Vec<Provided> {
    let types = object.view();
    let filled = members.iter().filter_map(|member| {
        let (parameters, offset) = (types.parameters(member.type_id)?, member.offset());
        let pointer = table.get(offset..offset + POINTER_BYTES)?;
        let is_filled = pointer.iter().any(|&byte| byte != 0);
        is_filled.then_some(Provided { member: member.name.to_owned(), parameters, offset })
    });
    filled.collect()
}

/// Moves and clears pointers in the opened object's table. libbpf then loads only the programs that are left in it.
///
/// # Errors
/// The table has no plain member for a form.
pub fn apply(map: &mut OpenMapMut, members: &[Member], decided: &[(Provided, CallbackFate)]) -> Result<(), Failure> {
    let table = map.initial_value_mut().unwrap_or_default();
    let mut taken = Vec::new();
    for (callback, fate) in decided.iter().filter(|(_, fate)| *fate != CallbackFate::Kept) {
        let place = &mut table[callback.offset..callback.offset + POINTER_BYTES];
        taken.push((fate, place.to_vec()));
        place.fill(0);
    }
    for (fate, pointer) in taken {
        let CallbackFate::MovedTo(name) = fate else { continue };
        let target = members.iter().find(|member| member.name == name);
        let target = target.ok_or_else(|| Failure::usage(format!("its ops table has no member {name} to move to")))?;
        table[target.offset()..target.offset() + POINTER_BYTES].copy_from_slice(&pointer);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::failure;
    use shared::kernel::probe::OpsSlot;

    fn kernel(slots: &[(&str, u8)]) -> Features {
        let slot = |&(name, count): &(&str, u8)| (name.to_owned(), OpsSlot { parameters: Some(count), offset: 0 });
        Features { slots: slots.iter().map(slot).collect(), ..Features::default() }
    }

    fn object(callbacks: &[(&str, u8)]) -> Vec<Provided> {
        let provided = |&(name, parameters): &(&str, u8)| Provided { member: name.to_owned(), parameters, offset: 0 };
        callbacks.iter().map(provided).collect()
    }

    const NEEDED: [(&str, u8); 3] = [("ssthresh", 1), ("undo_cwnd", 1), ("cong_avoid", 3)];

    fn check(extra_of_object: &[(&str, u8)], extra_of_kernel: &[(&str, u8)], expected: &[CallbackFate]) {
        let provided = object(&[&NEEDED, extra_of_object].concat());
        let decided = fates(&provided, &kernel(&[&NEEDED, extra_of_kernel].concat())).unwrap();
        assert_eq!(&decided[..3], &[CallbackFate::Kept, CallbackFate::Kept, CallbackFate::Kept]);
        assert_eq!(&decided[3..], expected, "{extra_of_object:?} on {extra_of_kernel:?}");
    }

    #[test]
    fn form_with_the_kernels_parameters_is_used_and_what_the_kernel_lacks_is_left_out() {
        let both = [("cong_control", 4), ("cong_control___2", 2)];
        let moved = CallbackFate::MovedTo("cong_control".into());
        check(&both, &[("cong_control", 4)], &[CallbackFate::Kept, CallbackFate::LeftOut]);
        check(&both, &[("cong_control", 2)], &[CallbackFate::LeftOut, moved.clone()]);
        check(&[("cong_control___2", 2)], &[("cong_control", 2)], &[moved]);
        check(&both, &[], &[CallbackFate::LeftOut, CallbackFate::LeftOut]);
        let [event, start] = [("cwnd_event", 2), ("cwnd_event_tx_start", 1)];
        check(&[event, start], &[event], &[CallbackFate::Kept, CallbackFate::LeftOut]);
        check(&[start], &[start], &[CallbackFate::Kept]);
        check(&[("min_tso_segs", 1)], &[], &[CallbackFate::LeftOut]);
        check(&[("min_tso_segs", 1)], &[("tso_segs", 2)], &[CallbackFate::Replaced]);
    }

    #[test]
    fn callback_with_other_parameters_and_table_without_a_needed_callback_are_refused() {
        let provided = object(&[&NEEDED[..], &[("cong_control", 2)]].concat());
        let refusal = fates(&provided, &kernel(&[&NEEDED[..], &[("cong_control", 4)]].concat())).unwrap_err();
        assert_eq!(refusal.kind, failure::FailureKind::Unmet);
        assert_eq!(refusal.what, "its callback cong_control takes 2 parameters, this kernel's 4");
        let kernel = kernel(&NEEDED);
        let refusal = |callbacks: &[(&str, u8)]| {
            let provided = object(callbacks);
            let fates = fates(&provided, &kernel).unwrap();
            check_complete(&provided.into_iter().zip(fates).collect::<Vec<_>>()).unwrap_err().what
        };
        assert_eq!(refusal(&NEEDED[1..]), "its ops table lacks the callback ssthresh");
        assert_eq!(refusal(&[NEEDED[0], NEEDED[2]]), "its ops table lacks the callback undo_cwnd");
        assert!(refusal(&NEEDED[..2]).starts_with("its ops table lacks both of the callbacks cong_avoid and"));
    }
}
