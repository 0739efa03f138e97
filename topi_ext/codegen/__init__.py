"""From scheduled loops to LLVM: passes and operations that TVM's own code generation lacks."""
