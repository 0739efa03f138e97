"""Records of measured kernels: as they are written, read, ranked and looked up."""
