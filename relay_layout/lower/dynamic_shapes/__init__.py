"""Dynamic shapes: images and batches of symbolic extents, lowered to kernels with static tiles."""
