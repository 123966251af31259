//! Two namespaces joined by a veth pair, and processes in a namespace or on one processor.

use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use tccc::kernel::netlink::{VethEnd, add_address, create_veth, set_up};

use super::*;

const MTU: u32 = 1500;
pub const ENDS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 78, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 78, 0, 2))];

pub fn joined(interfaces: [&str; 2]) -> [Netns; 2] {
    let namespaces = [Netns::create().unwrap(), Netns::create().unwrap()];
    let end = |index: usize| VethEnd { netns: &namespaces[index], name: interfaces[index], mac: None, arp: true };
    create_veth(&end(0), &end(1), MTU).unwrap();
    for ((netns, interface), address) in namespaces.iter().zip(interfaces).zip(ENDS) {
        set_up(netns, interface).unwrap();
        add_address(netns, interface, address, 24).unwrap();
    }
    namespaces
}

pub fn start_in<'a>(netns: &Netns, command: &'a mut Command) -> &'a mut Command {
    let netns = netns.try_clone().unwrap();
    // SAFETY: between fork and exec only `setns` is called, which is async-signal-safe.
    unsafe { command.pre_exec(move || netns.enter_for_good()) }
}

pub fn start_on_last_processor(command: &mut Command) -> &mut Command {
    let processor = last_processor();
    // SAFETY: between fork and exec only `sched_setaffinity` is called, which is async-signal-safe.
    unsafe { command.pre_exec(move || Ok(sched_setaffinity(Pid::from_raw(0), &processor)?)) }
}

pub fn run_on_last_processor() {
    sched_setaffinity(Pid::from_raw(0), &last_processor()).unwrap();
}

fn last_processor() -> CpuSet {
    let mut set = CpuSet::new();
    set.set(std::thread::available_parallelism().map_or(1, usize::from) - 1).unwrap();
    set
}
