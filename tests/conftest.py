"""Data and node problems that several test files share. Everything is seeded."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

import metricforest
import naive
from metricforest import HierarchyForest
from metricforest.core.convex import Groups, Rows
from metricforest.core.dense import padded
from metricforest.core.forest import LEAF, Forest
from metricforest.core.ssmmc import (
    CANNOT,
    HISTORY,
    MUST,
    START_ITERATIONS,
    TRIPLET,
    best_threshold,
    make_groups,
    solve_ssmmc,
    start_direction,
)
from metricforest.forest_fit import prepare
from metricforest.rivals.mapped import LinearMetric
from metricforest.supervision.constraints import Constraints, gather

settings.register_profile(
    "metricforest",
    deadline=None,
    max_examples=12,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("metricforest")


# --------------------------------------------------------------------------------------------- data


def balance_scale() -> tuple[np.ndarray, np.ndarray]:
    """The balance-scale set from its rule: the full 5^4 grid, label sign(a b - c d)."""
    grid = np.array(list(itertools.product(range(1, 6), repeat=4)), dtype=float)
    return grid, np.sign(grid[:, 0] * grid[:, 1] - grid[:, 2] * grid[:, 3]).astype(int) + 1


def stored(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A data set that does not come with scikit-learn, where there is a folder of them."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("METRICFOREST_DATA", beside))
    path = folder / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{name}.npz is not here (METRICFOREST_DATA names its folder)")
    with np.load(path) as data:
        return np.asarray(data["X"], float), np.asarray(data["y"])


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "balance":
        return balance_scale()
    loaders = {
        "digits": load_digits,
        "iris": load_iris,
        "wine": load_wine,
        "breast_cancer": load_breast_cancer,
    }
    if name in loaders:
        return loaders[name](return_X_y=True)
    return stored(name)


def random_constraints(
    rng: np.random.Generator, n: int, n_must: int, n_cannot: int, n_triplets: int = 0
) -> Constraints:
    """A random table over the first n rows, each once and sorted by kind as `gather` leaves it."""
    pairs = [(*ends, -1) for ends in itertools.combinations(range(n), 2)]
    triplets = list(itertools.permutations(range(n), 3)) if n_triplets else []
    members = np.array(
        [pairs[k] for k in rng.choice(len(pairs), n_must, replace=False)]
        + [pairs[k] for k in rng.choice(len(pairs), n_cannot, replace=False)]
        + [triplets[k] for k in rng.choice(len(triplets) or 1, n_triplets, replace=False)],
        np.int32,
    )
    kind = np.repeat([MUST, CANNOT, TRIPLET], [n_must, n_cannot, n_triplets]).astype(np.int8)
    return Constraints(members.reshape(-1, 3), kind)


def three_clusters(
    seed: int = 0, n: int = 60, n_pairs: int = 60
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(X, classes, pairs, pair labels): three Gaussians in 5 dimensions, two of them noise."""
    return clouds(seed, n, n_pairs, k=3, d=5, gap=3.0)


