"""Complex numbers that depend on inputs: pairs of real tensors, and what is computed of them."""
