"""NCA: neighbourhood components analysis (Goldberger, Roweis, Hinton and Salakhutdinov, 2004).

A linear map under which a row, choosing another at random and near ones more likely, chooses one of
its own class. scikit-learn finds it; here it also takes pairs, as the classes that they imply.
"""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.utils import check_random_state

from ..checks import check_choice, check_real, check_whole
from ..supervision import constraints as cn
from .fitting import NeedsLabels, check_n_components, labelled_classes, refuse
from .mapped import LinearMetric

STARTS = ("auto", "pca", "lda", "identity", "random")


class NCA(NeedsLabels, LinearMetric):
    """Neighbourhood components analysis: a linear map for nearest neighbours.

    It learns from class labels. From pairs it learns the classes that they imply: rows that must-links
    join are one class, and a row in no must-link has none. Two groups of one class that no must-link
    joins are held apart, so that it wants many pairs.

    Parameters
    ----------
    n_components : int, default=None
        Dimensions of the map. None: as many as features.
    init : {"auto", "pca", "lda", "identity", "random"}, default="auto"
        Where to start. "auto": linear discriminants if there are classes enough for `n_components`,
        else principal components if that reduces the features, else the features themselves.
    max_iter : int, default=50
        Steps of L-BFGS, each of which takes time and memory that grow with the square of the
        labelled rows.
    tol : float, default=1e-5
        Convergence tolerance.
    standardize : bool, default=True
        Bring every feature to zero mean and unit variance first.
    n_jobs : int, default=None
        Threads of the neighbour search and of measuring.
    random_state : int, RandomState instance or None, default=None
        Seeds a random start.
    verbose : int, default=0
        1 shows the progress of the steps.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, `n_features_in_`)
        The map: ``rows @ components_.T`` of standardised rows.
    n_iter_ : int
        Steps made.
    n_features_in_, feature_names_in_, mean_, scale_
        As in `Euclidean`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricforest.rivals import NCA
    >>> X, y = load_iris(return_X_y=True)
    >>> NCA(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        init: str = "auto",
        max_iter: int = 50,
        tol: float = 1e-5,
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        super().__init__(standardize, n_jobs)
        self.n_components = n_components
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self, "init", STARTS)
        check_whole(self, "max_iter", 1)
        check_real(self, "tol", 0.0, 1.0, open_low=True)

    def _fit(self, X, y, pairs, pair_labels, triplets) -> None:
        refuse(self, "labels y, or pairs with pair_labels", triplets=triplets)
        if y is not None and (pairs is not None or pair_labels is not None):
            raise ValueError("NCA learns from labels y or from pairs: give one of them")
        rows = self._standardised(X)
        check_n_components(self, rows.shape[1])
        if pairs is None and pair_labels is None:
            codes = labelled_classes(self, y, len(rows))
        else:
            codes = implied_classes(len(rows), *cn.check_pairs(pairs, pair_labels, len(rows)))
        known = codes != cn.UNLABELLED
        seed: int = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        wanted = rows.shape[1] if self.n_components is None else int(self.n_components)
        model = NeighborhoodComponentsAnalysis(
            n_components=wanted,
            init=self.init,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            random_state=seed,
            verbose=int(bool(self.verbose)),
        ).fit(rows[known], codes[known])
        self.components_ = np.ascontiguousarray(model.components_)
        self.n_iter_ = int(model.n_iter_)
        self._index(rows)


def implied_classes(n_rows: int, pairs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Class codes (int64): rows that must-links join; UNLABELLED for rows that none joins."""
    group = cn.groups_of(n_rows, pairs, labels)
    size = np.bincount(group)
    classes = np.flatnonzero(size > 1)
    if len(classes) < 2:
        raise ValueError(
            f"NCA learns to distinguish classes: the must-links among {len(pairs)} pairs join rows "
            f"to {len(classes)} class{'' if len(classes) == 1 else 'es'}, 2 are needed"
        )
    codes = np.full(len(size), cn.UNLABELLED)
    codes[classes] = np.arange(len(classes))
    return codes[group]
