"""Pictures: what is in them, not how they look; and what they refuse."""

import subprocess
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from conftest import PlainEuclidean
from metricforest import HierarchyForest
from metricforest.core.forest import LEAF
from metricforest.plots import figures as plots
from metricforest.plots import layout

STYLES = ("default", "dark_background")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(params=STYLES)
def style(request):
    with plt.style.context(request.param):
        yield request.param


def every_picture(small, metric):
    X, classes, pairs, labels = small
    return {
        "map": lambda ax: plots.plot_map(metric, classes, ax=ax),
        "hierarchy": lambda ax: plots.plot_hierarchy(metric, 1, classes, ax=ax),
        "pair_distances": lambda ax: plots.plot_pair_distances(metric, pairs, labels, ax=ax),
        "precision_recall": lambda ax: plots.plot_precision_recall(metric, pairs, labels, ax=ax),
        "distances": lambda ax: plots.plot_distances(metric, X, classes, ax=ax),
    }


def texts(ax):
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize(
    "name", ["map", "hierarchy", "pair_distances", "precision_recall", "distances"]
)
def test_axes_in_axes_out(small, small_forest, name, style):
    draw = every_picture(small, small_forest)[name]
    _, mine = plt.subplots()
    assert draw(mine) is mine
    ax = draw(None)
    assert ax is not mine
    assert ax.get_title()
    ax.figure.canvas.draw()
    # Nothing is written in the colour of the ground.
    ground = matplotlib.colors.to_rgb(ax.get_facecolor())
    for text in [*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label]:
        assert matplotlib.colors.to_rgb(text.get_color()) != ground


# ---------------------------------------------------------------------------------------------- map


def test_map_brings_classes_together(small, small_forest):
    _X, classes, _, _ = small
    ax = plots.plot_map(small_forest, classes, n_neighbors=10)
    assert [own.get_label() for own in ax.collections] == ["0", "1", "2"]
    points = np.concatenate([own.get_offsets() for own in ax.collections])
    group = np.repeat([0, 1, 2], 20)
    D = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(D, np.inf)
    assert (group[D.argmin(axis=1)] == group).mean() > 0.8


def test_map_is_seeded(small_forest):
    first, again, other = (
        plots.map_rows(small_forest, small_forest._rows, 10, seed) for seed in (0, 0, 1)
    )
    assert (first == again).all()
    assert (first != other).any()
    assert np.isfinite(first).all()


def test_map_of_separate_parts_and_equal_rows():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 2)), 50 + rng.normal(size=(20, 2)), np.zeros((10, 2))])
    metric = HierarchyForest(10, random_state=0).fit(X)
    points = plots.map_rows(metric, metric._rows, 3, 0)
    assert np.isfinite(points).all()
    centre = [points[i : i + 20].mean(axis=0) for i in (0, 20)]
    width = max(points[i : i + 20].std(axis=0).max() for i in (0, 20))
    assert np.linalg.norm(centre[0] - centre[1]) > width


