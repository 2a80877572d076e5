from __future__ import annotations

import numpy as np
import pytest

from isoweave.io import InputFileError, read_columns


def write(tmp_path, text, name="about.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_words_and_gaps(tmp_path):
    text = 'age,town,empty\n3,Ulm,\n,"a, b",\n2.5,Ülm,\n'
    found = read_columns(write(tmp_path, text))
    assert found.names is None
    np.testing.assert_array_equal(found.values["age"], [3.0, np.nan, 2.5])
    assert found.values["town"].tolist() == ["Ulm", "a, b", "Ülm"]
    assert found.values["empty"].tolist() == ["", "", ""]


@pytest.mark.parametrize("header", ["vertex", "name", "ID", ""])
def test_names_of_rows(tmp_path, header):
    found = read_columns(write(tmp_path, f"{header}\tage\na\t1\nb\t2\n", "about.tsv"))
    assert found.names == ("a", "b")
    assert list(found.values) == ["age"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "holds no rows"),
        ("age\n", "line 1: there is a header, but no row below it"),
        ("age,town\n1\n", "line 2: expected 2 cells, found 1"),
        ("age,age\n1,2\n", "two columns are named 'age'"),
        ("age,\n1,2\n", "column 2 has no name"),
        ("age,3\n1,2\n", "must name the columns, but holds the number 3"),
        ("vertex\na\n", "names of rows, but no columns"),
        (",".join(f"c{i}" for i in range(1001)) + "\n", "1001 columns; at most 1000"),
        ('age,"town\n1,2\n', "badly quoted"),
    ],
)
def test_damage_is_named(tmp_path, text, match):
    with pytest.raises(InputFileError, match=match):
        read_columns(write(tmp_path, text))


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(InputFileError, match=r"read from \.csv or \.tsv, not '\.xlsx'"):
        read_columns(write(tmp_path, "", "about.xlsx"))
    with pytest.raises(InputFileError, match="no such file"):
        read_columns(tmp_path / "none.csv")
