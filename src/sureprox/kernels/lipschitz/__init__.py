"""Estimates of L."""
