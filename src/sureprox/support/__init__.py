"""Finishing on the support: small linear systems once it is nearly known, and the path of tiny problems."""
