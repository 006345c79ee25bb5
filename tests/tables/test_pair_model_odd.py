"""A pair model in bad hands: odd values, other files, many threads."""

import pickle
import threading

import numpy as np
import pytest

from metricforest import PairModel, load
from metricforest.storage.format import read, write

NAMES = [f"{word} {i // 2}" for i, word in enumerate(["Echo", "Dorn", "Sol", "Rio"] * 10)]
TABLE = {"name": NAMES, "price": [str(i % 7) for i in range(40)]}
PAIRS = [(i, i + 1, i % 3 % 2) for i in range(0, 38, 2)]


@pytest.fixture(scope="module")
def model():
    return PairModel(n_estimators=3, random_state=0).fit(TABLE, pairs=PAIRS)


def loaded(model, folder, change):
    """The model as a file gives it whose state was changed, all checksums right."""
    path = folder / "m.mf"
    model.save(path)
    content = read(path, mmap=False)
    change(content.state)
    write(path, content)
    return load(path)


def of(state, *path):
    for name in path:
        state = state[name]
    return state


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda s: s.update(threshold_=float("nan")), "threshold_ is nan"),
        (lambda s: s.update(threshold_=2.0), "threshold_ is 2.0"),
        (lambda s: s.update(threshold_="0.5"), "threshold_ is 0.5"),
        (lambda s: s.update(other=1), "it holds .*other"),
        (lambda s: s["ids_"].append(np.arange(40)), "differ in number: 2 lists of ids"),
        (lambda s: s["ids_"].__setitem__(0, np.zeros(40, np.int64)), "one of them twice"),
        (lambda s: s["ids_"].__setitem__(0, np.arange(40.0)), "no whole numbers or text"),
        (lambda s: s["ids_"].__setitem__(0, np.arange(80).reshape(40, 2)), r"\(40, 2\) ids"),
        (lambda s: of(s, "scorer_", "weights").__setitem__(0, 1e300), "too large"),
        (lambda s: s["scorer_"].update(share=1.5), "too large"),
        (lambda s: s["scorer_"].update(bias=1), "is none"),
        (lambda s: of(s, "scorer_", "knots").__setitem__(0, 9e9), "knots do not rise"),
        (lambda s: of(s, "scorer_", "trees").value.__setitem__(0, 1.5), "not in"),
        (lambda s: of(s, "comparison_", "weights").__setitem__(0, 0.0), "weight of a token"),
        (lambda s: of(s, "comparison_", "rest").__setitem__(0, 1e9), "weight of a token"),
        (lambda s: of(s, "comparison_", "tokens").__setitem__(1, 0), "tokens do not rise"),
        (lambda s: s["comparison_"].update(names=np.array(["x", "x"], object)), "2 columns, 1 names"),
        (lambda s: s["held_out_probability_"].__setitem__(0, 2.0), "held_out_probability_ is not in"),
    ],
)  # fmt: skip
def test_a_file_says_only_what_can_be(model, tmp_path, change, match):
    if "held_out" in match:
        model = PairModel(n_estimators=2, random_state=0)
        model.fit(TABLE, pairs=[(i, j, (i + j) % 2) for i in range(8) for j in range(i)])
    with pytest.raises(ValueError, match=rf"cannot load .*m\.mf: .*{match}"):
        loaded(model, tmp_path, change)


def test_an_unchanged_file_comes_back(model, tmp_path):
    again = loaded(model, tmp_path, lambda state: None)
    np.testing.assert_array_equal(again.match(candidates=3)["probability"],
                                  model.match(candidates=3)["probability"])  # fmt: skip


def test_a_kind_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="must be one of number, boolean, date, category, text, "):
        PairModel(kinds={"name": "sound"}).fit(TABLE, pairs=PAIRS)


def test_numbers_beyond_single_precision_are_compared():
    table = {**TABLE, "size": ["1" + "0" * (300 * (i % 2)) for i in range(40)]}
    found = PairModel(n_estimators=3, random_state=0).fit(table, pairs=PAIRS).match(threshold=0.0)
    assert np.isfinite(found["probability"]).all()


def test_tables_that_have_nothing_in_common(model):
    left, right = {"name": ["aaa"], "price": [""]}, {"name": ["zzz"], "price": [""]}
    assert len(model.match(left, right)["a"]) == 0
    assert len(model.questions(20, left, right)["a"]) == 0
    with pytest.raises(ValueError, match="1 of 1 pairs are not candidates"):
        model.audit([[0, 0, 1]], left=left, right=right)
    none = {"name": [], "price": []}
    assert len(model.match(none, none)["a"]) == 0
    assert len(model.probability(np.empty((0, 2), np.int64), left, right)) == 0


def test_a_pair_is_two_ids(model):
    for pair in ([0, 1, 2], [0], "01"):
        with pytest.raises(ValueError, match="pair must be two ids"):
            model.explain(pair)


def test_many_threads_may_ask(model):
    asked = [(i, j) for i in range(20) for j in range(20, 40)]
    alone = pickle.loads(pickle.dumps(model))
    want = alone.probability(asked)
    for _ in range(5):
        fresh = pickle.loads(pickle.dumps(model))  # what was looked for is not in a copy
        start, found = threading.Barrier(4), []

        def ask(fresh=fresh, start=start, found=found):
            start.wait()
            found.append(fresh.probability(asked))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        for answer in found:
            np.testing.assert_array_equal(answer, want)
