"""Examination of texts of others, as the gateway examines them."""

from skerry.policy.folding import FoldedText, fold
from skerry.policy.injection import Scan, scan

__all__ = ("FoldedText", "Scan", "fold", "scan")
