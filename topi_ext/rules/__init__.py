"""Which rule schedules a function: the rules of each kind of target, and that of convolutions with knobs."""
