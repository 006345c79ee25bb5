"""What HFD's loss to wrong labels depends on: the experiment `noise`, one parameter changed at a time.

A line has the accuracy without and with wrong labels, and what is lost: with voters that are wrong too
(the paper's likely reading) and with voters that are right, where only the metric has seen wrong labels.
Mean and standard error over repetitions of folds and noise.

    python benchmarks/noise.py [--level 20] [--trees 100] [--repetitions 4] [--jobs 2]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from metricforest.experiments import noise, protocol
from metricforest.experiments.runner import settings_of

CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"pairs": 0},  # an unsupervised forest, which no label can mislead
    {"min_node_size": 2},
    {"min_node_size": 20},
    {"reg_lambda": 0.001},
    {"reg_lambda": 0.1},
    {"cannot_link_fraction": 0.1},
    {"cannot_link_fraction": 0.5},
    {"cannot_link_fraction": 1.0},
    {"alpha": 0.05},
    {"alpha": 2.0},
    {"max_features": 0.1},
    {"max_features": 1.0},
    {"solver": "subgradient"},
)


def accuracies(
    seed: int, level: int, settings: protocol.Settings, n_jobs: int, change: dict[str, Any]
) -> list[float]:
    """With wrong and with right voters, over all folds."""
    unit = protocol.Unit(noise.NAME, settings["dataset"], protocol.HFD, seed, (("noise", level),))
    given = {key: value for key, value in change.items() if key != "pairs"}
    hits: list[list[np.ndarray]] = [[], []]
    for fold in noise.folds(unit, settings):
        metric = protocol.make(protocol.HFD, settings["dataset"], settings, seed, n_jobs, **given)
        some = slice(change.get("pairs"))
        protocol.learn(metric, protocol.HFD, fold.X, fold.noisy, fold.pairs[some], fold.same[some])
        _, index = protocol.search(
            metric, protocol.HFD, fold.test_X, settings["neighbours"], settings["candidates"]
        )
        for found, voters in zip(hits, (fold.noisy, fold.y), strict=True):
            found.append(protocol.vote(voters[index]) == fold.test_y)
    return [float(np.concatenate(found).mean()) for found in hits]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--level", type=int, default=20, help="per cent of wrong labels")
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    settings = settings_of(noise.NAME, False) | {"trees": options.trees}
    print(
        f"| change | no noise | {options.level} %, wrong voters | lost "
        f"| {options.level} %, right voters | lost |\n" + "|---" * 6 + "|"
    )
    for change in CHANGES:
        found = 100 * np.array(  # [repetition, level, voters]
            [
                [
                    accuracies(seed, level, settings, options.jobs, change)
                    for level in (0, options.level)
                ]
                for seed in range(options.repetitions)
            ]
        )
        lost = found[:, 0] - found[:, 1]
        spread = lost.std(axis=0, ddof=1) / len(lost) ** 0.5
        name = ", ".join(f"`{key}` {value}" for key, value in change.items()) or "as it is"
        (before, _), (wrong, right) = found.mean(axis=0)
        print(
            f"| {name} | {before:.1f} "
            f"| {wrong:.1f} | {lost[:, 0].mean():.1f} ± {spread[0]:.1f} "
            f"| {right:.1f} | {lost[:, 1].mean():.1f} ± {spread[1]:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
