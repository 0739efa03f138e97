"""Which operators share a kernel, beyond what TVM's own fusion joins."""
