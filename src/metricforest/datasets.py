"""The eight data sets of the paper: `load` finds them on this machine or fetches them from OpenML.

Looked for, in this order, as ``NAME.npz`` (arrays `X`, `y`, `class_names`, `feature_names`; for CIFAR
also `X_test`, `y_test` and the variances of the components):

1. the folder that the environment variable ``METRICFOREST_DATA`` names,
2. the user's cache, ``$XDG_CACHE_HOME/metricforest`` or ``~/.cache/metricforest``,
3. ``../shared/data`` beside a checkout of the project, unless the variable is set,
4. OpenML, after which the cache has it.

The balance scale needs none of these: it follows from its rule. Whatever the source, the shape and the
number of rows of every class must be as published.
"""

from __future__ import annotations

import io
import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .storage.outputs import replace_file
from .storage.values import BAD_ARRAYS

COMPONENTS = 300  # principal components of the CIFAR images that the paper works with
CIFAR_TRAIN = 50_000


@dataclass(frozen=True)
class Dataset:
    """Rows, classes and where they come from.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n, n_features), float64 (CIFAR: float32)
        The values as published, not scaled.
    y : ndarray of shape (n,), int64
        Classes from 0; `class_names[y]` names them.
    class_names, feature_names : tuple of str
    source : str
        Who made it.
    licence : str
    version : str
        Which of the versions in circulation this is.
    found : str
        Where it was found: a file, "OpenML" or "its rule".
    X_test, y_test : ndarray or None
        The published test part, where there is one.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    source: str
    licence: str
    version: str
    found: str
    X_test: np.ndarray | None = None
    y_test: np.ndarray | None = None


@dataclass(frozen=True)
class Published:
    """What is known of a data set: its class counts and features judge what is found."""

    source: str
    licence: str
    n_features: int
    versions: dict[str, tuple[int, ...]]  # rows per class, sorted; the paper's version first
    openml: int
    left_out: str = ""  # a column that OpenML has and the paper does not: constant, or an id
    n_test: int = 0


UCI = "UCI Machine Learning Repository, CC BY 4.0"
CIFAR = "none stated; its authors ask for a citation"
USPS_9298 = (708, 716, 792, 821, 824, 834, 852, 929, 1_269, 1_553)
USPS_VERSIONS = {
    "11,000 images (Roweis)": (1_100,) * 10,
    "9,298 images (7,291 + 2,007)": USPS_9298,
}
PUBLISHED = {
    "sonar": Published("Gorman and Sejnowski, 1988", UCI, 60, {"208 rows": (97, 111)}, 40),
    "ionosphere": Published(
        "Space Physics Group, Johns Hopkins University, 1989", UCI, 34, {"351 rows": (126, 225)}, 59
    ),
    "balance": Published(
        "Siegler 1976, Hume 1994", UCI, 4, {"625 rows, the full grid": (49, 288, 288)}, 11
    ),
    "segmentation": Published(
        "Vision Group, University of Massachusetts, 1990",
        UCI,
        18,
        {"2,310 rows": (330,) * 7},
        36,
        left_out="region-pixel-count",
    ),
    "magic": Published(
        "Bock and Savicky, 2007", UCI, 10, {"19,020 rows": (6_688, 12_332)}, 1120, left_out="ID"
    ),
    "usps": Published(
        "CEDAR, SUNY Buffalo; Hull 1994",
        "none stated; passed around freely for research",
        256,
        USPS_VERSIONS,
        41082,
    ),
    "cifar10": Published(
        "Krizhevsky, Nair and Hinton, 2009",
        CIFAR,
        COMPONENTS,
        {"50,000 + 10,000 images, 300 principal components": (5_000,) * 10},
        40927,
        n_test=10_000,
    ),
    "cifar100": Published(
        "Krizhevsky, Nair and Hinton, 2009",
        CIFAR,
        COMPONENTS,
        {"50,000 + 10,000 images, 300 principal components": (500,) * 100},
        41983,
        n_test=10_000,
    ),
}
NAMES = tuple(PUBLISHED)
# The superclass of each of the 100 classes of CIFAR-100, which are numbered by the alphabet.
COARSE_OF_FINE = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11,
    6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5,
    5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
    10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13,
    16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
)  # fmt: skip
COARSE_NAMES = (
    "aquatic_mammals", "fish", "flowers", "food_containers", "fruit_and_vegetables",
    "household_electrical_devices", "household_furniture", "insects", "large_carnivores",
    "large_man-made_outdoor_things", "large_natural_outdoor_scenes",
    "large_omnivores_and_herbivores", "medium_mammals", "non-insect_invertebrates", "people",
    "reptiles", "small_mammals", "trees", "vehicles_1", "vehicles_2",
)  # fmt: skip


def load(name: str, *, labels: str = "fine", download: bool = True) -> Dataset:
    """One data set of the paper.

    Parameters
    ----------
    name : {"sonar", "ionosphere", "balance", "segmentation", "magic", "usps", "cifar10", "cifar100"}
    labels : {"fine", "coarse"}, default="fine"
        Which classes of CIFAR-100: the 100, or their 20 superclasses.
    download : bool, default=True
        Fetch from OpenML what is not on this machine.

    Returns
    -------
    data : Dataset

    Raises
    ------
    ValueError
        If the name is unknown, or the data are not what was published.
    FileNotFoundError
        If the data are not on this machine and cannot be fetched.

    Examples
    --------
    >>> from metricforest import datasets
    >>> data = datasets.load("balance")
    >>> data.X.shape, data.class_names
    ((625, 4), ('left', 'balanced', 'right'))
    """
    if name not in PUBLISHED:
        raise ValueError(f"there is no data set {name!r}; there are {', '.join(NAMES)}")
    if labels not in ("fine", "coarse") or (labels == "coarse" and name != "cifar100"):
        raise ValueError(
            f"labels must be 'fine', or 'coarse' for cifar100, got {labels!r} for {name}"
        )
    if name == "balance":
        return dataset(name, balance_scale(), "its rule")
    path = find(name)
    if path is None:
        path = fetch(name) if download else None
        if path is None:
            raise FileNotFoundError(missing(name))
        return dataset(name, read(path), "OpenML", labels)
    return dataset(name, read(path), str(path), labels)


def find(name: str) -> Path | None:
    """The file of a data set on this machine."""
    chosen = os.environ.get("METRICFOREST_DATA")
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folders = [Path(chosen), cache_folder()] if chosen else [cache_folder(), beside]
    paths = [folder / f"{name}.npz" for folder in folders]
    return next((path for path in paths if path.is_file()), None)


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "metricforest"


def missing(name: str) -> str:
    chosen = os.environ.get("METRICFOREST_DATA")
    lost = f" (METRICFOREST_DATA names {chosen}, which is not a folder)"
    return (
        f"the data set {name} is not on this machine: put {name}.npz into the folder that "
        f"METRICFOREST_DATA names or into {cache_folder()}, or go online once to fetch it from OpenML"
        f"{lost if chosen and not Path(chosen).is_dir() else ''}"
    )


def read(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except BAD_ARRAYS as error:
        raise ValueError(f"cannot read {path}: {error}") from error


def dataset(name: str, arrays: dict[str, np.ndarray], found: str, labels: str = "fine") -> Dataset:
    """The arrays of a file, checked against what is published."""
    known = PUBLISHED[name]
    lacking = [key for key in ("X", "y", "class_names", "feature_names") if key not in arrays]
    if known.n_test:
        lacking += [key for key in ("X_test", "y_test") if key not in arrays]
    if lacking:
        raise ValueError(f"{name} from {found} lacks the arrays {', '.join(lacking)}")
    y = arrays["y"].astype(np.int64)
    counts = tuple(sorted(np.bincount(y).tolist())) if y.size and y.min() >= 0 else ()
    version = next((v for v, expected in known.versions.items() if expected == counts), None)
    shape = (sum(counts), known.n_features)
    if version is None or arrays["X"].shape != shape:
        expected = " or ".join(
            f"{sum(count):,} x {known.n_features} with {', '.join(map(str, count[:10]))}"
            f"{', ...' if len(count) > 10 else ''} rows per class"
            for count in known.versions.values()
        )
        raise ValueError(
            f"{name} from {found} is {' x '.join(map(str, arrays['X'].shape))} with "
            f"{', '.join(map(str, counts[:10]))} rows per class, expected {expected}"
        )
    precision = np.float32 if known.n_test else np.float64
    class_names, tests = arrays["class_names"], {}
    if known.n_test:
        tests = {
            "X_test": arrays["X_test"].astype(precision),
            "y_test": arrays["y_test"].astype(np.int64),
        }
        if tests["X_test"].shape != (known.n_test, known.n_features):
            raise ValueError(
                f"the test part of {name} from {found} is {tests['X_test'].shape}, expected "
                f"({known.n_test}, {known.n_features})"
            )
    if labels == "coarse":
        coarse = np.array(COARSE_OF_FINE)
        y, tests["y_test"], class_names = coarse[y], coarse[tests["y_test"]], COARSE_NAMES
    return Dataset(
        name=name,
        X=arrays["X"].astype(precision),
        y=y,
        class_names=tuple(map(str, class_names)),
        feature_names=tuple(map(str, arrays["feature_names"])),
        source=known.source,
        licence=known.licence,
        version=version,
        found=found,
        **tests,
    )


def balance_scale() -> dict[str, np.ndarray]:
    """All 5^4 settings of the scale; the class is the side with the larger torque."""
    grid = np.array(list(itertools.product(range(1, 6), repeat=4)))
    torque = grid[:, 0] * grid[:, 1] - grid[:, 2] * grid[:, 3]
    names = ["left_weight", "left_distance", "right_weight", "right_distance"]
    return {
        "X": grid,
        "y": 1 - np.sign(torque),
        "class_names": np.array(["left", "balanced", "right"]),
        "feature_names": np.array(names),
    }


# ------------------------------------------------------------------------------------------ OpenML


def fetch(name: str) -> Path | None:
    """Bring a data set from OpenML into the cache. None if there is no way to it."""
    from sklearn.datasets import fetch_openml

    known = PUBLISHED[name]
    try:
        bunch: Any = fetch_openml(data_id=known.openml, as_frame=True, parser="auto")
    except OSError:  # no network, no such host, refused, timed out
        return None
    frame, target = bunch.data, bunch.target
    if frame.shape[1] > known.n_features:
        frame = frame.drop(columns=[c for c in frame if str(c).strip() == known.left_out])
    classes, y = np.unique(np.asarray(target).astype(str), return_inverse=True)
    if all(label.lstrip("-").isdigit() for label in classes):
        order = np.argsort(classes.astype(int))
        classes, y = classes[order], np.argsort(order)[y]
    arrays = {
        "X": frame.to_numpy(np.float32),
        "y": y.astype(np.int16),
        "class_names": classes,
        "feature_names": np.array([str(column) for column in frame.columns]),
    }
    if known.n_test:
        arrays = principal_components(arrays)
    dataset(name, arrays, "OpenML")  # nothing wrong gets into the cache
    return store(cache_folder() / f"{name}.npz", arrays)


def principal_components(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """CIFAR's pixels (0 to 255) as the paper's components, learned from the first 50,000 images."""
    pixels, y = arrays["X"], arrays["y"]
    mean = pixels[:CIFAR_TRAIN].mean(axis=0, dtype=np.float64) / 255
    covariance = np.zeros((mean.size, mean.size))
    for low in range(0, CIFAR_TRAIN, 5_000):
        block = pixels[low : min(low + 5_000, CIFAR_TRAIN)] / 255.0 - mean
        covariance += block.T @ block
    covariance /= CIFAR_TRAIN - 1
    variance, vectors = np.linalg.eigh(covariance)
    lead = np.argsort(variance)[::-1][:COMPONENTS]
    vectors = vectors[:, lead]
    vectors *= np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(COMPONENTS)])
    rows = np.empty((len(pixels), COMPONENTS), np.float16)
    for low in range(0, len(pixels), 5_000):
        rows[low : low + 5_000] = (pixels[low : low + 5_000] / 255.0 - mean) @ vectors
    return {
        "X": rows[:CIFAR_TRAIN],
        "y": y[:CIFAR_TRAIN],
        "X_test": rows[CIFAR_TRAIN:],
        "y_test": y[CIFAR_TRAIN:],
        "class_names": arrays["class_names"],
        "feature_names": np.array([f"component_{i}" for i in range(COMPONENTS)]),
        "explained_variance": variance[lead].astype(np.float32),
        "total_variance": np.array(variance.sum()),
    }


def store(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [npz(arrays)])
    return path


def npz(arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a compressed archive."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # pyright: ignore[reportArgumentType]
    return stream.getvalue()
