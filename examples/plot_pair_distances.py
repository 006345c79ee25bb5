"""
Distances of labelled pairs
===========================

Pairs labelled same should be near, pairs labelled different far. The line is the threshold that calls
most held-out pairs rightly. Below: what a threshold buys, the share of called pairs that are right
against the share of right pairs that are called.
"""

from sklearn.datasets import load_digits

from metricforest import HierarchyForest, plots
from metricforest.demo import labelled_pairs

X, y = load_digits(return_X_y=True)
X, y = X[:600], y[:600]
pairs, same = labelled_pairs(y, 600, seed=0)
metric = HierarchyForest(50, n_jobs=-1, random_state=0)
metric.fit(X, pairs=pairs, pair_labels=same)

asked, answers = labelled_pairs(y, 1500, seed=1)
metric.calibrate_threshold(asked, answers)
plots.plot_pair_distances(metric, asked, answers)
plots.plot_precision_recall(metric, asked, answers)
