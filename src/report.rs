//! Result directories to tables and plots; runs nothing.
