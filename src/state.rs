//! What tccc has done to this host, and how to undo it.
