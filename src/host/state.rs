//! Records what tccc did to this host and how to undo it: one record per algorithm under `/run/tccc`.
//!
//! A record is written before the host is changed, and removed after the change is undone. A process that is killed between
//! any two steps leaves nothing, or something that `tccc status` lists and `tccc unload --all` removes.

mod lock;
pub mod pins;
mod record;
mod requester;
mod store;

pub use lock::{LockSubject, Locked, SharedLock, is_held};
pub use record::{Attachment, Code, DeclaredIn, Owner, RECORD_SCHEMA, Record, Unconfirmed};
pub use requester::Requester;
pub use store::{FOLDER, Store};

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use shared::kernel::process::Process;

    fn store() -> (TempDir, Store) {
        let place = tempfile::tempdir().unwrap();
        let store = Store::at(&place.path().join("tccc"));
        (place, store)
    }

    fn record(name: &str) -> Record {
        Record {
            schema: RECORD_SCHEMA,
            name: name.into(),
            tunables: BTreeMap::from([("keep".into(), 3)]),
            previous_default: Some("cubic".into()),
            owner: Owner::this_process(),
            ..Record::default()
        }
    }

    #[test]
    fn records_come_back_sorted_and_leave_no_folder() {
        let (_place, store) = store();
        let [one, two] = ["one", "two"].map(|name| store.lock_name(name).unwrap());
        two.create(&record("two")).unwrap();
        one.create(&record("one")).unwrap();
        assert_eq!(store.records(), [record("one"), record("two")]);
        assert_eq!(store.record("two"), Some(record("two")));
        one.remove("one").unwrap();
        drop(one);
        two.remove("two").unwrap();
        two.remove("two").unwrap();
        drop(two);
        assert!(!store.folder().exists());
    }

    #[test]
    fn unfinished_and_foreign_files_are_no_records() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::at(place.path());
        fs::write(place.path().join("half.new"), "{").unwrap();
        fs::write(place.path().join("later.json"), r#"{"schema": 2}"#).unwrap();
        assert_eq!(store.records(), []);
        assert_eq!(store.names(), BTreeSet::from(["later".to_owned()])); // listed all the same, so that it can be removed
        drop(store.lock(LockSubject::Policy).unwrap());
        assert!(!place.path().join("half.new").exists());
        assert!(place.path().join("later.json").exists());
    }

    #[test]
    fn each_lock_is_held_by_one_at_a_time_and_keeps_nobody_from_another() {
        let (_place, store) = store();
        let name = |name: &str| LockSubject::Name(name.to_owned());
        let shared = [LockSubject::Policy, LockSubject::Trial, LockSubject::Default, LockSubject::Mount];
        let all = [&[name("one"), name("two")][..], &shared].concat();
        let held: Vec<Locked> = all.iter().map(|subject| store.try_lock(subject).unwrap().unwrap()).collect();
        assert!(all.iter().all(|subject| store.try_lock(subject).unwrap().is_none()));
        let refusal = store.lock_within(name("one"), Duration::from_millis(20)).unwrap_err();
        let own = std::process::id();
        assert!(is_held(&refusal));
        assert!(refusal.to_string().starts_with(&format!("cannot change \"one\": process {own} (")), "{refusal}");
        drop(held);
        assert!(!store.folder().exists());
        assert!(store.try_lock(&name("one")).unwrap().is_some());
    }

    #[test]
    fn shared_lock_is_held_by_several_and_keeps_the_subject_from_changing() {
        let (_place, store) = store();
        let share = || store.share_within(&LockSubject::Policy, Duration::from_millis(20));
        let held = [share().unwrap(), share().unwrap()];
        assert!(store.try_lock(&LockSubject::Policy).unwrap().is_none());
        assert!(store.try_lock(&LockSubject::Trial).unwrap().is_some());
        drop(held);
        let changing = store.lock(LockSubject::Policy).unwrap();
        let own = std::process::id();
        let refusal = share().unwrap_err();
        assert!(is_held(&refusal) && refusal.to_string().contains(&format!("process {own} (")), "{refusal}");
        drop(changing);
        drop(share().unwrap());
        assert!(!store.folder().exists());
    }

    /// Any user could take the lock of a folder that everybody can read, and keep every command from working.
    #[test]
    fn locks_are_for_their_owner_and_records_for_everybody() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_place, store) = store();
        let locked = store.lock_name("one").unwrap();
        locked.create(&record("one")).unwrap();
        let mode = |name: &str| fs::metadata(store.folder().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(["", "one.json", "locks"].map(mode), [0o755, 0o644, 0o700]);
        for lock in fs::read_dir(store.folder().join("locks")).unwrap().flatten() {
            assert_eq!(lock.metadata().unwrap().permissions().mode() & 0o077, 0, "{lock:?}");
        }
    }

    /// A process stopped between reading and writing a record used to undo what another process wrote meanwhile.
    #[test]
    fn remembered_default_is_changed_by_the_right_to_the_default_alone() {
        let (_place, store) = store();
        let locked = store.lock_name("one").unwrap();
        locked.create(&record("one")).unwrap();
        store.lock(LockSubject::Default).unwrap().remember("one", Some("reno".into())).unwrap();
        locked.write(&Record { generation: 2, ..record("one") }).unwrap();
        let now = store.record("one").unwrap();
        assert_eq!((now.generation, now.previous_default.as_deref()), (2, Some("reno")));
    }

    #[test]
    fn owner_that_is_gone_is_not_alive() {
        assert!(Owner::this_process().is_alive());
        let Owner::Process(own) = Owner::this_process() else { panic!("this process is no pin") };
        assert!(!Owner::Process(Process { started: own.started + 1, ..own }).is_alive());
    }

    /// A process that entered while the folder was removed used to fail with "no such file or directory".
    #[test]
    fn concurrent_lockers_all_succeed() {
        let (place, store) = store();
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let store = &store;
                scope.spawn(move || (0..3000).for_each(|_| drop(store.lock_name(&format!("dtcp{worker}")).unwrap())));
            }
        });
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "who left last removed the folder");
    }
}
