"""What expressions of the syntax tree mean, and changed copies of them."""
