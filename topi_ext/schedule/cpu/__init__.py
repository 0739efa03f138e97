"""Schedule rules for CPUs with vector units."""
