//! This machine, for the result directory.

use std::fs;

use sha2::{Digest, Sha256};

use crate::model::run::Machine;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Where a machine says which it is. A container without the first has the second of its host, until that boots again.
const IDS: [&str; 2] = ["/etc/machine-id", BOOT_ID];
/// Characters of the digest that are kept: two of a million machines share them with a chance below 1e-7.
const ID_LENGTH: usize = 16;

/// What this machine says about itself.
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

/// The machine's id in records of runs. None: the machine has none that can be read.
pub fn id() -> Option<String> {
    IDS.iter().map(|file| line(file)).find(|own| !own.is_empty()).map(|own| shortened(&own))
}

/// This boot of the machine. None: the machine does not say.
pub fn boot() -> Option<String> {
    let boot = line(BOOT_ID);
    (!boot.is_empty()).then(|| shortened(&boot))
}

/// Adds the machines that are not known yet.
pub fn add(known: &mut Vec<Machine>, others: impl IntoIterator<Item = Machine>) {
    for one in others {
        if known.iter().all(|other| other.id != one.id) {
            known.push(one);
        }
    }
}

/// Programs must not publish a machine's id, says machine-id(5), but may publish a digest of it.
fn shortened(own: &str) -> String {
    let digest = Sha256::new().chain_update("tccc").chain_update(own).finalize();
    let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    text[..ID_LENGTH].to_owned()
}

/// A small file without its newline; empty where it cannot be read.
fn line(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

/// The first processor's model; machines that are not x86 give the numbers of implementer and part instead.
fn processor(cpu: &str) -> String {
    let value = |name: &str| field(cpu, name).map(str::to_owned);
    let numbers = || Some(format!("implementer {} part {}", value("CPU implementer")?, value("CPU part")?));
    value("model name").or_else(numbers).unwrap_or_default()
}

/// A hypervisor shows itself by a flag of the processor.
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
    fn machine_is_told_by_a_digest_and_never_by_its_own_id() {
        let own = "0123456789abcdef0123456789abcdef";
        let id = shortened(own);
        assert_eq!((id.len(), id == shortened(own), id == shortened("other")), (ID_LENGTH, true, false));
        assert!(!own.contains(&id));
        assert_eq!(super::id(), super::id(), "it does not change between runs");
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
