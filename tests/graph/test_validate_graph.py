from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from isoweave.graph import NeighborGraph, graph_from_matrix
from isoweave.graph import _validate as module


def edges(graph: NeighborGraph) -> dict[tuple[int, int], float]:
    return {
        (int(i), int(j)): float(d)
        for i, j, d in zip(graph.sources, graph.indices, graph.lengths, strict=True)
    }


def assert_well_formed(graph: NeighborGraph) -> None:
    assert graph.indptr.dtype == graph.indices.dtype == np.int32
    assert graph.lengths.dtype == np.float64
    for array in (graph.indptr, graph.indices, graph.lengths):
        assert array.flags.c_contiguous
    for i in range(graph.n_vertices):
        row = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        assert np.all(np.diff(row) > 0)
        assert i not in row
    found = edges(graph)
    assert all(found[j, i] == d for (i, j), d in found.items())


def coo(entries, n=4, dtype=np.float64):
    rows, cols, values = zip(*entries, strict=True)
    return sp.coo_array((np.array(values, dtype=dtype), (np.array(rows), np.array(cols))), shape=(n, n))


def with_data(data):
    """A matrix of values that scipy's constructors refuse but its attributes take."""
    matrix = coo([(0, 1, 1.0)])
    matrix.data = np.asarray(data)
    return matrix


def loop_twin(entries, asymmetry):
    """What graph_from_matrix promises, one entry at a time."""
    stored: dict[tuple[int, int], list[float]] = {}
    for i, j, value in entries:
        if i != j:
            stored.setdefault((min(i, j), max(i, j)), []).append(value)
    result = {}
    for (i, j), values in stored.items():
        low, high = min(values), max(values)
        length = {"max": high, "min": low, "mean": 0.5 * (low + high)}[asymmetry]
        result[i, j] = result[j, i] = length
    return result


ENTRY = st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([0.0, 0.25, 1.0, 2.0, 3.5]))


@settings(deadline=None, max_examples=150)
@given(
    entries=st.lists(ENTRY, min_size=1, max_size=30),
    asymmetry=st.sampled_from(["max", "min", "mean"]),
    form=st.sampled_from(["coo", "csr", "csc"]),
    wide=st.booleans(),
)
def test_agrees_with_loop_twin(entries, asymmetry, form, wide):
    entries = [(i, j, 0.0 if i == j else d) for i, j, d in entries]
    index = np.int64 if wide else np.int32
    rows, cols = (np.array(side, dtype=index) for side in list(zip(*entries, strict=True))[:2])
    values = np.array([d for *_, d in entries])
    if form == "coo":
        matrix = sp.coo_array((values, (rows, cols)), shape=(6, 6))
    else:
        # Compressed by hand: scipy's own conversion would sum the repeated entries.
        major, minor = (rows, cols) if form == "csr" else (cols, rows)
        order = np.argsort(major, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(major, minlength=6))]).astype(index)
        kind = sp.csr_array if form == "csr" else sp.csc_array
        matrix = kind((values[order], minor[order], indptr), shape=(6, 6))
    graph = graph_from_matrix(matrix, asymmetry=asymmetry)
    assert_well_formed(graph)
    assert edges(graph) == loop_twin(entries, asymmetry)


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", ["coo", "csr", "csc", "lil", "dok", "dia", "bsr"])
def test_every_sparse_format(form, kind):
    dense = np.array([[0, 1, 0, 2], [1, 0, 3, 0], [0, 3, 0, 0], [2, 0, 0, 0]], dtype=float)
    base = sp.csr_array(dense) if kind == "array" else sp.csr_matrix(dense)
    graph = graph_from_matrix(base.asformat(form))
    assert_well_formed(graph)
    np.testing.assert_array_equal(graph.to_matrix().toarray(), dense)


@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
def test_explicit_zeros_are_edges(form):
    matrix = coo([(0, 1, 0.0), (1, 2, 1.0), (3, 2, 0.0), (2, 3, 0.0)]).asformat(form)
    found = edges(graph_from_matrix(matrix))
    assert found == {(0, 1): 0, (1, 0): 0, (1, 2): 1, (2, 1): 1, (2, 3): 0, (3, 2): 0}


def test_explicit_zeros_survive_where_all_is_symmetric_and_sorted():
    matrix = coo([(0, 1, 0.0), (1, 0, 0.0), (1, 2, 1.0), (2, 1, 1.0)]).tocsr()
    assert edges(graph_from_matrix(matrix)) == {(0, 1): 0, (1, 0): 0, (1, 2): 1, (2, 1): 1}


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.longdouble, np.int8, np.uint16, np.int64]
)
@pytest.mark.parametrize("form", ["coo", "csr"])
def test_real_types(dtype, form):
    matrix = coo([(0, 1, 1), (1, 0, 1), (1, 2, 3), (2, 3, 2)]).asformat(form)
    matrix.data = matrix.data.astype(dtype)
    assert edges(graph_from_matrix(matrix)) == loop_twin([(0, 1, 1), (1, 2, 3), (2, 3, 2)], "max")


