"""Many cheap scores (views) of an observation, fused into one without labels."""
