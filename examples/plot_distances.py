"""
Distances as a heat map
=======================

Rows sorted so that near ones stand together: dark blocks are groups.
"""

from sklearn.datasets import load_digits

from metricforest import HierarchyForest, plots
from metricforest.demo import labelled_pairs

X, y = load_digits(return_X_y=True)
X, y = X[:600], y[:600]
pairs, same = labelled_pairs(y, 600, seed=0)
metric = HierarchyForest(50, n_jobs=-1, random_state=0)
metric.fit(X, pairs=pairs, pair_labels=same)

plots.plot_distances(metric, X[:200], y[:200])
