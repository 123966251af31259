//! Sets the socket conditions of a scenario's flows with a sock_ops program: window cap, initial ssthresh and cwnd of
//! senders, and the algorithm of receivers that need the sender's.

use std::fs::File;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, anyhow, bail, ensure};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, OpenObject};
use nix::errno::Errno;
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::scenario::FlowSpec;
use shared::c_text::padded;
use shared::failure::Failure;
use shared::kernel::cgroup::RunCgroup;
use shared::kernel::netns::Netns;
use shared::kernel::probe::Features;

mod skel {
    #![allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated")]
    include!(concat!(env!("OUT_DIR"), "/conditions.skel.rs"));
}
use skel::types::{conditions, flow_end, receiver};

/// The attached program. It is detached when this is dropped and when the process ends.
pub struct SocketConditions {
    _program: Link,
    _setter: Option<Link>,
    senders: MapHandle,
    receivers: MapHandle,
}

impl SocketConditions {
    /// Loads the program and attaches it to the cgroup of the experiment's processes.
    ///
    /// `ssthresh_alone`: some flow sets an initial ssthresh without a window cap, which needs a helper algorithm.
    ///
    /// Side effects: a program on the cgroup and, if needed, a registered algorithm; they live as long as the result.
    ///
    /// # Errors
    /// Not permitted; the kernel refuses the program; it lacks struct_ops links for the helper.
    pub fn attach(cgroup: &RunCgroup, ssthresh_alone: bool) -> Result<Self> {
        let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
        let mut open =
            skel::ConditionsSkelBuilder::default().open(&mut storage).context("open the socket conditions program")?;
        if ssthresh_alone {
            require_links()?;
            // Algorithm names are global, and another tccc may be active. Letters, digits, _ and . are allowed.
            let name = format!("tccc_ss{}", std::process::id());
            let raw = open.struct_ops.ssthresh_setter_mut();
            raw.name = padded(&name);
            let bss = open.maps.bss_data.as_mut().ok_or_else(|| anyhow!("the program has no place for its name"))?;
            bss.setter_name = padded(&name);
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
            receivers: MapHandle::try_from(&skel.maps.tccc_receivers).context("keep the map of receivers")?,
        })
    }

    /// Requests a flow's conditions for the socket that will bind `port` in `netns`.
    ///
    /// # Errors
    /// Too many flows at once.
    pub fn ask(&self, netns: &Netns, port: u16, flow: &FlowSpec) -> Result<()> {
        let asked = conditions {
            window_cap: flow.window_cap.unwrap_or(0),
            initial_ssthresh: flow.initial_ssthresh.unwrap_or(0),
            initial_cwnd: flow.initial_cwnd.unwrap_or(0),
            ..conditions::default()
        };
        self.senders
            .update(key(netns, port)?.as_bytes(), asked.as_bytes(), MapFlags::ANY)
            .with_context(|| format!("ask for the conditions of flow \"{}\"", flow.name))
    }

    /// Gives all connections that `port` accepts in `netns` the algorithm, and negotiates ECN for them.
    ///
    /// # Errors
    /// Too many flows at once.
    pub fn give_receiver(&self, netns: &Netns, port: u16, algorithm: &str) -> Result<()> {
        let asked = receiver { algorithm: padded(algorithm), ..receiver::default() };
        let key = key(netns, port)?;
        let given = self.receivers.update(key.as_bytes(), asked.as_bytes(), MapFlags::ANY);
        given.with_context(|| format!("ask for \"{algorithm}\" at a receiver"))
    }

    /// Checks that a receiver got its algorithm, and removes the request.
    ///
    /// # Errors
    /// The kernel refused the algorithm; no connection was accepted.
    pub fn confirm_receiver(&self, netns: &Netns, port: u16, flow: &FlowSpec) -> Result<()> {
        let key = key(netns, port)?;
        let value = self.receivers.lookup(key.as_bytes(), MapFlags::ANY).context("read what the receiver got")?;
        self.receivers.delete(key.as_bytes()).context("forget the receiver")?;
        match value.and_then(|value| receiver::read_from_bytes(&value).ok()) {
            Some(receiver { error: 0, applied: 1.., .. }) => Ok(()),
            Some(got @ receiver { error: -4095..=-1, .. }) => {
                let why = Errno::from_raw(-got.error).desc().to_lowercase();
                bail!("the kernel refused the algorithm at the receiver of flow \"{}\": {why}", flow.name)
            }
            _ => bail!("the receiver of flow \"{}\" did not get its algorithm", flow.name),
        }
    }

    /// Checks that a flow got its conditions at one or more of its ports, and removes the requests.
    ///
    /// # Errors
    /// The kernel refused a condition; no connection used a port.
    pub fn confirm(&self, netns: &Netns, ports: Range<u16>, flow: &FlowSpec) -> Result<()> {
        let mut applied = 0;
        for port in ports {
            let key = key(netns, port)?;
            let value =
                self.senders.lookup(key.as_bytes(), MapFlags::ANY).context("read what became of the conditions")?;
            let value = value.and_then(|value| conditions::read_from_bytes(&value).ok());
            let conditions { applied: met, error, .. } =
                value.ok_or_else(|| anyhow!("the conditions of flow \"{}\" were never requested", flow.name))?;
            self.senders.delete(key.as_bytes()).context("forget the conditions")?;
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

fn key(netns: &Netns, port: u16) -> Result<flow_end> {
    Ok(flow_end { netns_cookie: netns.cookie()?, local_port: port.into() })
}
