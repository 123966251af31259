// The type of a dashboard of time series, made of Grafana's own published types. `cargo xtask dist` type-checks its
// dashboard as `Checked`: a key that is misspelt, missing or of another type is an error.

import type { AnnotationQuery, Dashboard, DataQuery, DataSourceRef, Panel, RowPanel } from "@grafana/schema";
import type { FieldConfig, Options } from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

/** The same type with enumerations as plain strings, as in JSON. */
type Plain<T> = T extends string ? `${T}` : T extends (infer E)[] ? Plain<E>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;

/** A query as the editor for Prometheus saves it. */
interface Query extends DataQuery {
  datasource: DataSourceRef;
  expr: string;
  legendFormat: string;
  range: boolean;
}

type Defaults = Omit<NonNullable<Panel["fieldConfig"]>["defaults"], "custom"> & { custom: FieldConfig };

interface TimeSeries extends Omit<Panel, "fieldConfig" | "options" | "targets" | "type"> {
  type: "timeseries";
  fieldConfig: { defaults: Defaults; overrides: never[] };
  options: Options;
  targets: Query[];
}

/** A heading above panels. */
interface Row extends Omit<RowPanel, "panels"> {
  panels: never[];
}

/** Lines across the panels, from a query to Prometheus. */
interface Annotation extends AnnotationQuery {
  expr: string;
  titleFormat: string;
}

export type Checked = Plain<Omit<Dashboard, "annotations" | "panels"> & { annotations: { list: Annotation[] }; panels: (TimeSeries | Row)[] }>;
