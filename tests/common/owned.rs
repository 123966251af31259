//! A process that a test started and answers for.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Output};

/// A process of a test, killed when it is dropped: a test that failed leaves nobody who holds its file systems.
#[derive(Debug)]
pub struct Owned(Option<Child>);

impl From<Child> for Owned {
    fn from(child: Child) -> Self {
        Owned(Some(child))
    }
}

impl Owned {
    /// Waits until it ends; what it wrote into its pipes.
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
