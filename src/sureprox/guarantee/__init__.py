"""Why an answer can be trusted whatever the optimizer does: tracks beside it, and bounds that follow from them."""

from sureprox.guarantee.audited import Audited
from sureprox.guarantee.certified import Certified
from sureprox.guarantee.cheap import CertifiedCheap
from sureprox.guarantee.guaranteed import Track

__all__ = ["Audited", "Certified", "CertifiedCheap", "Track"]
