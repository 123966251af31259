//! The writer, by the crate `parquet`.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use shared::event::{FieldType, FieldValue};

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

/// The file is complete only after [`ParquetWriter::finish`].
pub struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<ColumnBuffer>,
    rows: usize,
}

impl ColumnValues {
    /// A column without values, with its physical and logical type in Parquet.
    fn of(kind: FieldType) -> (ColumnValues, PhysicalType, Option<LogicalType>) {
        let unsigned = |bits| Some(LogicalType::integer(bits, false));
        match kind {
            FieldType::U32 => (ColumnValues::Unsigned32(Vec::new()), PhysicalType::INT32, unsigned(32)),
            FieldType::U64 => (ColumnValues::Unsigned64(Vec::new()), PhysicalType::INT64, unsigned(64)),
            FieldType::Real => (ColumnValues::Real(Vec::new()), PhysicalType::DOUBLE, None),
            FieldType::Truth => (ColumnValues::Truth(Vec::new()), PhysicalType::BOOLEAN, None),
            FieldType::Text => (ColumnValues::Text(Vec::new()), PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        }
    }

    /// Returns false if the value has another type than the column.
    fn push(&mut self, value: &FieldValue) -> bool {
        match (self, value) {
            // Parquet stores unsigned numbers in the bits of signed ones.
            (ColumnValues::Unsigned32(values), FieldValue::U32(value)) => values.push(*value as i32),
            (ColumnValues::Unsigned64(values), FieldValue::U64(value)) => values.push(*value as i64),
            (ColumnValues::Real(values), FieldValue::Real(value)) => values.push(*value),
            (ColumnValues::Truth(values), FieldValue::Truth(value)) => values.push(*value),
            (ColumnValues::Text(values), value) => values.push(ByteArray::from(value.to_string().into_bytes())),
            _ => return false,
        }
        true
    }
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a table whose rows are called `row`, with columns of these names and types.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn begin<'n>(out: W, row: &str, columns: impl IntoIterator<Item = (&'n str, FieldType)>) -> Result<Self> {
        let (columns, fields): (Vec<ColumnBuffer>, Vec<Type>) = columns
            .into_iter()
            .map(|(name, kind)| {
                let (values, physical, logical) = ColumnValues::of(kind);
                let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
                let field = field.with_logical_type(logical).build()?;
                Ok((ColumnBuffer { values, present: Vec::new() }, field))
            })
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .unzip();
        let fields = fields.into_iter().map(Arc::new).collect();
        let schema = Type::group_type_builder(row).with_fields(fields).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::LZ4_RAW)
            .set_created_by(format!("tccc {}", env!("CARGO_PKG_VERSION")))
            .build();
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).context("begin Parquet")?;
        Ok(ParquetWriter { file, columns, rows: 0 })
    }

    /// Writes a row.
    ///
    /// Shape: one value per column. An empty text, and a value of another type than its column, are written as null.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write<'v>(&mut self, row: impl IntoIterator<Item = Option<FieldValue<'v>>>) -> io::Result<()> {
        for (column, value) in self.columns.iter_mut().zip(row) {
            let value = value.filter(|value| *value != FieldValue::from(""));
            let is_present = value.is_some_and(|value| column.values.push(&value));
            column.present.push(is_present.into());
        }
        self.rows += 1;
        if self.rows == GROUP_ROWS { self.write_group().map_err(io_cause) } else { Ok(()) }
    }

    /// # Errors
    /// `out` cannot be written.
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

    #[test]
    fn rows_are_read_again_with_their_types() {
        let columns = [
            ("socket", FieldType::U64),
            ("srtt_us", FieldType::U32),
            ("time s", FieldType::Real), // a sweep variable may have any name
            ("phase", FieldType::Text),
            ("app_limited", FieldType::Truth),
        ];
        let mut bytes = Vec::new();
        let mut writer = ParquetWriter::begin(&mut bytes, "event", columns).unwrap();
        for n in 0..GROUP_ROWS as u64 + 10 {
            let row = [
                Some(FieldValue::U64(u64::MAX - n)),
                (n > 0).then_some(FieldValue::U32(u32::MAX)),
                Some(FieldValue::Real(n as f64 / 2.0)),
                Some(FieldValue::from(if n == 2 { "" } else { "avoidance" })),
                Some(FieldValue::Truth(false)),
            ];
            writer.write(row).unwrap();
        }
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!((rows.len(), reader.num_row_groups()), (GROUP_ROWS + 10, 2));
        assert_eq!(rows[3].get_ulong(0).unwrap(), u64::MAX - 3);
        assert_eq!(rows[3].get_uint(1).unwrap(), u32::MAX);
        assert!(rows[0].get_uint(1).is_err() && rows[2].get_string(3).is_err(), "an unknown value is null");
        assert_eq!(rows[9].get_double(2).unwrap(), 4.5);
        assert_eq!(rows[9].get_string(3).unwrap(), "avoidance");
        assert!(!rows[9].get_bool(4).unwrap());
    }
}
