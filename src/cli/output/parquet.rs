//! An event stream as Parquet, for pandas and polars: the columns of the CSV, each with its own type.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::columns::{COLUMNS, EventColumn, EventRow};
use crate::trace::event::{FieldType, FieldValue};

/// Rows in a row group.
const GROUP_ROWS: usize = 65_536;

#[derive(Debug)]
enum ColumnValues {
    Unsigned32(Vec<i32>),
    Unsigned64(Vec<i64>),
    Real(Vec<f64>),
    Truth(Vec<bool>),
    Text(Vec<ByteArray>),
}

#[derive(Debug)]
struct ColumnBuffer {
    values: ColumnValues,
    /// Parquet's definition levels: 1 for a row with a value, 0 for null.
    present: Vec<i16>,
}

/// The file is complete only after [`Writer::finish`].
pub struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<ColumnBuffer>,
    rows: usize,
}

impl ColumnValues {
    /// A column without values, with its physical and logical type in Parquet's schema language.
    fn of(kind: FieldType) -> (ColumnValues, &'static str, &'static str) {
        match kind {
            FieldType::U32 => (ColumnValues::Unsigned32(Vec::new()), "int32", "(INTEGER(32,false))"),
            FieldType::U64 => (ColumnValues::Unsigned64(Vec::new()), "int64", "(INTEGER(64,false))"),
            FieldType::Real => (ColumnValues::Real(Vec::new()), "double", ""),
            FieldType::Truth => (ColumnValues::Truth(Vec::new()), "boolean", ""),
            FieldType::Text => (ColumnValues::Text(Vec::new()), "binary", "(STRING)"),
        }
    }

    /// Returns false if the value has another type than the column.
    fn push(&mut self, value: &FieldValue) -> bool {
        match (self, value) {
            // Parquet stores unsigned numbers in the bits of signed ones.
            (ColumnValues::Unsigned32(values), FieldValue::U32(value)) => values.push(*value as i32),
            (ColumnValues::Unsigned64(values), FieldValue::U64(value)) => values.push(*value as i64),
            (ColumnValues::Real(values), FieldValue::Real(value)) => values.push((value * 1e6).round() / 1e6),
            (ColumnValues::Truth(values), FieldValue::Truth(value)) => values.push(*value),
            (ColumnValues::Text(values), value) => values.push(ByteArray::from(value.to_string().into_bytes())),
            _ => return false,
        }
        true
    }
}

impl<W: Write + Send> Writer<W> {
    pub fn begin(out: W) -> Result<Self> {
        let new = |column: &EventColumn| {
            let (values, physical, logical) = ColumnValues::of(column.kind);
            let field = format!("optional {physical} {} {logical};", column.name);
            (ColumnBuffer { values, present: Vec::new() }, field)
        };
        let (columns, fields): (Vec<ColumnBuffer>, Vec<String>) = COLUMNS.iter().map(new).unzip();
        let schema = parse_message_type(&format!("message event {{ {} }}", fields.join(" ")))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::LZ4_RAW)
            .set_created_by(format!("tccc {}", env!("CARGO_PKG_VERSION")))
            .build();
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).context("begin Parquet")?;
        Ok(Writer { file, columns, rows: 0 })
    }

    pub fn write(&mut self, row: &EventRow) -> io::Result<()> {
        for (column, shown) in self.columns.iter_mut().zip(COLUMNS.iter()) {
            // An empty text is written as null.
            let value = shown.value(row).filter(|value| *value != FieldValue::from(""));
            let is_present = value.is_some_and(|value| column.values.push(&value));
            column.present.push(is_present.into());
        }
        self.rows += 1;
        if self.rows == GROUP_ROWS { self.write_group().map_err(io_cause) } else { Ok(()) }
    }

    pub fn finish(mut self) -> Result<()> {
        self.write_group()?;
        self.file.close().map_err(|error| io_cause(error.into()))?;
        Ok(())
    }

    fn write_group(&mut self) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            let mut writer = group.next_column()?.context("write a column that the schema has")?;
            let present = std::mem::take(&mut column.present);
            match &mut column.values {
                ColumnValues::Unsigned32(values) => put::<Int32Type>(&mut writer, values, &present)?,
                ColumnValues::Unsigned64(values) => put::<Int64Type>(&mut writer, values, &present)?,
                ColumnValues::Real(values) => put::<DoubleType>(&mut writer, values, &present)?,
                ColumnValues::Truth(values) => put::<BoolType>(&mut writer, values, &present)?,
                ColumnValues::Text(values) => put::<ByteArrayType>(&mut writer, values, &present)?,
            }
            writer.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

fn put<T: DataType>(column: &mut SerializedColumnWriter<'_>, values: &mut Vec<T::T>, present: &[i16]) -> Result<()> {
    column.typed::<T>().write_batch(values, Some(present), None)?;
    values.clear();
    Ok(())
}

/// The I/O error inside an error of Parquet, so that callers recognise a closed pipe.
fn io_cause(error: anyhow::Error) -> io::Error {
    use parquet::errors::ParquetError;
    match error.downcast::<ParquetError>() {
        Ok(ParquetError::External(cause)) => match cause.downcast::<io::Error>() {
            Ok(cause) => *cause,
            Err(cause) => io::Error::other(cause),
        },
        Ok(error) => io::Error::other(error),
        Err(error) => io::Error::other(format!("{error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::catalog::{Phase, StateLayout};
    use crate::cli::output::naming::StateWords;
    use crate::model::live::samples::sample;
    use crate::trace::event::Event;

    #[test]
    fn rows_are_read_again_with_their_types() {
        let phases = vec![Phase { value: 0, name: "avoidance".into() }];
        let words = StateWords::of(StateLayout { size: 1, phases, fields: Vec::new() });
        let mut bytes = Vec::new();
        let mut writer = Writer::begin(&mut bytes).unwrap();
        for n in 0..GROUP_ROWS as u64 + 10 {
            let event = Event { socket: u64::MAX - n, srtt_us: (n > 0).then_some(u32::MAX), ..sample(1, n) };
            writer.write(&EventRow { event: &event, words: &words, given: None, time_s: n as f64 / 2.0 }).unwrap();
        }
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let place = |name: &str| COLUMNS.iter().position(|column| column.name == name).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!((rows.len(), reader.num_row_groups()), (GROUP_ROWS + 10, 2));
        assert_eq!(rows[3].get_ulong(place("socket")).unwrap(), u64::MAX - 3);
        assert_eq!(rows[3].get_uint(place("srtt_us")).unwrap(), u32::MAX);
        assert!(rows[0].get_uint(place("srtt_us")).is_err(), "an unknown value is null");
        assert_eq!(rows[9].get_double(place("time_s")).unwrap(), 4.5);
        assert_eq!(rows[9].get_string(place("phase")).unwrap(), "avoidance");
        assert!(!rows[9].get_bool(place("app_limited")).unwrap());
    }

    #[test]
    fn every_column_has_the_type_of_its_quantity() {
        let texts = COLUMNS.iter().filter(|column| column.kind == FieldType::Text).map(|column| column.name);
        let expected = "kind prior_ca_state local remote algorithm phase ca_state tcp_state rule arm state";
        assert_eq!(texts.collect::<Vec<_>>().join(" "), expected);
    }
}
