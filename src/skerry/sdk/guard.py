"""Detection of prompt injections in untrusted text, as the gateway does it."""

from skerry.policy.folding import FoldedText, fold
from skerry.policy.injection import Scan, scan

__all__ = ("FoldedText", "Scan", "fold", "scan")
