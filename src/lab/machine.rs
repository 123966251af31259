//! Describes this machine for the result directory.

use std::fs;

use sha2::{Digest, Sha256};

use shared::model::run::Machine;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Files with an id of the machine. In a container without the first, the second is the host's until the next boot.
const IDS: [&str; 2] = ["/etc/machine-id", BOOT_ID];
/// Characters of the digest that are kept: the chance that two of a million machines share them is below 1e-7.
const ID_LENGTH: usize = 16;

pub fn machine() -> Machine {
    let name = nix::sys::utsname::uname().ok();
    let of_name = |part: &dyn Fn(&nix::sys::utsname::UtsName) -> String| name.as_ref().map(part).unwrap_or_default();
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Machine {
        id: id().unwrap_or_default(),
        node: of_name(&|name| name.nodename().to_string_lossy().into_owned()),
        processor: processor(&cpu),
        virtualisation: virtualisation(&cpu, &line("/sys/class/dmi/id/product_name")),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        kernel_build: of_name(&|name| name.version().to_string_lossy().into_owned()),
    }
}

/// The machine's id in records of runs; `None` if no id can be read.
pub fn id() -> Option<String> {
    IDS.iter().map(|file| line(file)).find(|own| !own.is_empty()).map(|own| shortened(&own))
}

/// An id of this boot; `None` if it cannot be read.
pub fn boot() -> Option<String> {
    let boot = line(BOOT_ID);
    (!boot.is_empty()).then(|| shortened(&boot))
}

/// Adds machines with new ids.
pub fn add(known: &mut Vec<Machine>, others: impl IntoIterator<Item = Machine>) {
    for one in others {
        if known.iter().all(|other| other.id != one.id) {
            known.push(one);
        }
    }
}

/// machine-id(5) forbids publishing the id itself; a digest is allowed.
fn shortened(own: &str) -> String {
    let digest = Sha256::new().chain_update("tccc").chain_update(own).finalize();
    hex::encode(digest)[..ID_LENGTH].to_owned()
}

/// A small file without its newline; empty if it cannot be read.
fn line(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

/// The first processor's model; on ARM, the numbers of implementer and part.
fn processor(cpu: &str) -> String {
    let value = |name: &str| field(cpu, name).map(str::to_owned);
    let numbers = || Some(format!("implementer {} part {}", value("CPU implementer")?, value("CPU part")?));
    value("model name").or_else(numbers).unwrap_or_default()
}

/// A processor flag shows a hypervisor; the DMI product name tells which.
fn virtualisation(cpu: &str, product: &str) -> String {
    let is_guest = field(cpu, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    match (is_guest, product) {
        (false, _) => "none".to_owned(),
        (true, "") => "a hypervisor".to_owned(),
        (true, product) => product.to_owned(),
    }
}

/// The first value of a field of `/proc/cpuinfo`.
fn field<'a>(cpu: &'a str, name: &str) -> Option<&'a str> {
    let pairs = cpu.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(field, value)| (field.trim(), value.trim())).find(|(field, _)| *field == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: &str = "processor\t: 0\nmodel name\t: Some CPU @ 2.1 GHz\nflags\t\t: fpu hypervisor sse\n";

    #[test]
    fn machine_is_named_by_a_digest_and_never_by_its_own_id() {
        let own = "0123456789abcdef0123456789abcdef";
        let id = shortened(own);
        assert_eq!((id.len(), id == shortened(own), id == shortened("other")), (ID_LENGTH, true, false));
        assert!(!own.contains(&id));
        assert_eq!(super::id(), super::id());
    }

    #[test]
    fn processor_and_hypervisor_are_read_from_cpuinfo() {
        assert_eq!(processor(CPU), "Some CPU @ 2.1 GHz");
        assert_eq!(processor("CPU implementer : 0x41\nCPU part : 0xd0c\n"), "implementer 0x41 part 0xd0c");
        assert_eq!(processor(""), "");
        assert_eq!(virtualisation(CPU, "KVM"), "KVM");
        assert_eq!(virtualisation(CPU, ""), "a hypervisor");
        assert_eq!(virtualisation("flags : fpu\n", "Board"), "none");
    }
}
