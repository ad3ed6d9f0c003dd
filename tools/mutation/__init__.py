"""Mutation testing of the data plane's concurrent code; see tools/mutate."""
