"""
What is found for a query
=========================

Each row starts with a digit that the forest has not seen; its nearest neighbours follow.
"""

from sklearn.datasets import load_digits

from metricforest import HierarchyForest, plots
from metricforest.demo import labelled_pairs

X, y = load_digits(return_X_y=True)
X, y = X[:600], y[:600]
pairs, same = labelled_pairs(y, 600, seed=0)
metric = HierarchyForest(50, n_jobs=-1, random_state=0)
metric.fit(X, pairs=pairs, pair_labels=same)

digits = load_digits()
plots.plot_neighbors(
    metric,
    digits.data[600:605],
    digits.images[:600],
    query_images=digits.images[600:605],
    labels=y,
    query_labels=digits.target[600:605],
)
