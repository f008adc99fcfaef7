"""offmap study: the paper's experiments, the baselines beside them, and harder ones; one JSON line per cell."""
