"""What Relay's own passes do, on Relax modules."""
