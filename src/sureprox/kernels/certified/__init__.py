"""Certified iterations."""
