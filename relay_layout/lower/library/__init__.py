"""From scheduled loops to a shared library: code generation and linking."""