@pytest.mark.parametrize("sides", [1, 2])
def test_input_is_neither_changed_nor_shared(sides):
    entries = [(0, 1, 2.0), (2, 1, 3.0), (0, 3, 1.0)]
    entries += [(j, i, d) for i, j, d in entries] if sides == 2 else []
    matrix = coo(entries).tocsr()
    before = [matrix.data.copy(), matrix.indices.copy(), matrix.indptr.copy()]
    graph = graph_from_matrix(matrix)
    for array, copy in zip((matrix.data, matrix.indices, matrix.indptr), before, strict=True):
        np.testing.assert_array_equal(array, copy)
        for own in (graph.lengths, graph.indices, graph.indptr):
            assert not np.shares_memory(array, own)


@pytest.mark.parametrize("form", ["csr", "coo"])
def test_read_only_and_memory_mapped_arrays(tmp_path, form):
    expected = coo([(0, 1, 2.0), (1, 0, 2.0), (2, 1, 3.0), (0, 3, 1.0)]).asformat(form)
    names = ("data", "indices", "indptr") if form == "csr" else ("data", "row", "col")
    mapped = []
    for name in names:
        np.save(tmp_path / f"{name}.npy", getattr(expected, name))
        mapped.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    if form == "csr":
        matrix = sp.csr_array(tuple(mapped), shape=(4, 4))
    else:
        matrix = sp.coo_array((mapped[0], (mapped[1], mapped[2])), shape=(4, 4))
    assert not matrix.data.flags.writeable
    assert edges(graph_from_matrix(matrix)) == edges(graph_from_matrix(expected))


@pytest.mark.parametrize("form", ["coo", "csr"])
def test_asymmetry_policies(form):
    matrix = coo([(0, 1, 1.0), (1, 0, 3.0), (1, 2, 5.0)]).asformat(form)
    for policy, length in {"max": 3.0, "min": 1.0, "mean": 2.0}.items():
        found = edges(graph_from_matrix(matrix, asymmetry=policy))
        assert found[0, 1] == found[1, 0] == length
        assert found[1, 2] == found[2, 1] == 5.0
    with pytest.raises(ValueError, match=r"entry \(0, 1\) = 1.0 and entry \(1, 0\) = 3.0.*asymmetry='max'"):
        graph_from_matrix(matrix)


def test_repeated_entries_are_not_summed():
    same = coo([(0, 1, 2.0), (0, 1, 2.0), (1, 2, 1.0)])
    assert edges(graph_from_matrix(same))[0, 1] == 2.0
    different = coo([(0, 1, 2.0), (0, 1, 4.0), (1, 2, 1.0)])
    with pytest.raises(ValueError, match=r"entry \(0, 1\) = 2.0, 4.0; they differ"):
        graph_from_matrix(different)
    assert edges(graph_from_matrix(different, asymmetry="mean"))[1, 0] == 3.0


