"""
One hierarchy of the forest
===========================

The upper levels of one tree, with the number of rows in every node and how pure it is.
"""

from sklearn.datasets import load_digits

from metricforest import HierarchyForest, plots
from metricforest.demo import labelled_pairs

X, y = load_digits(return_X_y=True)
X, y = X[:600], y[:600]
pairs, same = labelled_pairs(y, 600, seed=0)
metric = HierarchyForest(50, n_jobs=-1, random_state=0)
metric.fit(X, pairs=pairs, pair_labels=same)

plots.plot_hierarchy(metric, tree=0, labels=y, max_depth=3)
