"""Faults on purpose, and what they must not do; see tools/faults."""
