//! A table of typed columns as Parquet, for pandas, polars and DuckDB.
//!
//! A build without the feature `parquet` refuses it. The demo is such a build, so that its first table comes sooner.

#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
pub use parquet::ParquetWriter;

#[cfg(not(feature = "parquet"))]
mod refused;
#[cfg(not(feature = "parquet"))]
pub use refused::ParquetWriter;
