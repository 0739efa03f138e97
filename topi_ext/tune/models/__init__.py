"""Models of how long kernels take: one learned from records, one of machine code and traffic."""
