"""Texts as numbers: runs of letters, hashed, weighted by how rare they are, and reduced.

What is learned of a column are two arrays of numbers. The runs of 2 to 4 letters of a cell, words cut at
spaces, are counted in one of `BUCKETS` each (scikit-learn's hashing, which knows no vocabulary),
rare ones weigh more (TF-IDF), and the leading directions of what comes out (TruncatedSVD) are the features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

from ..storage.values import check_array
from .cells import plain, whole

BUCKETS = 2_048
RUNS = (2, 4)  # letters of the shortest and of the longest run
FEATURES = 16  # of a column at most
VARIANCE = 4.0  # of all features of a column together: a number has 1
LETTERS = 1_000  # of a cell that are read
BLOCK = 5_000  # rows at once
LARGEST = 1e6  # number in a file: features stay finite


class TextMap(NamedTuple):
    """From counts to k features; rows of `directions` beyond k do not exist."""

    weight: np.ndarray  # float32 [BUCKETS]     how rare each bucket is
    directions: np.ndarray  # float32 [k, BUCKETS]
    mean: np.ndarray  # float32 [k]             of the features, where a cell has text

    @property
    def k(self) -> int:
        return len(self.directions)

    def features(self, texts: Sequence[str | None]) -> np.ndarray:
        """float64 [n, k]; a missing text is the mean of all, 0."""
        answer = np.zeros((len(texts), self.k))
        for low in range(0, len(texts), BLOCK):
            part = texts[low : low + BLOCK]
            there = np.array([text is not None for text in part], bool)
            found = weighed(counts([text or "" for text in part]), self.weight)
            values = np.asarray(found @ self.directions.T, np.float64) - self.mean
            answer[low : low + BLOCK] = np.where(there[:, None], values, 0.0)
        return answer


def counts(texts: Sequence[str]) -> Any:
    """How often each bucket's runs occur in each text: a sparse matrix."""
    options: Any = {"norm": None, "alternate_sign": False, "lowercase": False, "dtype": np.float32}
    vectorizer = HashingVectorizer(
        analyzer="char_wb", ngram_range=RUNS, n_features=BUCKETS, **options
    )
    return vectorizer.transform([whole(plain(text)[:LETTERS]) for text in texts])


def weighed(found: Any, weight: np.ndarray) -> Any:
    """Logarithmic counts times weights, every row of length 1 or, where it is empty, 0."""
    found = found.copy()
    found.data = (np.log(found.data) + np.float32(1.0)) * weight[found.indices]
    row = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
    length = np.sqrt(np.bincount(row, found.data.astype(np.float64) ** 2, found.shape[0]))
    found.data /= np.maximum(length, 1e-12)[row].astype(np.float32)
    return found


def learn_texts(texts: Sequence[str]) -> TextMap | None:
    """What a column's texts, none of them missing, say; None where they do not differ."""
    if len(set(texts)) < 2:
        return None
    found = counts(texts)
    tfidf: Any = TfidfTransformer(sublinear_tf=True).fit(found)
    weight = tfidf.idf_.astype(np.float32)
    found = weighed(found, weight)
    k = min(FEATURES, len(texts) - 1)
    if k < 1:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):  # where all come out alike
        svd: Any = TruncatedSVD(k, random_state=0).fit(found)
    values = np.asarray(found @ svd.components_.T, np.float64)
    spread = values.var(axis=0)
    kept = spread > 1e-9 * max(spread.sum(), 1e-9)
    if not kept.any() or spread.sum() < 1e-12:
        return None
    width = np.sqrt(spread[kept].sum() / VARIANCE)
    directions = (svd.components_[kept] / width).astype(np.float32)
    return TextMap(weight, directions, (values.mean(axis=0)[kept] / width).astype(np.float32))


def state(maps: Sequence[TextMap]) -> dict[str, np.ndarray]:
    """The maps of all text columns as arrays for a file."""
    return {
        "text_weight": np.array([of.weight for of in maps], np.float32).reshape(-1, BUCKETS),
        "text_directions": np.concatenate([of.directions for of in maps]),
        "text_mean": np.concatenate([of.mean for of in maps]),
        "text_features": np.array([of.k for of in maps], np.int64),
    }


def restored(state: dict[str, Any], n: int) -> list[TextMap]:
    """The maps of n text columns, or a ValueError."""
    if n == 0:
        return []
    k = check_array(state["text_features"], "text_features", np.int64, (n,))
    if k.min() < 1 or k.max() > FEATURES:
        raise ValueError(f"text_features is {k.tolist()[:20]}")
    ends = [0, *np.cumsum(k).tolist()]
    weight = check_array(state["text_weight"], "text_weight", np.float32, (n, BUCKETS))
    directions = check_array(
        state["text_directions"], "text_directions", np.float32, (ends[-1], BUCKETS)
    )
    mean = check_array(state["text_mean"], "text_mean", np.float32, (ends[-1],))
    for name, values in (("weight", weight), ("directions", directions), ("mean", mean)):
        if np.abs(values).max() > LARGEST:
            raise ValueError(f"text_{name} holds a number above {LARGEST:g}")
    return [
        TextMap(weight[i], directions[ends[i] : ends[i + 1]], mean[ends[i] : ends[i + 1]])
        for i in range(n)
    ]
