//! The first process of a guest: mounts, loads, builds the network, starts the laboratory, hands over what it says.
//!
//! Everything here runs in the guest, as its root. It ends by switching the guest off, whatever happened.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};

use super::job::{END, EVENTS, FLOWS, Job, LINKS, OUTPUT, Program, RUN, WELL};
use crate::emulate::layout::LinkLayout;
use crate::emulate::netns::build;
use crate::emulate::{LinkEnd, wires};
use crate::failure::Failure;
use crate::kernel::netlink::{VethEnd, create_veth, set_up};
use crate::kernel::netns::Netns;

/// The folder that the host gave.
const SHARED: &str = "/job";
/// The laboratory's files.
const LABORATORY: &str = "/proc/tccc";
/// What TCP's buffers may hold, whatever the guest's memory: more than any guest has in all, in pages, so that the kernel
/// never holds a flow back for it; and for each socket, in bytes, what Linux 6.12 gives where there is enough memory.
const TCP_BUFFERS: [(&str, &str); 3] =
    [("tcp_mem", "4194304 4194304 4194304"), ("tcp_rmem", "4096 131072 6291456"), ("tcp_wmem", "4096 16384 4194304")];

/// Does the job in the shared folder and switches the guest off.
///
/// Errors: this is not the first process of a guest.
pub fn run() -> Result<()> {
    if std::process::id() != 1 {
        let failure = Failure::usage("only the guest of virtual time starts with this command");
        return Err(failure.hint("`tccc run SCENARIO --engine virtual`").into());
    }
    let told = match prepare().and_then(|()| work()) {
        Ok(()) => WELL.to_owned(),
        Err(error) => format!("{error:#}"),
    };
    if fs::write(Path::new(SHARED).join(END), &told).is_err() || told != WELL {
        println_to_console(&told); // the folder may not be the host's
    }
    nix::unistd::sync();
    reboot(RebootMode::RB_POWER_OFF).map(|never| match never {}).context("switch the guest off")
}

/// The host keeps what the console said.
fn println_to_console(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}"); // there is nobody else to tell
}

fn prepare() -> Result<()> {
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("hostfs", SHARED)] {
        mount(Some("none"), place, Some(kind), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("mount {kind} at {place}"))?;
    }
    for (name, value) in TCP_BUFFERS {
        fs::write(Path::new("/proc/sys/net/ipv4").join(name), value).with_context(|| format!("set {name}"))?;
    }
    Ok(())
}

fn work() -> Result<()> {
    let shared = Path::new(SHARED);
    if let Some(program) = Program::read(shared)? {
        return run_program(&program, shared);
    }
    let job = Job::read(shared)?;
    for load in &job.modules {
        let module = File::open(shared.join(&load.file)).with_context(|| format!("open \"{}\"", load.file))?;
        let parameters = std::ffi::CString::new(load.parameters.as_str()).context("name a module's parameters")?;
        finit_module(&module, &parameters, ModuleInitFlags::empty())
            .with_context(|| format!("load \"{}\" with \"{}\"", load.file, load.parameters))?;
    }
    let built = build(&job.layout, &mut connect)?;
    // There is no IPv6 in the guest, which every profile turns off.
    if let Some(name) = built.lacking.iter().find(|name| !name.starts_with("net.ipv6.")) {
        bail!("the guest's kernel has no {name}, which the scenario's profile sets");
    }
    for request in &job.requests {
        let Some(node) = built.nodes.get(request.node) else { bail!("node {} is not in the layout", request.node) };
        let bytes = fs::read(shared.join(&request.file)).with_context(|| format!("read \"{}\"", request.file))?;
        node.netns
            .run(|| tell(&request.to, &bytes))
            .with_context(|| format!("tell the laboratory of \"{}\" on node \"{}\"", request.file, node.name))?;
    }
    tell(RUN, &job.run_ns.map(u64::to_le_bytes).concat()).context("let the time pass")?;
    for file in [RUN, LINKS, FLOWS, EVENTS] {
        hand_over(file, shared)?;
    }
    Ok(())
}

fn run_program(program: &Program, shared: &Path) -> Result<()> {
    let output = File::create(shared.join(OUTPUT)).context("create the program's output")?;
    let mut command = Command::new(shared.join(&program.file));
    command.current_dir(shared).args(&program.arguments).env_clear().envs(program.environment.iter().cloned());
    command.stdout(output.try_clone().context("use the output twice")?).stderr(output);
    let status = command.status().with_context(|| format!("start \"{}\"", program.file))?;
    ensure!(status.success(), "\"{}\" ended with {status}", program.file);
    Ok(())
}

/// One write is one request.
fn tell(file: &str, bytes: &[u8]) -> Result<()> {
    fs::write(Path::new(LABORATORY).join(file), bytes)
        .with_context(|| format!("write {} bytes to \"{file}\"", bytes.len()))
}

fn hand_over(file: &str, shared: &Path) -> Result<()> {
    let mut from =
        File::open(Path::new(LABORATORY).join(file)).with_context(|| format!("open the laboratory's {file}"))?;
    let mut to = File::create(shared.join(file)).with_context(|| format!("create \"{file}\""))?;
    std::io::copy(&mut from, &mut to).with_context(|| format!("hand over \"{file}\"")).map(drop)
}

/// A pair of interfaces. The laboratory learns later what happens to packets between them.
fn connect(link: &LinkLayout, ends: [LinkEnd; 2]) -> Result<Netns> {
    let end = |number: usize| {
        let LinkEnd { netns, interface } = &ends[number];
        VethEnd { netns, name: interface, mac: Some(wires::END_MAC), arp: false }
    };
    create_veth(&end(0), &end(1), link.config.mtu)?;
    ends.iter().try_for_each(|end| set_up(&end.netns, &end.interface))?;
    ends[0].netns.try_clone()
}
