"""The metrics that a file can name: saving a fitted one, loading it again.

A file names its class by `METRICS` only. What is loaded is what `_restore` of the class accepts; what is
saved has been loaded before it takes its place.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from joblib import cpu_count

from ..version import __version__
from ..warn import warn
from .format import Content, read, write
from .outputs import PathLike

METRICS = {  # class: the module of this package that has it
    "Blend": "blend",
    "BoostMetric": "rivals.boostmetric",
    "BoostedTreesDistance": "rivals.boosted",
    "DCA": "rivals.dca",
    "Euclidean": "rivals.euclidean",
    "GBLMNN": "rivals.gblmnn",
    "HierarchyForest": "hierarchy",
    "ITML": "rivals.itml",
    "LMNN": "rivals.lmnn",
    "NCA": "rivals.nca",
    "PairModel": "tables.pair_model",
    "RandomForestDistance": "rivals.rfd",
    "TableMetric": "tables.metric",
    "VectorForest": "vector_forest",
}
REFUSALS = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError)


def load(path: PathLike, *, mmap: bool = True, verify: bool = True) -> Any:
    """Read a metric that :meth:`Metric.save` has written.

    Nothing in a file is run, and reading takes no more memory than twice its size.

    Parameters
    ----------
    path : str or path-like
    mmap : bool, default=True
        Map the file into memory instead of reading it: processes that load the same file share one
        copy. The file must not be written to in place meanwhile; saving to it again is safe.
    verify : bool, default=True
        Compare the checksums of all arrays. Without it a damaged number may pass unnoticed; sizes,
        links between nodes and everything else that could lead astray is checked all the same.

    Returns
    -------
    metric : Metric
        Of the class that was saved, fitted.

    Raises
    ------
    ValueError
        If the file is truncated, damaged, of another kind or of a newer version.
    OSError
        If there is no file, or it may not be read.
    """
    try:
        content = read(path, mmap=mmap, verify=verify)
        metric = from_content(content)
    except REFUSALS as error:
        raise ValueError(f"cannot load {os.fspath(path)}: {str(error)[:500]}") from error
    return metric


def save(metric: Any, path: PathLike, overwrite: bool = False) -> None:
    """Write a fitted metric, or raise and leave what was there: what `load` refuses is not written."""

    def check(written: Path) -> None:
        try:
            from_content(read(written, verify=False))
        except REFUSALS as error:
            raise ValueError(
                f"cannot save to {os.fspath(path)}, load would refuse the file: {str(error)[:500]}"
            ) from error

    write(path, content_of(metric), check=check, overwrite=overwrite)


def content_of(metric: Any) -> Content:
    """What a file keeps of a fitted metric."""
    name = type(metric).__name__
    if name not in METRICS or metric_class(name) is not type(metric):
        raise TypeError(
            f"{type(metric).__module__}.{name} cannot be saved: a file can name the metrics of the "
            f"library only, {', '.join(METRICS)}"
        )
    return Content(name, __version__, params_of(metric), metric._state())


def params_of(metric: Any) -> dict[str, Any]:
    """The parameters that a file keeps; a generator becomes None, with a warning."""
    params = metric._params()
    for key, value in params.items():
        if isinstance(value, np.random.RandomState):
            params[key] = None
            warn(
                f"{key} is a generator, and a file does not keep its place: the loaded metric "
                f"will have {key}=None",
                UserWarning,
            )
    return params


def from_content(content: Content) -> Any:
    """The metric of which a file keeps this; ValueError unless there can be such a metric."""
    metric = unfitted(content)
    metric._restore(content.state)
    return metric


def unfitted(content: Content) -> Any:
    """The metric with its parameters only."""
    if content.class_name not in METRICS:
        raise ValueError(
            f"it holds a {content.class_name[:80]!r} written by metricforest "
            f"{content.library[:40]}; this is {__version__} and knows {', '.join(METRICS)}"
        )
    metric = metric_class(content.class_name)()
    unknown = sorted(set(content.params) - set(metric.get_params(deep=False)))
    if unknown:
        raise ValueError(
            f"it was written by metricforest {content.library[:40]}; this is "
            f"{__version__}, whose {content.class_name} does not know the parameters "
            f"{', '.join(unknown)[:200]}"
        )
    metric.set_params(**{**getattr(type(metric), "_once", {}), **content.params})
    jobs = content.params.get("n_jobs")
    if type(jobs) is int and jobs > cpu_count():
        metric.set_params(n_jobs=cpu_count())  # how many threads is for this machine to say
    return metric


def metric_class(name: str) -> Any:
    """A class of `METRICS`."""
    return getattr(importlib.import_module(f"..{METRICS[name]}", __package__), name)
