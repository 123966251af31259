//! A connection of an algorithm of `bpf/cc`, with its private fields by name.

use std::ops::{Deref, DerefMut};

use tccc::author::ring::connection;

use crate::algorithms::native::{self, Native};

/// A connection with its clock; it begins with a full window in flight.
pub struct Connection<'n> {
    connection: connection::Connection<'n>,
    id: &'n str,
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
        native::field(&self.kernel.cc, self.id, name)
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
