"""What kernels compute, apart from how: workloads, forms of them, and what follows from them for loops."""
