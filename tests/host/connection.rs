//! A connection of an algorithm of `bpf/cc`, with its private fields by name.

use std::ops::{Deref, DerefMut};

use tccc::author::ring::connection;
use tccc::catalog::{self, Value};

use crate::native::{self, Native};

/// A connection with its clock; it begins with a full window in flight.
pub struct Connection<'n> {
    connection: connection::Connection<'n>,
    id: &'n str,
}

/// Its own copy of an algorithm, with these settings.
pub fn tuned(id: &str, settings: &[&str]) -> Native {
    let mut native = native::own(id);
    for setting in catalog::find(id).unwrap().settings(settings).unwrap() {
        native.set(&setting.name, &setting.bytes);
    }
    native
}

impl Connection<'static> {
    /// With the defaults.
    pub fn of(id: &str, cwnd: u32, ssthresh: u32) -> Self {
        Connection::over(native::find(id), cwnd, ssthresh)
    }
}

impl<'n> Connection<'n> {
    pub fn over(native: &'n Native, cwnd: u32, ssthresh: u32) -> Self {
        Connection { connection: connection::Connection::over(native, cwnd, ssthresh), id: &native.id }
    }

    /// A field of the private state, by the name that `tccc show` gives.
    pub fn field(&self, name: &str) -> u64 {
        let private = self.kernel.cc.private();
        let fields = catalog::find(self.id).unwrap().layout.decode(&private);
        match fields.into_iter().find(|(field, _)| *field == name) {
            Some((_, Value::Unsigned(value))) => value,
            other => panic!("{name} of {} is {other:?}", self.id),
        }
    }
}

impl<'n> Deref for Connection<'n> {
    type Target = connection::Connection<'n>;

    fn deref(&self) -> &Self::Target {
        &self.connection
    }
}

impl DerefMut for Connection<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.connection
    }
}
