"""What labels of drawn candidates say of a match, labelled by the truth about all candidates."""

import numpy as np
import pytest
from test_pair_model import labelled, shops

from metricforest import PairModel
from metricforest.tables.pair_audit import STRATA, audit, drawn, strata_of


def candidates(seed, n=4_000):
    """(probability, truth) of candidates of a model that is far too sure of itself."""
    rng = np.random.default_rng(seed)
    probability = rng.beta(0.3, 1.5, size=n)
    return probability, rng.random(n) < 0.7 * probability**2


def rates(probability, truth, threshold):
    called = probability >= threshold
    hits = (called & truth).sum()
    return hits / called.sum(), hits / truth.sum()


def parted(seed):
    """Candidates of a good model: nearly all pairs are sure, and those above one half are right."""
    rng = np.random.default_rng(seed)
    probability = np.concatenate([rng.beta(0.5, 60, size=3_600), rng.beta(20, 1, size=400)])
    return probability, rng.random(4_000) < np.where(probability > 0.5, 0.9, 0.01)


def rare(seed):
    """A table's candidates, one in 85 of them a match, by a model that is not sure of itself."""
    rng = np.random.default_rng(seed)
    truth = np.arange(9_500) < 112
    return np.where(truth, rng.beta(12, 3, 9_500), rng.beta(1, 22, 9_500)), truth


@pytest.mark.parametrize("made", [candidates, parted, rare])
@pytest.mark.parametrize("n", [40, 160])
def test_intervals_hold_the_truth_about_as_often_as_they_say(made, n):
    inside = []
    for seed in range(150):
        probability, truth = made(seed)
        chosen = drawn(strata_of(probability, 0.5), n, np.random.default_rng(seed))
        found = audit(probability, chosen, truth[chosen], 0.5, None, 0.5)
        precision, recall = rates(probability, truth, 0.5)
        inside.append([
            found.precision_interval[0] <= precision <= found.precision_interval[1],
            found.recall_interval[0] <= recall <= found.recall_interval[1],
        ])  # fmt: skip
    assert np.mean(inside, axis=0).min() >= 0.88


def test_few_labels_say_much_where_matches_are_rare():
    """60 of 9,500 pairs: a tenth is left open of the precision."""
    probability, truth = rare(0)
    chosen = drawn(strata_of(probability, 0.5), 60, np.random.default_rng(0))
    low, high = audit(probability, chosen, truth[chosen], 0.5, None, 0.5).precision_interval
    assert high - low < 0.15
    assert truth[chosen].sum() > 20


def test_matches_that_are_kept_are_what_is_audited():
    """One to one: two matches of one row are one, and the expected precision rises."""
    probability, truth = candidates(0)
    every = np.arange(len(truth))

    def right_ones(threshold):
        return (probability >= threshold) & (truth | (every % 2 == 0))

    loose = audit(probability, every, truth, 0.5, None, 0.5)
    kept = audit(probability, every, truth, 0.5, None, 0.5, right_ones)
    assert kept.n_matches == right_ones(0.5).sum() < loose.n_matches
    want = truth[right_ones(0.5)].mean()
    assert kept.precision == pytest.approx(want, abs=0.02)
    assert kept.precision > loose.precision + 0.05


def test_with_every_candidate_labelled_the_rates_are_known():
    probability, truth = candidates(0)
    every = np.arange(len(truth))
    cuts = [probability[strata_of(probability, 0.5) == s].min() for s in range(STRATA)]
    for cut in cuts:
        found = audit(probability, every, truth, cut, None, 0.5)
        assert found.precision == pytest.approx(rates(probability, truth, cut)[0], abs=0.02)
        assert found.recall == pytest.approx(rates(probability, truth, cut)[1], abs=0.02)
    assert found.match_rate == pytest.approx(truth.mean(), abs=0.005)


def test_a_stricter_wish_is_never_looser_and_is_met():
    for seed in range(20):
        probability, truth = candidates(seed)
        chosen = drawn(strata_of(probability, 0.5), 40, np.random.default_rng(seed))
        before = 0.0
        for wish in np.linspace(0.0, 1.0, 21):
            try:
                found = audit(probability, chosen, truth[chosen], 0.5, float(wish), 0.5)
            except ValueError as error:
                assert "no threshold has an expected precision" in str(error)  # noqa: PT017
                break
            assert found.threshold >= before
            assert found.precision >= wish - 1e-12
            before = found.threshold


def test_a_sample_takes_as_many_of_every_stratum():
    probability, _ = candidates(0)
    stratum = strata_of(probability, 0.5)
    assert (np.diff(stratum[np.argsort(probability)]) >= 0).all()
    chosen = drawn(stratum, 80, np.random.default_rng(0))
    assert np.bincount(stratum[chosen], minlength=STRATA).tolist() == [10] * STRATA
    assert len(set(chosen.tolist())) == 80
    few = drawn(np.array([0, 0, 1, 2]), 80, np.random.default_rng(0))
    assert sorted(few.tolist()) == [0, 1, 2, 3]


def test_equal_probabilities_are_one_stratum():
    assert len(set(strata_of(np.full(50, 0.3), 0.5).tolist())) == 1


def test_a_table_is_asked_about_and_the_answer_is_near_the_truth():
    left, right = shops(120)
    model = PairModel(n_estimators=50, random_state=0).fit(left, right, pairs=labelled(120, 150))
    left, right = shops(200, seed=3)
    matches = model.match(left, right)
    truth = (matches["a"] == matches["b"]).mean()
    inside = []
    for seed in range(8):
        asked = model.set_params(random_state=seed).questions(80, left, right)
        told = (asked["a"] == asked["b"]).astype(int)
        pairs = np.column_stack([asked["a"], asked["b"]])
        found = model.audit(pairs, told, left, right)
        assert found.n_matches == len(matches["a"])
        assert found.threshold == model.threshold_
        inside.append(found.precision_interval[0] <= truth <= found.precision_interval[1])
    assert sum(inside) >= 6
    assert str(found).startswith(f"{found.n_matches} matches from probability")
    wished = model.audit(pairs, told, left, right, precision=0.5)
    assert len(model.match(left, right, threshold=wished.threshold)["a"]) == wished.n_matches


def test_what_cannot_be_said_is_not_said():
    left, right = shops(60)
    model = PairModel(n_estimators=20, random_state=0).fit(left, right, pairs=labelled(60, 90))
    asked = model.questions(40)
    pairs = np.column_stack([asked["a"], asked["b"]])
    told = (asked["a"] == asked["b"]).astype(int)
    with pytest.raises(ValueError, match="3 labels say nothing of"):
        model.audit(pairs[:3], told[:3])
    candidates = {tuple(p) for p in model._candidates(model.comparison_, 10)[0].tolist()}
    other = next((0, b) for b in range(60) if (0, b) not in candidates)
    with pytest.raises(ValueError, match="1 of 1 pairs are not candidates of these tables"):
        model.audit([other], [0])
    with pytest.raises(ValueError, match="a threshold or a precision, not both"):
        model.audit(pairs, told, threshold=0.5, precision=0.9)
    with pytest.raises(ValueError, match=r"precision must be in \[0, 1\], got 95"):
        model.audit(pairs, told, precision=95)
    with pytest.raises(ValueError, match="n must be a whole number of at least 8, got 3"):
        model.questions(3)
