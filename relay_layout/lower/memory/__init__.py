"""Where tensors lie: concatenations and slices without copies, planned memory, weights and workspace."""
