//! Stands for the writer in a build without Parquet.

use std::convert::Infallible;
use std::io::{self, Write};
use std::marker::PhantomData;

use anyhow::Result;

use shared::event::{FieldType, FieldValue};
use shared::failure::Failure;

/// Never exists.
pub struct ParquetWriter<W: Write + Send> {
    never: Infallible,
    out: PhantomData<W>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// # Errors
    /// Always.
    pub fn begin<'n>(_: W, _: &str, _: impl IntoIterator<Item = (&'n str, FieldType)>) -> Result<Self> {
        let refusal = Failure::usage("cannot write Parquet: this tccc was built without it");
        Err(refusal.hint("choose CSV, or build with `--features parquet`").into())
    }

    /// # Errors
    /// None: no writer exists.
    pub fn write<'v>(&mut self, _: impl IntoIterator<Item = Option<FieldValue<'v>>>) -> io::Result<()> {
        match self.never {}
    }

    /// # Errors
    /// None: no writer exists.
    pub fn finish(self) -> Result<()> {
        match self.never {}
    }
}
