"""Finishing on the support."""
