"""The Python functions of operators: those of the table, compositions of them, and the caller's own."""
