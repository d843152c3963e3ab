"""Certificates in float64."""
