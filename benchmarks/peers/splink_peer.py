"""Matches by splink without any label; runs in an environment with splink alone.

    python splink_peer.py FOLDER

As its tutorials do, with what can be said of a table nobody has looked at: every column is compared by
Jaro-Winkler at .92, .88 and .7; pairs are looked at that agree in a column, or in the first five letters of
one. u is learned from 1,000,000 random pairs; the share of matches from pairs that agree in two columns
(such as no more pairs than rows agree in), which 70 % of the matches are thought to do; m by expectation
maximisation over pairs that agree in one column, for each column in which at most ten pairs for a row do.
What is as likely as not a match is one. FOLDER holds left.csv and perhaps right.csv; matches.csv is written
there.
"""

import csv
import itertools
import sys
from pathlib import Path

import duckdb
import splink.comparison_library as cl
from splink import Linker, SettingsCreator, block_on
from splink.internals.duckdb.database_api import DuckDBAPI

MOST = 3_000_000  # pairs a rule may bring: more would be a column of few values


def n_pairs(con, names, key):
    one = f"select {key} as k, count(*) as n from {names[0]} where {key} is not null group by 1"
    if len(names) == 1:
        query = f"select coalesce(sum(n * (n - 1) / 2), 0) from ({one})"
    else:
        two = one.replace(names[0], names[1])
        query = f"select coalesce(sum(x.n * y.n), 0) from ({one}) x join ({two}) y using (k)"
    return con.sql(query).fetchall()[0][0]


def main() -> None:
    folder = Path(sys.argv[1])
    files = [n for n in ("left", "right") if (folder / f"{n}.csv").exists()]
    names = [f"{file}_rows" for file in files]
    con = duckdb.connect()
    for file, name in zip(files, names, strict=True):
        con.sql(f"create table {name} as from read_csv('{folder / file}.csv', all_varchar=true)")
        columns = [row[0] for row in con.sql(f"describe {name}").fetchall() if row[0] != "id"]
        for column in columns:
            con.sql(f'update {name} set "{column}" = nullif(lower(trim("{column}")), \'\')')
    rules = []
    for column in columns:
        if n_pairs(con, names, f'"{column}"') <= MOST:
            rules.append(block_on(column))
        elif n_pairs(con, names, f'substr("{column}", 1, 5)') <= MOST:
            rules.append(block_on(f"substr({column}, 1, 5)"))
    if len(columns) == 1:
        rules.append(block_on(f"substr({columns[0]}, 1, 5)"))
    settings = SettingsCreator(
        link_type="dedupe_only" if len(names) == 1 else "link_only",
        unique_id_column_name="id",
        comparisons=[cl.JaroWinklerAtThresholds(column, [0.92, 0.88, 0.7]) for column in columns],
        blocking_rules_to_generate_predictions=rules,
    )
    api = DuckDBAPI(connection=con)
    frames = [api.register(name) for name in names]
    linker = Linker(frames if len(frames) > 1 else frames[0], settings)
    n_rows = min(con.sql(f"select count(*) from {name}").fetchall()[0][0] for name in names)
    sure = [
        block_on(*two)
        for two in itertools.combinations(columns, 2)
        if n_pairs(con, names, f'"{two[0]}" || chr(10) || "{two[1]}"') <= n_rows
    ]
    linker.training.estimate_probability_two_random_records_match(sure or rules, recall=0.7)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=1)
    learned = [
        block_on(column) for column in columns if n_pairs(con, names, f'"{column}"') <= 10 * n_rows
    ]
    for rule in learned or rules:
        try:
            linker.training.estimate_parameters_using_expectation_maximisation(rule)
        except Exception as error:  # a rule without pairs to learn from
            print(f"no learning from {rule}: {str(error).splitlines()[0]}", file=sys.stderr)
    found = linker.inference.predict(threshold_match_probability=0.5).as_record_list()
    with (folder / "matches.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["a", "b"])
        out.writerows((row["id_l"], row["id_r"]) for row in found)


if __name__ == "__main__":
    main()
