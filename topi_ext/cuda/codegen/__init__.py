"""From scheduled loops to machine code of GPUs: instructions, passes that TVM lacks, and nvcc."""
