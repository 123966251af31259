//! Flows that go on until they are told to end, each byte compared with what was sent.
