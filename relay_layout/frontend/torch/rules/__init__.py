"""PyTorch's operations in terms of others, where there is no converter for them, by family.

A rule is written in PyTorch, so that its own rules of types and broadcasting hold; one that gives
NotImplemented leaves the operation as it is. Rules see shapes and types, no numbers.
"""