@pytest.mark.parametrize(("dtype", "rounding"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_rounding_is_no_asymmetry(dtype, rounding):
    matrix = coo([(0, 1, 1.0), (1, 0, 1.0 + rounding)], dtype=dtype)
    length = float(dtype(1.0 + rounding))
    for form in ("coo", "csr"):
        assert edges(graph_from_matrix(matrix.asformat(form)))[0, 1] == length
    with pytest.raises(ValueError, match="disagree"):
        graph_from_matrix(coo([(0, 1, 1.0), (1, 0, 1.0 + 100 * rounding)], dtype=dtype), rtol=0)


@pytest.mark.parametrize(
    ("value", "text"), [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite"), (-2.0, "negative")]
)
@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
@pytest.mark.parametrize("sides", [1, 2])
def test_bad_values_are_named(value, text, form, sides):
    entries = [(0, 1, 1.0), (1, 3, value), (2, 3, value)]
    entries += [(j, i, d) for i, j, d in entries] if sides == 2 else []
    with pytest.raises(ValueError, match=rf"Entry \(\d, \d\) is .*{text} distances") as caught:
        graph_from_matrix(coo(entries).asformat(form))
    assert ("(1, 3)" in str(caught.value)) or ("(3, 1)" in str(caught.value))


@pytest.mark.parametrize("form", ["coo", "csr"])
def test_diagonal(form):
    entries = [(0, 1, 1.0), (1, 0, 1.0), (2, 2, 0.0)]
    assert edges(graph_from_matrix(coo(entries).asformat(form))) == {(0, 1): 1, (1, 0): 1}
    with pytest.raises(ValueError, match=r"Diagonal entry \(3, 3\) is 0.5.*must be zero"):
        graph_from_matrix(coo([*entries, (3, 3, 0.5)]).asformat(form))


@pytest.mark.parametrize("dense", [np.eye(3), [[0, 1], [1, 0]], "graph", None])
def test_what_is_not_sparse_is_a_type_error(dense):
    with pytest.raises(TypeError, match=r"Expected a scipy sparse matrix.*csr_array.*metric='precomputed'"):
        graph_from_matrix(dense)


@pytest.mark.parametrize(
    ("matrix", "error", "text"),
    [
        (sp.csr_array((3, 4)), ValueError, r"square matrix, got shape \(3, 4\)"),
        (sp.csr_array((1, 1)), ValueError, "at least 2 vertices"),
        (sp.csr_array((0, 0)), ValueError, "at least 2 vertices"),
        (sp.coo_array(np.array([1.0, 2.0])), ValueError, "square matrix, got shape"),
        (sp.csr_array(np.eye(2) * 1j), ValueError, "Complex data not supported.*complex128"),
        (sp.csr_array(np.ones((2, 2), dtype=bool)), TypeError, "dtype bool.*no lengths"),
        (with_data(["far"]), TypeError, "real numbers, got a matrix of dtype <U3"),
        (with_data(np.array([None], dtype=object)), TypeError, "real numbers, got a matrix of dtype object"),
    ],
)
def test_wrong_kinds_of_matrix(matrix, error, text):
    with pytest.raises(error, match=text):
        graph_from_matrix(matrix)


def test_corrupt_compressed_matrices():
    good = coo([(0, 1, 1.0), (1, 0, 1.0), (2, 3, 2.0)]).tocsr()
    broken = good.copy()
    broken.indices[1] = 7
    with pytest.raises(ValueError, match=r"entry 1 has index 7, outside 0 .. 3"):
        graph_from_matrix(broken)
    broken = good.copy()
    broken.indptr[1] = 3
    with pytest.raises(ValueError, match="not a valid CSR matrix: indptr"):
        graph_from_matrix(broken)
    broken = good.copy()
    broken.indptr[-1] = 9
    with pytest.raises(ValueError, match="declares 9 entries"):
        graph_from_matrix(broken)


def test_too_many_edges(monkeypatch):
    matrix = coo([(i, j, 1.0) for i, j in itertools.combinations(range(4), 2)])
    monkeypatch.setattr(module, "MAX_STORED_EDGES", 11)
    with pytest.raises(ValueError, match="6 edges, more than the 5"):
        graph_from_matrix(matrix)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"asymmetry": "maximum"}, ValueError, "asymmetry must be one of .* Did you mean 'max'"),
        ({"asymmetry": None}, TypeError, "asymmetry must be one of"),
        ({"rtol": -1}, ValueError, "rtol must be"),
        ({"rtol": "small"}, TypeError, "rtol must be"),
    ],
)
def test_bad_options(options, error, text):
    with pytest.raises(error, match=text):
        graph_from_matrix(coo([(0, 1, 1.0)]), **options)


def test_a_graph_passes_through_and_no_entries_are_no_edges():
    graph = graph_from_matrix(coo([(0, 1, 1.0)]))
    assert graph_from_matrix(graph) is graph
    empty = graph_from_matrix(sp.coo_array((3, 3)))
    assert_well_formed(empty)
    assert (empty.n_vertices, empty.n_edges) == (3, 0)
    assert graph_from_matrix(sp.csr_array((3, 3))).n_edges == 0


@pytest.mark.parametrize("seed", [31, 32])
def test_edge_order_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    rows, cols = rng.integers(0, 300, size=(2, 4000))
    values = 1.0 + (rows + cols) % 7
    keep = rows != cols
    rows, cols, values = rows[keep], cols[keep], values[keep]
    reference = graph_from_matrix(sp.coo_array((values, (rows, cols)), shape=(300, 300)))
    assert_well_formed(reference)
    shuffle = rng.permutation(len(rows))
    shuffled = sp.coo_array((values[shuffle], (cols[shuffle], rows[shuffle])), shape=(300, 300))
    for graph in (graph_from_matrix(shuffled), graph_from_matrix(reference.to_matrix())):
        np.testing.assert_array_equal(graph.indptr, reference.indptr)
        np.testing.assert_array_equal(graph.indices, reference.indices)
        np.testing.assert_array_equal(graph.lengths, reference.lengths)
    np.testing.assert_array_equal(reference.lengths[reference.reverse], reference.lengths)
