//! A child process that ends with the test that started it.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Output};

/// Killed when dropped, so that a failed test leaves no process that holds its file systems.
#[derive(Debug)]
pub struct Owned(Option<Child>);

impl From<Child> for Owned {
    fn from(child: Child) -> Self {
        Owned(Some(child))
    }
}

impl Owned {
    /// Waits until the process ends, and returns what it wrote into its pipes.
    pub fn output(mut self) -> Output {
        let child = self.0.take().expect("it is taken once");
        child.wait_with_output().expect("its output can be read")
    }
}

impl Deref for Owned {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it is not taken")
    }
}

impl DerefMut for Owned {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is not taken")
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
