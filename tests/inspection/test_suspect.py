"""Labelled pairs that are disbelieved: planted errors, the votes of neighbours as plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metricforest
from conftest import three_clusters
from metricforest import HierarchyForest
from metricforest.inspection.suspect import NEAR, PRIOR, distance_curve, same_by_neighbours


def planted(seed, n=90, n_pairs=400, share=0.1):
    """(X, pairs, labels with errors, which are errors): three clusters, sorted pairs."""
    X, _, pairs, labels = three_clusters(seed, n, n_pairs)
    wrong = np.zeros(len(pairs), bool)
    wrong[np.random.default_rng(seed).permutation(len(pairs))[: round(share * len(pairs))]] = True
    return X, pairs, np.where(wrong, -labels, labels), wrong


def errors_found(suspects, pairs, wrong):
    errors = {tuple(pair) for pair in pairs[wrong].tolist()}
    return np.mean([tuple(pair) in errors for pair in suspects.pairs[: len(errors)].tolist()])


@pytest.mark.parametrize("cv", [None, 4])
def test_planted_errors_are_found(cv):
    X, pairs, labels, wrong = planted(0)
    metric = HierarchyForest(40, random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    assert errors_found(metric.suspect_pairs(cv=cv), pairs, wrong) > 0.8


def test_all_pairs_ranked_once(small, small_forest):
    _, _, pairs, labels = small
    suspects = small_forest.suspect_pairs()
    assert len(suspects) == len(pairs)
    known = {tuple(pair): label for pair, label in zip(pairs.tolist(), labels, strict=True)}
    found = {tuple(pair): label for pair, label in zip(
        suspects.pairs.tolist(), suspects.pair_labels, strict=True)}  # fmt: skip
    assert found == known
    assert (np.diff(suspects.suspicion) <= 0).all()
    assert suspects.suspicion.min() >= 0
    assert suspects.suspicion.max() <= 1
    X = small[0]
    far = small_forest.pair_distance(X[suspects.pairs[:, 0]], X[suspects.pairs[:, 1]])
    assert (far == suspects.distance).all()
    first = small_forest.suspect_pairs(3)
    assert (first.pairs == suspects[:3].pairs).all()
    assert len(first) == len(first.summary().splitlines()) == 3
    assert "labelled" in first.summary(1)


def loop_votes(pairs, labels, D):
    """What labelled pairs nearby say, by the definition; every labelled row is heard."""
    n, base = len(D), np.mean(labels == 1)
    unit = np.median([np.sort(np.delete(D[i], i))[min(NEAR, n - 1) - 1] for i in range(n)])
    out = []
    for own, (a, b) in enumerate(pairs):
        votes = yes = 0.0
        for other, (u, v) in enumerate(pairs):
            if other == own:
                continue
            weight = np.exp(-(D[a, u] + D[b, v]) / unit) + np.exp(-(D[a, v] + D[b, u]) / unit)
            votes += weight
            yes += weight * (labels[other] == 1)
        out.append((yes + PRIOR * base) / (votes + PRIOR))
    return np.array(out)


@given(seed=st.integers(0, 100))
def test_votes_are_those_of_plain_loops(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 14))
    points = rng.normal(size=(n, 2))
    D = np.linalg.norm(points[:, None] - points, axis=2)
    pairs = np.array([(i, j) for i in range(n) for j in range(i) if rng.random() < 0.5] + [(0, 1)])
    labels = rng.choice([-1, 1], len(pairs))
    away = D + np.diag(np.full(n, np.inf))
    near = np.argsort(away, axis=1)[:, : n - 1]
    far = np.take_along_axis(D, near, axis=1)
    found = same_by_neighbours(pairs, labels, far, near)
    np.testing.assert_allclose(found, loop_votes(pairs, labels, D), atol=1e-9)


def test_one_kind_of_labels(small):
    X, _, pairs, labels = small
    same = pairs[labels == 1]
    metric = HierarchyForest(10, random_state=0).fit(X, pairs=same, pair_labels=np.ones(len(same)))
    suspects = metric.suspect_pairs()
    assert (np.diff(suspects.distance) <= 0).all()  # the farther, the more suspect
    far = np.array([0.3, 0.1, 0.2])
    assert distance_curve(far, np.ones(3, bool))(far).argsort().tolist() == [0, 2, 1]
    one = HierarchyForest(4, random_state=0).fit(X, pairs=[[0, 1]], pair_labels=[-1])
    assert len(one.suspect_pairs()) == 1


def test_contradictions_are_both_ranked(small):
    X = small[0]
    with pytest.warns(UserWarning, match="labelled both"):
        metric = HierarchyForest(10, random_state=0).fit(
            X, pairs=[[0, 1], [0, 1], [0, 3], [4, 5]], pair_labels=[1, -1, 1, -1]
        )
    for cv in (None, 2):
        assert len(metric.suspect_pairs(cv=cv)) == 4


def test_same_bits_for_any_n_jobs_and_after_loading(tmp_path):
    X, pairs, labels, _ = planted(1)
    one = HierarchyForest(12, random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    four = HierarchyForest(12, random_state=0, n_jobs=4).fit(X, pairs=pairs, pair_labels=labels)
    one.save(tmp_path / "m.mf")
    loaded = metricforest.load(tmp_path / "m.mf")
    loaded.remove([0, 1, 2])
    loaded.add(X[:2])
    for cv in (None, 2):
        expected = one.suspect_pairs(cv=cv)
        for other in (four, loaded):
            assert (other.suspect_pairs(cv=cv).pairs == expected.pairs).all()
            assert (other.suspect_pairs(cv=cv).suspicion == expected.suspicion).all()


def test_refusals(small, small_forest):
    X, _, pairs, _ = small
    for arguments, message in (
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"cv": 1}, "cv must be at least 2, got 1"),
        ({"cv": 1000}, f"cv must be at most {len(pairs)}, the labelled pairs, got 1000"),
    ):
        with pytest.raises(ValueError, match=message):
            small_forest.suspect_pairs(**arguments)
    with pytest.raises(TypeError, match=r"n must be an int, got 2\.0"):
        small_forest.suspect_pairs(2.0)
    with pytest.raises(ValueError, match="needs labelled pairs"):
        HierarchyForest(2).fit(X).suspect_pairs()
