"""The metrics that `fit` can learn: a forest, the vectors of forests, or a blend."""

from __future__ import annotations

from typing import Any

METRICS = {
    "forest": "explains itself and suggests pairs",
    "vectors": "VectorForest, which learns more from many labelled pairs",
    "blend": "both and trees on pairs, weighted; slow",
}


def unfitted_metric(
    name: str,
    trees: int,
    *,
    min_node_size: int,
    alpha: float,
    implied: bool,
    jobs: int,
    seed: int,
    verbose: bool,
) -> Any:
    """A metric over prepared rows, which are to scale."""
    from ..hierarchy import HierarchyForest

    shared: Any = {"min_node_size": min_node_size, "alpha": alpha, "standardize": False}
    run: Any = {"n_jobs": jobs, "random_state": seed}
    forest = HierarchyForest(trees, implied_pairs=implied, verbose=int(verbose), **shared, **run)
    if name == "forest":
        return forest
    from ..vector_forest import VectorForest

    vectors = VectorForest(trees, **shared, **run)
    if name == "vectors":
        return vectors
    from ..blend import Blend
    from ..rivals import BoostedTreesDistance, RandomForestDistance

    forest.set_params(verbose=0)  # it is fitted four times
    pair_trees = [RandomForestDistance(trees, **run), BoostedTreesDistance(**run)]
    return Blend([vectors, forest, *pair_trees], **run)


def forget_run(metric: Any) -> None:
    """Set what is of one run and not of the model, so that its file is the same for any run."""
    params = metric.get_params(deep=False)
    for name, value in (("verbose", 0), ("n_jobs", None)):
        if name in params:
            metric.set_params(**{name: value})
    for members in (params.get("members"), getattr(metric, "members_", None)):
        for member in members or ():
            forget_run(member)
