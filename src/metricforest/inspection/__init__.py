"""Questions to a learned metric: why, how sure, what to label next, which threshold."""
