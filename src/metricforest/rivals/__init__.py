"""The metrics that the paper compares the hierarchy forest with."""

from .lmnn import LMNN

__all__ = ["LMNN"]
