//! Open, set tunables, adapt to this kernel, load, register, unregister.
