"""The metrics that the paper compares the hierarchy forest with."""
