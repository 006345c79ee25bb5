"""Warnings that point at the line that called the library, however deep inside they arise."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

HERE = str(Path(__file__).parent)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """`warnings.warn` at the nearest caller outside this package."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
