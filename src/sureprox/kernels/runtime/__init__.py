"""Building, keeping, loading and launching kernels; recording and replaying steps."""
