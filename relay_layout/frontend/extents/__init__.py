"""What importers find out of extents: numbers where they are known, expressions of open ones elsewhere."""
