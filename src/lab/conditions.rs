//! Sets the socket conditions of a scenario's senders with a sock_ops program: window cap, initial ssthresh and cwnd.

use std::fs::File;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, anyhow, bail, ensure};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, OpenObject};
use nix::errno::Errno;

use crate::scenario::FlowSpec;
use shared::failure::Failure;
use shared::kernel::cgroup::RunCgroup;
use shared::kernel::netns::Netns;
use shared::kernel::probe::Features;

mod skel {
    #![allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated")]
    include!(concat!(env!("OUT_DIR"), "/conditions.skel.rs"));
}

/// The attached program. It is detached when this is dropped and when the process ends.
pub struct SocketConditions {
    _program: Link,
    _setter: Option<Link>,
    senders: MapHandle,
}

/// `struct sender` of the program.
const SENDER_BYTES: usize = 16;
/// `struct conditions` of the program.
const CONDITIONS_BYTES: usize = 20;

impl SocketConditions {
    /// Loads the program and attaches it to the cgroup of the experiment's processes.
    ///
    /// `ssthresh_alone`: some flow sets an initial ssthresh without a window cap, which needs a helper algorithm.
    ///
    /// Errors: not permitted; the kernel refuses the program; it lacks struct_ops links for the helper.
    /// Side effects: a program on the cgroup and, if needed, a registered algorithm; they live as long as the result.
    pub fn attach(cgroup: &RunCgroup, ssthresh_alone: bool) -> Result<Self> {
        let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
        let mut open =
            skel::ConditionsSkelBuilder::default().open(&mut storage).context("open the socket conditions program")?;
        if ssthresh_alone {
            require_links()?;
            // Algorithm names are global, and another tccc may be active. Letters, digits, _ and . are allowed.
            let name = format!("tccc_ss{}", std::process::id());
            let raw = open.struct_ops.ssthresh_setter_mut();
            copy_name(&mut raw.name, &name);
            let bss = open.maps.bss_data.as_mut().ok_or_else(|| anyhow!("the program has no place for its name"))?;
            copy_name(&mut bss.setter_name, &name);
        } else {
            open.maps.ssthresh_setter.set_autocreate(false).context("leave out the helper algorithm")?;
            for mut program in open.open_object_mut().progs_mut() {
                let keep = program.name() == "tccc_conditions";
                program.set_autoload(keep);
            }
        }
        let mut skel = open.load().context("load the socket conditions program")?;
        let setter = ssthresh_alone.then(|| skel.maps.ssthresh_setter.attach_struct_ops()).transpose();
        let setter = setter.context("register the algorithm that sets ssthresh")?;
        let folder = File::open(cgroup.path()).context("open the cgroup")?;
        let program = skel.progs.tccc_conditions.attach_cgroup(folder.as_raw_fd());
        Ok(SocketConditions {
            _program: program.context("attach the socket conditions program to the cgroup")?,
            _setter: setter,
            senders: MapHandle::try_from(&skel.maps.tccc_senders).context("keep the map of senders")?,
        })
    }

    /// Requests a flow's conditions for the socket that will bind `port` in `netns`.
    ///
    /// Errors: too many flows at once.
    pub fn ask(&self, netns: &Netns, port: u16, flow: &FlowSpec) -> Result<()> {
        let mut value = [0_u8; CONDITIONS_BYTES];
        let asked = [flow.window_cap, flow.initial_ssthresh, flow.initial_cwnd];
        for (place, number) in value.chunks_exact_mut(4).zip(asked) {
            place.copy_from_slice(&number.unwrap_or(0).to_ne_bytes());
        }
        self.senders
            .update(&key(netns, port)?, &value, MapFlags::ANY)
            .with_context(|| format!("ask for the conditions of flow \"{}\"", flow.name))
    }

    /// Checks that a flow got its conditions at one or more of its ports, and removes the requests.
    ///
    /// Errors: the kernel refused a condition; no connection used a port.
    pub fn confirm(&self, netns: &Netns, ports: Range<u16>, flow: &FlowSpec) -> Result<()> {
        let mut applied = 0;
        for port in ports {
            let key = key(netns, port)?;
            let value = self.senders.lookup(&key, MapFlags::ANY).context("read what became of the conditions")?;
            let value =
                value.ok_or_else(|| anyhow!("the conditions of flow \"{}\" were never requested", flow.name))?;
            self.senders.delete(&key).context("forget the conditions")?;
            let number = |at: usize| u32::from_ne_bytes(value[at..at + 4].try_into().expect("four bytes"));
            let (met, error) = (number(12), number(16) as i32);
            if error != 0 {
                let why = Errno::from_raw(-error).desc().to_lowercase();
                bail!("the kernel refused the socket conditions of flow \"{}\": {why}", flow.name)
            }
            applied += met;
        }
        ensure!(applied != 0, "no connection of flow \"{}\" met its socket conditions", flow.name);
        Ok(())
    }
}

/// The helper algorithm must end with this process, and only a link does so after a kill.
fn require_links() -> Result<()> {
    if Features::probe()?.links {
        return Ok(());
    }
    let what = "cannot set initial_ssthresh without a window_cap: this kernel has no struct_ops links (Linux 6.4)";
    let hint = "give the flow a window_cap, leave initial_ssthresh out, or use a newer kernel";
    Err(Failure::unmet(what).hint(hint).into())
}

fn copy_name(to: &mut [libc::c_char], name: &str) {
    to.fill(0);
    for (to, from) in to.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
}

fn key(netns: &Netns, port: u16) -> Result<[u8; SENDER_BYTES]> {
    let mut key = [0; SENDER_BYTES];
    key[..8].copy_from_slice(&netns.cookie()?.to_ne_bytes());
    key[8..].copy_from_slice(&u64::from(port).to_ne_bytes());
    Ok(key)
}
