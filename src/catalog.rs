//! Which algorithms exist: read from the BTF of the embedded objects.
