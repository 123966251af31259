//! The rule and arm of a policy for each connection.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;

use anyhow::Result;

use super::arrival::{Fact, RuleArm};

/// The policy's labels of the connections of this host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labelled {
    /// Number of the arm of each labelled connection, by cookie.
    pub sockets: HashMap<u64, u32>,
    /// The arms; the first has number 1.
    pub names: Vec<RuleArm>,
}

/// Reads the labels of this host's policy. `None` without a policy.
pub type ReadArms = Box<dyn FnMut() -> Result<Option<Labelled>> + Send>;

/// The map of a policy's labels, for programs that read it in the kernel.
#[derive(Debug)]
pub struct LabelMap {
    /// The kernel's id of the map, which differs between policies.
    pub id: u32,
    pub map: OwnedFd,
    /// The arms; the first has number 1.
    pub names: Vec<RuleArm>,
    /// The arms of the current rules. Other arms belong to changed or removed rules.
    pub current: BTreeSet<RuleArm>,
}

/// Finds the labels of this host's policy. `None` without a policy.
pub type FindLabels = Box<dyn FnMut() -> Option<LabelMap> + Send>;

impl Labelled {
    /// The arm of a connection.
    ///
    /// None: no rule decided it, or its number has no name.
    pub fn arm(&self, socket: u64) -> Option<&RuleArm> {
        self.names.get(self.sockets.get(&socket)?.checked_sub(1)? as usize)
    }
}

/// Limit of remembered connections, because a hostile recording may name any number.
const KNOWN_MAX: usize = 400_000;

/// Arms of connections, learnt from a stream.
#[derive(Debug, Default)]
pub struct KnownArms(HashMap<u64, RuleArm>);

impl KnownArms {
    pub fn learn(&mut self, fact: &Fact) {
        match fact {
            Fact::Arm { socket, given: Some(given) } if self.0.len() < KNOWN_MAX || self.0.contains_key(socket) => {
                self.0.insert(*socket, given.clone());
            }
            Fact::Arm { socket, given: None } => self.forget(*socket),
            _ => {}
        }
    }

    pub fn forget(&mut self, socket: u64) {
        self.0.remove(&socket);
    }

    pub fn arm(&self, socket: u64) -> Option<&RuleArm> {
        self.0.get(&socket)
    }
}

/// Limit of remembered sockets: twice as many as are watched, because close events may be lost.
const MET_MAX: usize = 800_000;

/// Reports the arm of each watched socket once, and again when it changes.
pub(super) struct ArmBook {
    read: ReadArms,
    /// The watched sockets with their reported number. 0: none.
    met: HashMap<u64, u32>,
    names: Vec<RuleArm>,
}

impl ArmBook {
    pub(super) fn new(read: ReadArms) -> Self {
        ArmBook { read, met: HashMap::new(), names: Vec::new() }
    }

    /// Starts to report the arm of this socket.
    pub(super) fn meet(&mut self, socket: u64) {
        if self.met.len() >= MET_MAX {
            self.met.clear();
        }
        self.met.entry(socket).or_insert(0);
    }

    pub(super) fn leave(&mut self, socket: u64) {
        self.met.remove(&socket);
    }

    /// The arms of watched sockets that are new or have changed.
    ///
    /// # Errors
    /// The labels cannot be read.
    pub(super) fn read(&mut self) -> Result<Vec<Fact>> {
        if self.met.is_empty() {
            return Ok(Vec::new());
        }
        let labelled = (self.read)()?.unwrap_or_default();
        // A new policy gives the numbers another meaning.
        let is_renamed = !labelled.names.starts_with(&self.names);
        let mut facts = Vec::new();
        for (&socket, told) in &mut self.met {
            let given = labelled.arm(socket);
            let number = if given.is_some() { labelled.sockets[&socket] } else { 0 };
            if number != *told || (is_renamed && number != 0) {
                *told = number;
                facts.push(Fact::Arm { socket, given: given.cloned() });
            }
        }
        self.names = labelled.names;
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn arm(rule: &str, arm: &str) -> RuleArm {
        RuleArm { rule: rule.into(), arm: arm.into() }
    }

    fn labelled(sockets: &[(u64, u32)], names: &[RuleArm]) -> Labelled {
        Labelled { sockets: sockets.iter().copied().collect(), names: names.to_vec() }
    }

    /// The reported arms, sorted by socket.
    fn told(book: &mut ArmBook) -> Vec<(u64, Option<RuleArm>)> {
        let mut told: Vec<_> = book
            .read()
            .unwrap()
            .into_iter()
            .map(|fact| match fact {
                Fact::Arm { socket, given } => (socket, given),
                other => panic!("{other:?}"),
            })
            .collect();
        told.sort();
        told
    }

    #[test]
    fn each_arm_is_told_once_and_again_when_it_changes() {
        let host = Arc::new(Mutex::new(None));
        let read = Arc::clone(&host);
        let mut book = ArmBook::new(Box::new(move || Ok(read.lock().unwrap().clone())));
        let names = [arm("web", "dtcp"), arm("web", "keep")];
        book.meet(1);
        book.meet(2);
        assert_eq!(told(&mut book), [], "there is no policy");
        *host.lock().unwrap() = Some(labelled(&[(1, 1), (2, 2), (3, 1)], &names));
        assert_eq!(told(&mut book), [(1, Some(names[0].clone())), (2, Some(names[1].clone()))], "nobody watches 3");
        assert_eq!(told(&mut book), []);
        *host.lock().unwrap() = Some(labelled(&[(1, 2)], &names));
        assert_eq!(told(&mut book), [(1, Some(names[1].clone())), (2, None)]);
        book.leave(1);
        let other = [arm("mail", "reno"), arm("mail", "keep")];
        book.meet(4);
        *host.lock().unwrap() = Some(labelled(&[(1, 2), (2, 1), (4, 9)], &other));
        assert_eq!(told(&mut book), [(2, Some(other[0].clone()))], "number 9 has no meaning");
        let longer = [other[0].clone(), other[1].clone(), arm("dns", "keep")];
        *host.lock().unwrap() = Some(labelled(&[(2, 1)], &longer));
        assert_eq!(told(&mut book), [], "a name was added");
        *host.lock().unwrap() = Some(labelled(&[(2, 1)], &names));
        assert_eq!(told(&mut book), [(2, Some(names[0].clone()))], "the same number of another policy");
    }
}
