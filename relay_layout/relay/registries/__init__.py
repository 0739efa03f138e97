"""What callers register for operators, and how their functions are asked."""
