//! The first process of a guest: it mounts file systems, loads modules, builds the network, starts the laboratory, and
//! copies the results to the shared folder.
//!
//! All of this runs in the guest, as root. At the end it always switches the guest off.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};

use super::discipline;
use super::flow::run_request;
use super::job::{self, END, EVENTS, ExperimentJob, FLOWS, JOB, LINKS, OUTPUT, PROGRAM, Program, QUEUES, RUN, WELL};
use crate::emulate::layout::LinkLayout;
use crate::emulate::netns::build;
use crate::emulate::{LinkEnd, wires};
use shared::kernel::netlink::{VethEnd, create_veth, set_up};
use shared::kernel::netns::Netns;

/// Mount point of the shared folder.
const SHARED: &str = "/job";
/// Folder of the laboratory's files.
const LABORATORY: &str = "/proc/tccc";
/// Limits of TCP's buffers that do not depend on the guest's memory. The limit for all sockets together is more pages
/// than any guest has, so the kernel never throttles a flow. The limits of each socket are those of Linux 6.12 with
/// enough memory.
const TCP_BUFFERS: [(&str, &str); 3] =
    [("tcp_mem", "4194304 4194304 4194304"), ("tcp_rmem", "4096 131072 6291456"), ("tcp_wmem", "4096 16384 4194304")];

/// The first argument of a guest's first process. The guest's kernel appends parts of its own command line.
pub(super) const INSIDE: &str = "inside";

/// Whether this is the first process of a guest.
pub fn is_first_process() -> bool {
    std::process::id() == 1 && std::env::args_os().nth(1).is_some_and(|word| word == INSIDE)
}

/// Does the job in the shared folder and switches the guest off.
///
/// # Errors
/// The kernel refuses to switch off.
pub fn run() -> Result<()> {
    let told = match prepare().and_then(|()| work()) {
        Ok(()) => WELL.to_owned(),
        Err(error) => format!("{error:#}"),
    };
    if fs::write(Path::new(SHARED).join(END), &told).is_err() || told != WELL {
        let _ = writeln!(std::io::stderr(), "{told}"); // the host keeps the console's output
    }
    nix::unistd::sync();
    reboot(RebootMode::RB_POWER_OFF).map(|never| match never {}).context("switch the guest off")
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
    if shared.join(PROGRAM).exists() {
        return run_program(&job::read(&shared.join(PROGRAM))?, shared);
    }
    let job: ExperimentJob = job::read(&shared.join(JOB))?;
    for load in &job.modules {
        let module = File::open(shared.join(&load.file)).with_context(|| format!("open \"{}\"", load.file))?;
        let parameters = std::ffi::CString::new(load.parameters.as_str()).context("name a module's parameters")?;
        finit_module(&module, &parameters, ModuleInitFlags::empty())
            .with_context(|| format!("load \"{}\" with \"{}\"", load.file, load.parameters))?;
    }
    let built = build(&job.layout, &mut connect)?;
    // Every profile turns IPv6 off, and the guest has none.
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
    for link in &job.layout.links {
        for (direction, end) in link.ends.iter().enumerate() {
            let node = built.nodes.iter().find(|node| node.name == end.node).context("find a node of the layout")?;
            discipline::set(&node.netns, &end.interface, &link.config, direction)?;
        }
    }
    tell(RUN, &run_request(job.run_ns)).context("start the run")?;
    for file in [RUN, LINKS, QUEUES, FLOWS, EVENTS] {
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

/// Each request must be a single write.
fn tell(file: &str, bytes: &[u8]) -> Result<()> {
    fs::write(Path::new(LABORATORY).join(file), bytes)
        .with_context(|| format!("write {} bytes to \"{file}\"", bytes.len()))
}

fn hand_over(file: &str, shared: &Path) -> Result<()> {
    let from = File::open(Path::new(LABORATORY).join(file));
    let copied = from.and_then(|mut from| std::io::copy(&mut from, &mut File::create(shared.join(file))?));
    copied.with_context(|| format!("copy the laboratory's \"{file}\"")).map(drop)
}

/// Creates a pair of interfaces. A later request tells the laboratory the properties of the link.
fn connect(link: &LinkLayout, ends: [LinkEnd; 2]) -> Result<Netns> {
    let end = |number: usize| {
        let LinkEnd { netns, interface } = &ends[number];
        VethEnd { netns, name: interface, mac: Some(wires::END_MAC), arp: false }
    };
    create_veth(&end(0), &end(1), link.config.mtu)?;
    ends.iter().try_for_each(|end| set_up(&end.netns, &end.interface))?;
    ends[0].netns.try_clone()
}