def test_map_of_what_is_searched(small):
    X, classes, pairs, labels = small
    metric = HierarchyForest(8, random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    metric.remove([0, 5])
    metric.add(X[:1])
    ax = plots.plot_map(metric, np.append(np.delete(classes, [0, 5]), -1))
    sizes = {own.get_label(): len(own.get_offsets()) for own in ax.collections}
    assert sizes == {"unlabelled": 1, "0": 19, "1": 20, "2": 19}


def test_map_of_any_metric_with_numbers_for_labels(small):
    X = small[0]
    ax = plots.plot_map(PlainEuclidean().fit(X), X[:, 0])
    (drawn,) = ax.collections
    np.testing.assert_allclose(drawn.get_array(), X[:, 0])


def test_landmarks_on_a_line():
    place = np.array([0.0, 1.0, 5.0, 7.0])
    D = np.abs(place[:, None] - place)
    points = layout.start(D, D)
    apart = np.abs(points[:, :1] - points[:, 0])
    np.testing.assert_allclose(apart, D * np.ptp(points[:, 0]) / 7, atol=1e-9)
    np.testing.assert_allclose(points[:, 1], 0.0, atol=1e-5)
    same = layout.start(np.zeros((3, 1)), np.zeros((1, 1)))
    assert same.shape == (3, 2)
    assert (same == 0).all()


# ---------------------------------------------------------------------------------------- hierarchy


def test_hierarchy_shows_sizes_and_purities(small, small_forest):
    classes, forest = small[1], small_forest.forest_
    root = forest.root[2]
    ax = plots.plot_hierarchy(small_forest, 2, classes, max_depth=1)
    shown = texts(ax)
    for node in (root, forest.left[root], forest.right[root]):
        rows = forest.order[2, forest.start[node] : forest.stop[node]]
        counts = np.bincount(classes[rows], minlength=3)
        assert f"{len(rows)}" in shown
        purity = f"{counts.argmax()}: {counts.max() / counts.sum():.0%}"
        assert any(text.startswith(purity) for text in shown)
    assert len(ax.lines) == 2


def test_hierarchy_draws_every_node_where_it_may(small_forest):
    forest = small_forest.forest_
    ax = plots.plot_hierarchy(small_forest, 0, max_depth=50)
    n_nodes = int(forest.root[1] - forest.root[0])
    assert len(ax.lines) == n_nodes - 1
    assert not any("..." in text for text in texts(ax))
    leaves = int((forest.left[: forest.root[1]] == LEAF).sum())
    ends = [node for node in plots.drawn_nodes(forest, 0, 50) if node.is_end]
    assert sorted(node.x for node in ends) == list(range(leaves))
    assert texts(plots.plot_hierarchy(small_forest, 0, max_depth=0)) == ["60", "..."]


def test_hierarchy_with_unlabelled_rows(small, small_forest):
    classes = small[1].copy()
    classes[::2] = -1
    ax = plots.plot_hierarchy(small_forest, labels=classes)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["0", "1", "2", "unlabelled"]


# ------------------------------------------------------------------------------------ labelled pairs


def test_classes_with_names_and_gaps(small, small_forest):
    """Gaps are read as by `fit`."""
    X, classes = small[:2]
    names = [None if i % 2 else ["oak", "elm", "ash"][c] for i, c in enumerate(classes)]
    legend = plots.plot_hierarchy(small_forest, labels=names).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["ash", "elm", "oak", "unlabelled"]
    plots.plot_distances(small_forest, X, names)


def test_histogram_and_threshold(small, small_forest):
    X, _, pairs, labels = small
    ax = plots.plot_pair_distances(small_forest, pairs, labels, bins=10)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert any("best cut" in name for name in names)
    assert f"{(labels == 1).sum()} same" in names
    calibrated = HierarchyForest(12, random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    calibrated.calibrate_threshold(pairs, labels)
    ax = plots.plot_pair_distances(calibrated, pairs, labels, X)
    (line,) = ax.lines
    assert line.get_xdata()[0] == calibrated.threshold_
    bars = sum(patch.get_height() for patch in ax.patches if hasattr(patch, "get_height"))
    assert bars == pytest.approx(2.0)  # each kind sums to one
    only = plots.plot_pair_distances(small_forest, pairs[labels == 1], labels[labels == 1])
    assert len(only.lines) == 0


def test_precision_and_recall_at_the_threshold(small):
    X, _, pairs, labels = small
    metric = HierarchyForest(12, random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    metric.calibrate_threshold(pairs, labels)
    ax = plots.plot_precision_recall(metric, pairs, labels)
    called = metric.predict_pairs(X[pairs[:, 0]], X[pairs[:, 1]]) == 1
    dot = ax.lines[-1]
    assert dot.get_xdata()[0] == pytest.approx(called[labels == 1].mean())
    assert dot.get_ydata()[0] == pytest.approx((labels[called] == 1).mean())


# ------------------------------------------------------------------------------------------- others


def test_gallery(small, small_forest, style):
    X, classes, _, _ = small
    images = np.arange(60 * 6).reshape(60, 2, 3)
    cells = plots.plot_neighbors(
        small_forest,
        X[:3],
        images,
        query_images=images[:3],
        labels=classes,
        query_labels=classes[:3],
        n_neighbors=4,
    )
    assert cells.shape == (3, 5)
    far, ids = small_forest.kneighbors(X[:3], 4)
    for i in range(3):
        assert (cells[i, 0].images[0].get_array() == images[i]).all()
        for j in range(4):
            cell = cells[i, j + 1]
            assert (cell.images[0].get_array() == images[ids[i, j]]).all()
            assert cell.get_title() == f"{far[i, j]:.3f}"
            dashed = cell.spines["left"].get_linestyle() == "--"
            assert dashed == (classes[ids[i, j]] != classes[i])
    _, mine = plt.subplots(1, 3)
    again = plots.plot_neighbors(
        small_forest, X[:1], images, query_images=images[:1], n_neighbors=2, ax=mine[None]
    )
    assert again[0, 0] is mine[0]
    plots.plot_neighbors(small_forest, X[:1], np.ones((60, 5, 1)), n_neighbors=2)


def test_heat_map_is_sorted_by_class(small, small_forest):
    X, classes, _, _ = small
    ax = plots.plot_distances(small_forest, X, classes)
    D = np.asarray(ax.images[0].get_array())
    np.testing.assert_allclose(D, D.T)
    inside = np.mean([D[i : i + 20, i : i + 20].mean() for i in (0, 20, 40)])
    assert inside < D.mean() / 2
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "1", "2"]
    free = np.asarray(plots.plot_distances(small_forest, X).images[0].get_array())
    assert np.diag(free, 1).mean() < free.mean() / 2


def test_heat_map_of_many_rows_is_thinned(small_forest):
    X = np.random.default_rng(0).normal(size=(plots.MOST_ROWS + 500, 5))
    ax = plots.plot_distances(small_forest, X)
    assert ax.images[0].get_array().shape == (plots.MOST_ROWS, plots.MOST_ROWS)


# ------------------------------------------------------------------------------------------- errors


def test_refusals(small, small_forest):
    X, classes, _pairs, _labels = small
    images = np.zeros((60, 2, 2))
    bad = [
        (lambda: plots.plot_map(small_forest, classes[:5]), "60 rows, labels of \\(5,\\)"),
        (lambda: plots.plot_map(small_forest, n_neighbors=0), "n_neighbors must be at least 1, got 0"),
        (lambda: plots.plot_map(HierarchyForest(2).fit(X[:2])), "at least 3 rows, the metric has 2"),
        (lambda: plots.plot_hierarchy(small_forest, 12), "tree must be below 12, .* got 12"),
        (lambda: plots.plot_hierarchy(small_forest, -1), "tree must be at least 0, got -1"),
        (lambda: plots.plot_hierarchy(small_forest, max_depth=-1), "max_depth must be at least 0"),
        (lambda: plots.plot_pair_distances(small_forest, [[0, 60]], [1]), "out of range"),
        (lambda: plots.plot_pair_distances(small_forest, [], []), "no pairs to draw"),
        (lambda: plots.plot_precision_recall(small_forest, [[0, 1]], [1]), "all 1 pairs are labelled same"),
        (lambda: plots.plot_neighbors(small_forest, X[:1], images[0]), "images must have shape"),
        (lambda: plots.plot_neighbors(small_forest, X[:1], images), "5 features and an image 4"),
        (lambda: plots.plot_neighbors(small_forest, X[:1], images[:3]), "there are 3 images"),
        (
            lambda: plots.plot_neighbors(small_forest, X[:2], images, query_images=images[:1]),
            "1 images, X_queries 2 rows",
        ),
        (
            lambda: plots.plot_neighbors(
                small_forest, X[:1], images, query_images=images[:1], ax=plt.subplots()[1]
            ),
            "array of 1 x 9 Axes",
        ),
        (lambda: plots.plot_distances(small_forest, X[:1]), "at least 2 rows, got 1"),
        (lambda: plots.plot_distances(small_forest, X, classes[:3]), "labels of \\(3,\\)"),
    ]  # fmt: skip
    for draw, message in bad:
        with pytest.raises(ValueError, match=message):
            draw()
    with pytest.raises(TypeError, match="HierarchyForest, got a PlainEuclidean"):
        plots.plot_hierarchy(PlainEuclidean().fit(X))
    with pytest.raises(NotFittedError):
        plots.plot_map(HierarchyForest())


def test_the_library_does_without_matplotlib():
    code = """
import sys
sys.modules["matplotlib"] = None
import numpy as np
from metricforest.plots import figures
try:
    figures.pyplot()
except ModuleNotFoundError as error:
    assert 'pip install "metricforest[plot]"' in str(error), error
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_map_of_a_table_whose_ids_are_in_no_order():
    """Neighbours are found by their ids, wherever those stand: places out of range would corrupt memory."""
    from metricforest import TableMetric

    rng = np.random.default_rng(0)
    group = np.arange(60) % 2
    ids = np.array([f"s{i:03d}" for i in rng.permutation(60)])
    frame = {"id": ids, "x": group + 0.1 * rng.normal(size=60), "z": rng.normal(size=60)}
    metric = TableMetric(HierarchyForest(5, standardize=False, random_state=0), id="id", cv=0)
    metric.fit(frame, group)
    seen = []
    arrange = plots.layout.arrange

    def watched(start, distance, place, seed):
        seen.append(place)
        return arrange(start, distance, place, seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots.layout, "arrange", watched)
        plots.plot_map(metric, group)
    np.testing.assert_array_equal(ids[seen[0]], metric.kneighbors(None, 15)[1])
