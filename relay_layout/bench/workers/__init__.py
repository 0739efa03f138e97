"""Processes that run one peer each, and measuring them in turns."""
