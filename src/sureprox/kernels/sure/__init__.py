"""The step of Sure."""
