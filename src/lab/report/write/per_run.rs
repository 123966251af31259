//! The table of all runs as CSV and Parquet.

use anyhow::{Context, Result};

use crate::report::judge::per_run::RunTable;
use shared::event::FieldValue;
use tabular::ParquetWriter;

/// Numbers in full precision; a value that is unknown is an empty field.
pub fn csv(table: &RunTable) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(table.columns().iter().map(|(name, _)| name)).context("write CSV")?;
    let text = |value: Option<FieldValue<'_>>| match value {
        None => String::new(),
        Some(FieldValue::Real(value)) => value.to_string(),
        Some(value) => value.to_string(),
    };
    for row in table.rows() {
        writer.write_record(row.into_iter().map(text)).context("write CSV")?;
    }
    writer.into_inner().context("write CSV")
}

pub fn parquet(table: &RunTable) -> Result<Vec<u8>> {
    let (columns, mut bytes) = (table.columns(), Vec::new());
    let named = columns.iter().map(|(name, kind)| (name.as_str(), *kind));
    let mut writer = ParquetWriter::begin(&mut bytes, "run_value", named)?;
    for row in table.rows() {
        writer.write(row).context("write Parquet")?;
    }
    writer.finish()?;
    Ok(bytes)
}
