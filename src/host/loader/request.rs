//! Requests to register an algorithm, and the first record of each registration.

use std::path::Path;
use std::time::SystemTime;

use anyhow::Result;

use crate::state::{Attachment, Owner, RECORD_SCHEMA, Record, Requester};
use shared::catalog::{Algorithm, Setting};
use shared::failure::Failure;
use shared::kernel::cgroup;
use shared::kernel::device::devices;
use shared::kernel::netns::Netns;

#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// From the catalogue or a user's file.
    pub algorithm: &'a Algorithm,
    /// The name in the kernel.
    pub name: &'a str,
    /// Tunables that differ from their defaults.
    pub settings: &'a [Setting],
    /// The user's object file. `None` for an algorithm of the catalogue.
    pub file: Option<&'a Path>,
    /// The cgroup of the companion program. `None` for every socket of this host.
    pub cgroup: Option<&'a Path>,
}

impl<'a> Request<'a> {
    /// The algorithm under its id with its defaults.
    pub fn of(algorithm: &'a Algorithm) -> Self {
        Request { algorithm, name: &algorithm.id, settings: &[], file: None, cgroup: None }
    }
}

pub(super) fn record_of(request: &Request, map_id: u32) -> Record {
    let algorithm = request.algorithm;
    Record {
        schema: RECORD_SCHEMA,
        name: request.name.to_owned(),
        algorithm: algorithm.id.clone(),
        title: algorithm.title.clone(),
        // A later upgrade may run in another folder.
        file: request.file.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_owned())),
        digest: algorithm.digest(),
        tunables: request.settings.iter().map(|setting| (setting.name.clone(), setting.value)).collect(),
        since: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        by: Some(Requester::command()),
        generation: 1,
        owner: Owner::this_process(),
        map_id,
        layout: algorithm.layout.clone(),
        ..Record::default()
    }
}

/// `None` if the algorithm needs no companion.
///
/// # Errors
/// Cgroup v2 is not mounted; no such cgroup; a cgroup was given without a companion in one.
pub(super) fn companion_place(request: &Request) -> Result<Option<Attachment>> {
    let Some(companion) = &request.algorithm.companion else {
        if request.cgroup.is_some() {
            let what = format!("\"{}\" has no companion program, so there is nothing to attach", request.algorithm.id);
            return Err(Failure::usage(what).hint("leave `--cgroup` out").into());
        }
        return Ok(None);
    };
    let program = companion.program.clone();
    if companion.is_at_egress() {
        if request.cgroup.is_some() {
            let what = format!("the companion of \"{}\" is attached to network devices", request.algorithm.id);
            return Err(Failure::usage(what).hint("leave `--cgroup` out").into());
        }
        let devices = devices()?.into_iter().map(|device| device.name).collect();
        return Ok(Some(Attachment { program, cgroup: None, devices, netns: Some(Netns::current()?.inode()) }));
    }
    let cgroup = match request.cgroup {
        Some(path) => cgroup::resolve(path)?,
        None => cgroup::root()?,
    };
    Ok(Some(Attachment { program, cgroup: Some(cgroup), devices: Vec::new(), netns: None }))
}

/// # Errors
/// Too long, or with characters that the kernel does not accept.
pub fn check_name(name: &str) -> Result<(), Failure> {
    shared::catalog::check_name(name).map_err(Failure::usage)
}
