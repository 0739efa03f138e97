"""Operators as computes: which compute a call becomes on each kind of target."""
