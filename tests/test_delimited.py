"""How a text table is written, guessed from its first rows: what is between values, and what is before decimals."""

from pathlib import Path

import pytest

from offmap.tablefiles import read_batches, read_table


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("table.csv", "size;label\n1.5;a,b\n-2;c\n"),
        ("table.csv", '"size";"label"\n1,5;"a,b"\n-2;"c"\n'),
        ("table.csv", "size|label\n1,5|a,b\n-2|c\n"),
        ("table.csv", "size\tlabel\n 1,5\ta,b\n-2\tc\n"),
        ("table.csv", "size;label\n1,5;a,b\n-2;c\n"),
        ("table.tsv", 'size,label\n1.5,"a,b"\n-2,c\n'),
        ("table.tsv", "size;label\n1,5e0;a,b\n-2;c\n"),
    ],
)
def test_other_separators_and_decimal_commas_are_recognised(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    table = read_table(tmp_path / name)
    assert table.column_names == ["size", "label"]
    assert [float(size) for size in table["size"].to_pylist()] == [1.5, -2]
    assert table["label"].to_pylist() == ["a,b", "c"]


def test_names_may_hold_what_is_not_between_them(tmp_path: Path) -> None:
    (tmp_path / "units.csv").write_text("Druck, bar;Länge, mm\n1,5;20\n2;30,5\n", encoding="utf-8")
    table = read_table(tmp_path / "units.csv")
    assert table.to_pydict() == {"Druck, bar": ["1.5", "2"], "Länge, mm": ["20", "30.5"]}


def test_a_comma_is_not_taken_for_a_decimal_one_where_it_may_be_something_else(tmp_path: Path) -> None:
    def cells(name: str, text: str) -> list[str]:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return read_table(tmp_path / name)["a"].to_pylist()

    assert cells("points.csv", "a;b\n1,234;2.5\n") == ["1,234"], "a thousand, where decimals follow points"
    assert cells("commas.csv", 'a,b\n"1,234",2\n') == ["1,234"]
    assert cells("tabs.tsv", "a\tb\n1,234\t2\n") == ["1,234"]
    assert cells("one.csv", '"a"\n"1;5"\n') == ["1;5"]


def test_decimal_commas_beyond_the_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("a;b\n" + "1,5;x\n" * 400_000, encoding="utf-8")
    assert sum(table.num_rows for table in read_batches(path, 10_000)) == 400_000
    assert set(read_table(path)["a"].to_pylist()) == {"1.5"}