def clouds(
    seed: int, n: int, n_pairs: int, k: int, d: int, gap: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(X, classes, pairs, pair labels): k Gaussians in d dimensions, each moved along one of its own."""
    rng = np.random.default_rng(seed)
    classes = np.arange(n) % k
    X = rng.normal(size=(n, d))
    X[:, :k] += gap * np.eye(k)[classes]
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(n_pairs)])
    pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    return X, classes, pairs, np.where(classes[pairs[:, 0]] == classes[pairs[:, 1]], 1, -1)


def fruit_and_cycles(seed, own_directions):
    """Four Gaussians, apples near oranges and bicycles near motorcycles, and a feature of noise."""
    rng = np.random.default_rng(seed)
    classes = np.arange(160) % 4
    centres = np.array([[-2.0, -1, 0], [-2, 1, 0], [2, -1, 0], [2, 1, 0]])
    if own_directions:
        centres[2:] = centres[2:, [0, 2, 1]]
    X = np.column_stack([centres[classes] + 0.4 * rng.normal(size=(160, 3)), rng.normal(size=160)])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    pairs = np.array([rng.choice(160, 2, replace=False) for _ in range(600)])
    labels = np.where(classes[pairs[:, 0]] == classes[pairs[:, 1]], 1, -1)
    order = rng.permutation(4)  # which feature is the telling one must not matter
    return X[:, order], classes >= 2, gather(160, pairs, labels)


@pytest.fixture(scope="session")
def small():
    """(X, classes, pairs, labels) of `three_clusters`, not to be written to."""
    arrays = three_clusters()
    for array in arrays:
        array.flags.writeable = False
    return arrays


@pytest.fixture(scope="session")
def small_forest(small):
    X, _, pairs, labels = small
    forest = HierarchyForest.paper(n_estimators=12, random_state=0)
    return forest.fit(X, pairs=pairs, pair_labels=labels)


@pytest.fixture(scope="module")
def small_file(small_forest, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "small.mf"
    small_forest.save(path)
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """(file of the model of the shop's table, what `fit` said)."""
    from shop_commands import LABELLED, PRODUCTS, fit

    path = tmp_path_factory.mktemp("model") / "shop.mf"
    result = fit(PRODUCTS, "--id", "sku", "--pairs", LABELLED, "-o", path)
    return path, result


@pytest.fixture
def shop(model):
    return model[0]


LEARNED = ["wine", "iris", "balance", "unsupervised", "triplets", "heights"]


@pytest.fixture(scope="module", params=LEARNED)
def learned(request):
    """(metric, its prepared training rows, raw queries)."""
    rng = np.random.default_rng(7)
    name = request.param if request.param in ("wine", "iris", "balance") else "wine"
    X, y = load(name)
    chosen = rng.permutation(len(X))
    train, test = chosen[:90], chosen[90:115]
    metric = HierarchyForest.paper(
        n_estimators=6, min_node_size=3, n_constraints=150, random_state=1
    )
    if request.param == "unsupervised":
        metric.fit(X[train])
    elif request.param == "heights":
        metric = HierarchyForest(24, n_constraints=150, random_state=1).fit(X[train], y[train])
        assert metric.chosen_["heights"] == "learned"
        metric.set_params(alpha=0.5)
    elif request.param == "triplets":
        classes = y[train]
        triplets = []
        for _ in range(60):
            a = rng.integers(len(train))
            near = rng.choice(np.flatnonzero((classes == classes[a]) & (np.arange(90) != a)))
            triplets.append((a, near, rng.choice(np.flatnonzero(classes != classes[a]))))
        metric.fit(X[train], triplets=triplets)
    else:
        metric.fit(X[train], y[train])
    return metric, prepare(X[train], metric.mean_, metric.scale_), X[test]


FEW = 6


def learn(X, *given, **labelled):
    """A forest of FEW trees."""
    return HierarchyForest(n_estimators=FEW, random_state=0).fit(X, *given, **labelled)


def assert_same_bits(a, b):
    """The forests of two metrics are equal."""
    for name, mine, theirs in zip(a.forest_._fields, a.forest_, b.forest_, strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=name)


def numbers(n=20, d=3):
    return np.random.default_rng(0).normal(size=(n, d))


class PlainEuclidean(LinearMetric):
    """A metric that learns nothing, with distances beyond 1."""

    def __init__(self, standardize=False, n_jobs=None):
        self.standardize = standardize
        self.n_jobs = n_jobs

    def _fit(self, X, y, pairs, pair_labels, triplets):
        rows = self._standardised(X)
        self.components_ = np.eye(rows.shape[1])
        self._index(rows)


def check_stored(metric: Any, path: Path, mmap: bool, X: np.ndarray) -> Any:
    """The metric from its file, which must measure and search to the bit as it does."""
    metric.save(path)
    again = metricforest.load(path, mmap=mmap)
    np.testing.assert_array_equal(again.pairwise_distances(X), metric.pairwise_distances(X))
    for got, want in zip(again.kneighbors(X[:5]), metric.kneighbors(X[:5]), strict=True):
        np.testing.assert_array_equal(got, want)
    return again


# ------------------------------------------------------------------------------------ node problems


def make_rows(Z: np.ndarray) -> Rows:
    """`Rows` of float32 points, centred as the grower does."""
    Z = np.asarray(Z, np.float32)
    n, d = Z.shape
    values = np.zeros((n, padded(d + 1)), np.float32)
    values[:, :d] = Z - Z.astype(np.float64).mean(axis=0).astype(np.float32)
    values[:, d] = 1.0
    return Rows(d, values)


def points_of(rows: Rows) -> np.ndarray:
    """The points in float64."""
    return rows.values[:, : rows.n_features].astype(float)


def augmented(rows: Rows) -> np.ndarray:
    """The same with the constant 1 appended, as naive.py takes them."""
    Z = points_of(rows)
    return np.column_stack([Z, np.ones(len(Z))])


class Problem(NamedTuple):
    """One constrained node."""

    rows: Rows
    members: np.ndarray
    kind: np.ndarray

    @property
    def must(self) -> list[tuple[int, int]]:
        return [(int(i), int(j)) for i, j, _ in self.members[self.kind == MUST]]

    @property
    def cannot(self) -> list[tuple[int, int]]:
        return [(int(i), int(j)) for i, j, _ in self.members[self.kind == CANNOT]]

    @property
    def triplets(self) -> list[tuple[int, int, int]]:
        return [(int(i), int(j), int(k)) for i, j, k in self.members[self.kind == TRIPLET]]

    @property
    def unlabelled(self) -> list[int]:
        named = {int(i) for i in self.members.ravel()}
        return [i for i in range(len(self.rows.values)) if i not in named]

    def constraints(self) -> tuple[list, list, list, list]:
        """(must, cannot, triplets, unlabelled), the way naive.py takes them."""
        return self.must, self.cannot, self.triplets, self.unlabelled


def split_features(forest: Forest, node: int) -> np.ndarray:
    """K of a node without the padding: ascending, so it ends where the numbers stop rising."""
    K = np.cumsum(forest.gaps[forest.split[node]], dtype=int)
    rising = np.flatnonzero(np.diff(K) <= 0)
    return K[: rising[0] + 1] if len(rising) else K


def node_problems(metric: HierarchyForest, X: np.ndarray, max_rows: int) -> list[Problem]:
    """The constrained nodes of a learned forest as the splitter met them."""
    forest, table = metric.forest_, metric.constraints_
    rows = prepare(np.asarray(X, float), metric.mean_, metric.scale_)
    problems = []
    for t in range(forest.n_trees):
        for node in range(forest.root[t], forest.root[t + 1]):
            n = forest.stop[node] - forest.start[node]
            if forest.left[node] == LEAF or n > max_rows:
                continue
            points = np.sort(forest.order[t, forest.start[node] : forest.stop[node]])
            place = np.full(forest.n_points + 1, -1, np.int32)  # the last one answers for the -1
            place[points] = np.arange(n)
            padding = table.members < 0
            local = place[table.members]
            inside = ((local >= 0) | padding).all(axis=1)
            kind = table.kind[inside]
            if (kind != MUST).any():
                Z = rows[np.ix_(points, split_features(forest, node))]
                problems.append(Problem(make_rows(Z), local[inside], kind))
    return problems


def start_of(problem: Problem) -> np.ndarray | None:
    """w of the start, None where the splitter would go on to another rung."""
    rows, members, kind = problem
    w = np.full(rows.n_features + 1, np.nan)
    if not start_direction(rows, members, kind, START_ITERATIONS, w):
        return None
    w[-1] = 0.0
    q = (points_of(rows) @ w[:-1]).astype(np.float32)
    cut = best_threshold(q, members, kind, 1)
    if np.isnan(cut):
        return None
    w[-1] = -cut
    return w


def solve(
    problem: Problem,
    start: np.ndarray,
    *,
    lam: float = 0.01,
    C: float = 1.0,
    fraction: float = 0.25,
    subgradient: bool | None = None,
    tol: float = 0.01,
    max_rounds: int = 20,
    max_iter: int = 100,
):
    """(w, objectives by round, converged, groups) of `solve_ssmmc`."""
    groups = make_groups(problem.members, problem.kind, len(problem.rows.values), fraction)
    history = np.full(max_rounds + HISTORY, np.nan)
    w = start.copy()
    rounds, _n_iter, _passes, converged = solve_ssmmc(
        problem.rows,
        problem.members,
        problem.kind,
        lam,
        C,
        fraction,
        subgradient,
        tol,
        max_rounds,
        max_iter,
        groups,
        history,
        w,
    )
    return w, history[: rounds + 1], converged, groups


def configuration(problem: Problem, groups: Groups) -> naive.Configuration:
    """The frozen choices in `groups`, written the way naive.py has them."""
    z: dict[tuple, int] = {}
    for g in range(len(groups.start) - 1):
        ends = slice(groups.start[g], groups.start[g + 1])
        signs = groups.sign[ends]
        kind = TRIPLET if len(signs) == 3 else MUST if signs[0] == signs[1] else CANNOT
        z[kind, *groups.member[ends].tolist()] = int(signs[0])
    cannot = [c for c, ends in enumerate(problem.cannot) if (CANNOT, *ends) in z]
    triplets = [c for c, ends in enumerate(problem.triplets) if (TRIPLET, *ends) in z]
    return naive.Configuration(
        must=tuple(z[MUST, *ends] for ends in problem.must),
        cannot=tuple(z.get((CANNOT, *ends), 0) for ends in problem.cannot),
        active=tuple(cannot),
        triplets=tuple(z.get((TRIPLET, *ends), 0) for ends in problem.triplets),
        active_triplets=tuple(triplets),
        unlabelled=tuple(int(groups.label[i]) for i in problem.unlabelled),
    )


# ---------------------------------------------------------------------- the convex problem, exactly


def frozen_objective(rows: Rows, groups: Groups, lam: float, w: np.ndarray) -> float:
    """J of the frozen configuration at w, in float64."""
    p = augmented(rows) @ w
    hinge = 1 - 2 * groups.sign * p[groups.member]
    worst = np.zeros(len(groups.weight))
    owner = np.repeat(np.arange(len(worst)), np.diff(groups.start))
    np.maximum.at(worst, owner, hinge)
    alone = np.maximum(0, 1 - 2 * groups.label * p)[groups.label != 0].sum()
    return (
        lam / 2 * float(w @ w)
        + float(groups.weight.astype(float) @ worst)
        + float(groups.label_weight[0]) * float(alone)
    )


def exact_optimum(rows: Rows, groups: Groups, lam: float) -> tuple[np.ndarray, float]:
    """(w*, lower bound of J*) of the frozen configuration, by an interior-point method.

    minimise lam/2 |w|^2 + a.eta  with  2 s_e p_e + eta_g >= 1, eta >= 0. The bound is the dual
    value.
    """
    import clarabel
    import scipy.sparse as sp

    A = augmented(rows)
    alone = np.flatnonzero(groups.label) if groups.label_weight[0] > 0 else np.empty(0, int)
    G, m = len(groups.weight), A.shape[1]
    signed = np.concatenate([groups.sign, groups.label[alone]]).astype(float)
    slopes = 2 * signed[:, None] * A[np.concatenate([groups.member, alone])]
    owner = np.concatenate(
        [np.repeat(np.arange(G), np.diff(groups.start)), G + np.arange(len(alone))]
    )
    cost = np.concatenate([groups.weight, np.full(len(alone), groups.label_weight[0])]).astype(
        float
    )
    n_slacks, n_rows = len(cost), len(owner)
    picks = sp.csc_matrix((np.ones(n_rows), (np.arange(n_rows), owner)), (n_rows, n_slacks))
    margins = sp.hstack([sp.csc_matrix(slopes), picks])
    positive = sp.hstack([sp.csc_matrix((n_slacks, m)), sp.identity(n_slacks)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    answer = clarabel.DefaultSolver(
        sp.diags([lam] * m + [0.0] * n_slacks, format="csc"),
        np.concatenate([np.zeros(m), cost]),
        sp.vstack([-margins, -positive], format="csc"),
        np.concatenate([-np.ones(n_rows), np.zeros(n_slacks)]),
        [clarabel.NonnegativeConeT(n_rows + n_slacks)],
        settings,
    ).solve()
    w = np.array(answer.x[:m])
    gap = frozen_objective(rows, groups, lam, w) - answer.obj_val_dual
    assert gap <= 1e-4 * (1e-3 + answer.obj_val_dual), f"no optimum: {answer.status}, gap {gap}"
    return w, float(answer.obj_val_dual)


@pytest.fixture
def tiny(monkeypatch):
    """Experiments on the balance scale that take seconds."""
    from metricforest.experiments import (
        ablations,
        classification,
        clustering,
        neighbours,
        noise,
        protocol,
        retrieval,
    )
    from metricforest.experiments.protocol import Setting

    monkeypatch.setattr(protocol, "METRICS", ("Euclidean", "DCA", "ITML", "LMNN", "HFD"))
    monkeypatch.setattr(clustering, "METRICS", ("Euclidean", "ITML", "HFD"))
    few = {"trees": 4, "gblmnn_trees": 3, "itml_gammas": (1.0, 10.0), "constraints_per_class": 30}
    own = {
        classification: {"datasets": ("balance",), "repeats": {}, "folds": 2},
        noise: {"dataset": "balance", "levels": (0, 20), "repeats": 1, "folds": 2},
        clustering: {
            "datasets": ("balance",), "draws": 1, "neighbours": (5, 10), "sigmas": (1.0, 10.0),
            "fixed": 5, "kmeans_starts": 1,
        },
        neighbours: {
            "datasets": (), "repeats": {}, "solvers": ("lbfgs",),
        },
        ablations: {
            "datasets": ("balance",), "parameters": {"alpha": (0.5, 2.0), "hard": (False, True)},
            "repeats": 1, "folds": 2, "labelled_pairs": 100,
        },
        retrieval: {"datasets": ()},
    }  # fmt: skip
    for module, changes in own.items():
        settings = {
            name: Setting((few | changes).get(name, s.value), s.why)
            for name, s in module.SETTINGS.items()
        }
        monkeypatch.setattr(module, "SETTINGS", settings)
