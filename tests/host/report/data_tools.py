"""Reads the tidy table of runs with pandas, polars and DuckDB, from CSV and Parquet.

Prints the mean goodput of each variant at each loss, as each tool has it from each file.
"""

import json
import sys

import duckdb
import pandas
import polars

csv, parquet = sys.argv[1:]


def by_pandas(rows):
    of_runs = rows[(rows.metric == "goodput_bps") & rows.flow.isna()]
    return of_runs.groupby(["loss", "variant"]).value.mean().reset_index().values.tolist()


def by_polars(rows):
    of_runs = rows.filter((polars.col("metric") == "goodput_bps") & polars.col("flow").is_null())
    return [list(row) for row in of_runs.group_by("loss", "variant").agg(polars.col("value").mean()).rows()]


def by_duckdb(file):
    where = f"from '{file}' where metric = 'goodput_bps' and flow is null group by loss, variant"
    return [list(row) for row in duckdb.sql(f"select loss, variant, avg(value) {where}").fetchall()]


tables = {
    "pandas csv": pandas.read_csv(csv),
    "pandas parquet": pandas.read_parquet(parquet),
}
means = {name: by_pandas(rows) for name, rows in tables.items()}
means["polars csv"] = by_polars(polars.read_csv(csv, infer_schema_length=None))
means["polars parquet"] = by_polars(polars.read_parquet(parquet))
means["duckdb csv"] = by_duckdb(csv)
means["duckdb parquet"] = by_duckdb(parquet)
types = {name: [str(rows[column].dtype) for column in ["seed", "repeat", "value", "cut_off"]] for name, rows in tables.items()}
json.dump({"means": means, "types": types}, sys.stdout)
