"""Recurrent layers over sequences of any length."""
