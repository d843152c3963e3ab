"""The whole solve of least squares with a separable penalty on working sets."""
