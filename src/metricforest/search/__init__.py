"""Neighbours inside the metric: the index, exact and approximate search, vectors."""
