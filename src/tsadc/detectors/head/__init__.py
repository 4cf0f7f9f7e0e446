"""The scoring head: from an observation, and what a model does not explain of it, to one score."""
