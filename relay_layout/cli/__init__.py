"""The command line: one module per verb, and what they share.

Parsing stands apart from work: TVM is imported only when a verb begins to work, so that help and
mistakes in the arguments are answered at once.
"""
