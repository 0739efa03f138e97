"""Images and batches whose sizes are known at run time, as kernels of known sizes take them."""
