"""Products with A: gradients and images of several points from one read."""
