//! Who asked for a change of this host.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User, getuid};
use serde::{Deserialize, Serialize};

/// The kernel's value for a process that nobody's login started.
const NO_LOGIN: u32 = u32::MAX;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The folder whose declaration `tccc apply` applied. `None` for any other command.
    pub declaration: Option<PathBuf>,
    /// The user of the process.
    pub uid: u32,
    /// The user who logged in, also behind `sudo`. `None` for a service.
    pub login: Option<String>,
}

impl Requester {
    /// A command of this process.
    pub fn command() -> Self {
        Requester { declaration: None, uid: getuid().as_raw(), login: login() }
    }

    /// The declaration in a folder, which this process applies.
    pub fn declaration(folder: &Path) -> Self {
        Requester { declaration: Some(folder.to_owned()), ..Requester::command() }
    }

    /// For example `alice as root`, or `the declaration in /etc/tccc`.
    pub fn phrase(&self) -> String {
        let user = name_of(self.uid);
        match (&self.declaration, &self.login) {
            (Some(folder), _) => format!("the declaration in {}", folder.display()),
            (None, Some(login)) if *login != user => format!("{login} as {user}"),
            (None, _) => user,
        }
    }
}

/// The kernel's login uid comes first, because a program cannot change it.
fn login() -> Option<String> {
    let uid = fs::read_to_string("/proc/self/loginuid").ok().and_then(|text| text.trim().parse().ok());
    uid.filter(|uid| *uid != NO_LOGIN).map(name_of).or_else(|| env::var("SUDO_USER").ok())
}

fn name_of(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| format!("user {uid}"), |user| user.name)
}
