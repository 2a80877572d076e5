"""Matrices of distances, sparse and dense: what they become, and everything that is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from scipy.spatial.distance import cdist, pdist, squareform

from isoweave.graph import graph_from_matrix, knn_from_distances, knn_graph, merge_duplicates
from reference_graphs import as_dense, assert_permuted, edges_of, twin


def edges(graph):
    return {(i, j): d for i, j, d in edges_of(graph)}


def assert_well_formed(graph):
    assert graph.indptr.dtype == graph.indices.dtype == np.int32
    assert graph.lengths.dtype == np.float64
    assert all(array.flags.c_contiguous for array in (graph.indptr, graph.indices, graph.lengths))
    for i in range(graph.n_vertices):
        row = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        assert np.all(np.diff(row) > 0)
        assert i not in row
    np.testing.assert_array_equal(graph.sources[graph.reverse], graph.indices)
    np.testing.assert_array_equal(graph.indices[graph.reverse], graph.sources)
    np.testing.assert_array_equal(graph.lengths[graph.reverse], graph.lengths)


def coo(entries, n=4, dtype=np.float64):
    rows, cols, values = zip(*entries, strict=True)
    return sp.coo_array((np.array(values, dtype=dtype), (np.array(rows), np.array(cols))), shape=(n, n))


def changed(matrix, **arrays):
    """A matrix that scipy's constructors refuse but its attributes take."""
    result = matrix.copy()
    for name, values in arrays.items():
        setattr(result, name, np.asarray(values))
    return result


def loop_twin(entries, asymmetry="max"):
    """What graph_from_matrix promises, one entry at a time."""
    stored: dict[tuple[int, int], list[float]] = {}
    for i, j, value in entries:
        if i != j:
            stored.setdefault((min(i, j), max(i, j)), []).append(value)
    result = {}
    for (i, j), values in stored.items():
        low, high = min(values), max(values)
        result[i, j] = {"max": high, "min": low, "mean": 0.5 * (low + high)}[asymmetry]
    return result


ENTRY = st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([0.0, 0.25, 1.0, 2.0, 3.5]))


@settings(max_examples=60)
@given(
    entries=st.lists(ENTRY, min_size=1, max_size=30),
    asymmetry=st.sampled_from(["max", "min", "mean"]),
    form=st.sampled_from(["coo", "csr", "csc"]),
    index=st.sampled_from([np.int32, np.int64]),
)
def test_agrees_with_loop_twin(entries, asymmetry, form, index):
    entries = [(i, j, 0.0 if i == j else d) for i, j, d in entries]
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


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("form", ["coo", "csr", "csc", "lil", "dok", "dia", "bsr"])
def test_every_sparse_format(form, kind):
    dense = np.array([[0, 1, 0, 2], [1, 0, 3, 0], [0, 3, 0, 0], [2, 0, 0, 0]], dtype=float)
    graph = graph_from_matrix(kind(dense).asformat(form))
    assert_well_formed(graph)
    np.testing.assert_array_equal(graph.to_matrix().toarray(), dense)
    assert graph_from_matrix(graph) is graph
    empty = graph_from_matrix(kind((3, 3)).asformat(form))
    assert (empty.n_vertices, empty.n_edges) == (3, 0)


@pytest.mark.parametrize("form", ["coo", "csr"])
def test_real_types_and_memory(tmp_path, form):
    """Any real type; the input may be memory-mapped, and is neither changed nor shared."""
    entries = [(0, 1, 2), (2, 1, 3), (0, 3, 1)]
    for dtype in (np.float16, np.float32, np.longdouble, np.int8, np.uint16, np.int64):
        matrix = coo(entries).asformat(form)
        matrix.data = matrix.data.astype(dtype)
        assert edges(graph_from_matrix(matrix)) == loop_twin(entries)
    matrix, arrays = coo(entries).asformat(form), {}
    for name in ("data", "indices", "indptr") if form == "csr" else ("data", "row", "col"):
        np.save(tmp_path / f"{name}.npy", getattr(matrix, name))
        arrays[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    graph = graph_from_matrix(changed(matrix, **arrays))
    assert edges(graph) == loop_twin(entries)
    for array, own in itertools.product(arrays.values(), (graph.lengths, graph.indices, graph.indptr)):
        assert not np.shares_memory(array, own)


@pytest.mark.parametrize(("dtype", "rounding"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_rounding_is_no_asymmetry(dtype, rounding):
    matrix = coo([(0, 1, 1.0), (1, 0, 1.0 + rounding)], dtype=dtype)
    assert edges(graph_from_matrix(matrix))[0, 1] == float(dtype(1.0 + rounding))
    with pytest.raises(ValueError, match="disagree"):
        graph_from_matrix(coo([(0, 1, 1.0), (1, 0, 1.0 + 100 * rounding)], dtype=dtype), rtol=0)


NOT_SPARSE = r"Expected a scipy sparse matrix.*csr_array.*metric='precomputed'"
ONE = coo([(0, 1, 1.0)])
CSR = coo([(0, 1, 1.0), (1, 0, 1.0), (2, 3, 2.0)]).tocsr()
BAD = [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite"), (-2.0, "negative")]
REFUSED = [
    *((dense, {}, TypeError, NOT_SPARSE) for dense in (np.eye(3), [[0, 1], [1, 0]], "graph", None)),
    (sp.csr_array((3, 4)), {}, ValueError, r"square matrix, got shape \(3, 4\)"),
    (sp.csr_array((1, 1)), {}, ValueError, "at least 2 vertices"),
    (sp.csr_array((0, 0)), {}, ValueError, "at least 2 vertices"),
    (sp.coo_array(np.array([1.0, 2.0])), {}, ValueError, "square matrix, got shape"),
    (sp.csr_array(np.eye(2) * 1j), {}, ValueError, "Complex data not supported.*complex128"),
    (sp.csr_array(np.ones((2, 2), dtype=bool)), {}, TypeError, "dtype bool.*no lengths"),
    (changed(ONE, data=["far"]), {}, TypeError, "real numbers, got a matrix of dtype <U3"),
    (changed(CSR, indices=[1, 7, 3]), {}, ValueError, "not a valid CSR matrix: .*must be < 4"),
    (changed(CSR, indptr=[0, 3, 2, 3, 3]), {}, ValueError, "not a valid CSR matrix: ind"),
    (changed(CSR, indptr=[0, 1, 2, 3, 9]), {}, ValueError, "not a valid CSR matrix: Last value"),
    (changed(CSR.tocsc(), indices=[1, -1, 3]), {}, ValueError, "not a valid CSC matrix: .*ind"),
    (changed(ONE, row=[4]), {}, ValueError, "not a valid COO matrix: "),
    (changed(ONE, data=[1.0, 2.0]), {}, ValueError, "not a valid COO matrix: .*same length"),
    *((coo([(1, 3, x)]), {}, ValueError, rf"Entry \(1, 3\) is .*{text} dist") for x, text in BAD),
    (coo([(3, 3, 0.5)]).tocsc(), {}, ValueError, r"Diagonal entry \(3, 3\) is 0.5; .*must be zero"),
    (changed(CSR, data=[1.0, 3.0, 2.0]), {}, ValueError, r"\(0, 1\) = 1.0 and entry \(1, 0\) = 3.0"),
    (coo([(0, 1, 2.0), (0, 1, 4.0)]), {}, ValueError, r"entry \(0, 1\) = 2.0, 4.0; they .*asymmetry='max'"),
    (sp.csr_array(np.ones((4, 4)) - np.eye(4)), {}, ValueError, "6 edges, more than the 5"),
    (ONE, {"asymmetry": "maximum"}, ValueError, "asymmetry must be one of .* Did you mean 'max'"),
    (ONE, {"asymmetry": None}, TypeError, "asymmetry must be one of"),
    (ONE, {"rtol": -1}, ValueError, "rtol must be"),
    (ONE, {"rtol": "small"}, TypeError, "rtol must be"),
]


@pytest.mark.parametrize(("matrix", "options", "error", "text"), REFUSED)
def test_what_is_refused(matrix, options, error, text, monkeypatch):
    monkeypatch.setattr("isoweave.graph._assembly.MAX_STORED_EDGES", 11)
    with pytest.raises(error, match=text):
        graph_from_matrix(matrix, **options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_distances_agree_with_features(dtype, monkeypatch):
    """In blocks, and with duplicates."""
    monkeypatch.setattr("isoweave.graph._graph.block_rows", lambda n: 7)
    X = np.random.default_rng(103).normal(size=(50, 5))
    D = cdist(X, X).astype(dtype)
    D.flags.writeable = False
    found = as_dense(knn_from_distances(D, 6))
    np.testing.assert_array_equal(found, twin(D, 6))
    np.testing.assert_allclose(found, as_dense(knn_graph(X, 6)), rtol=4 * np.finfo(dtype).eps)
    X[5:20] = X[5]
    graph = knn_from_distances(cdist(X, X), 4)
    assert np.all(graph.degrees >= 4)
    distinct = np.delete(X, np.arange(6, 20), axis=0)
    expected = twin(cdist(distinct, distinct), 4)
    np.testing.assert_allclose(as_dense(merge_duplicates(graph)[0]), expected, rtol=1e-13)
    everything = knn_from_distances(np.zeros((9, 9)), 3)
    assert np.all(everything.degrees >= 3)
    assert merge_duplicates(everything)[0].n_vertices == 1


def test_ties_and_rounding_in_dense_distances():
    """Ties do not follow the numbering; rounding is forgiven."""
    rng = np.random.default_rng(113)
    D = squareform(np.round(pdist(rng.uniform(0, 40, size=(60, 2)))) + 1)  # whole miles tie often
    shuffle = rng.permutation(60)
    shuffled = knn_from_distances(D[np.ix_(shuffle, shuffle)], 5)
    assert_permuted(knn_from_distances(D, 5), shuffled, shuffle)
    D = squareform(pdist(rng.normal(size=(30, 4))))
    noisy = D * (1 + 1e-12 * rng.normal(size=D.shape))
    noisy[np.diag_indices(30)] = 1e-9
    noisy[3, 7] = noisy[7, 3] = -1e-17
    graph = knn_from_distances(noisy, 4)
    assert as_dense(graph)[3, 7] == 0
    D[3, 7] = D[7, 3] = 0
    np.testing.assert_allclose(as_dense(graph), as_dense(knn_from_distances(D, 4)), rtol=1e-11)


def line(*entries):
    """Distances of six points on a line, some entries replaced."""
    D = squareform(pdist(np.arange(6.0)[:, None]))
    for i, j, value in entries:
        D[i, j] = value
    return D


REFUSED_DENSE = [
    (line((1, 2, np.nan)), ValueError, r"Entry \(1, 2\) .* is nan; distances must be finite"),
    (line((1, 2, np.inf)), ValueError, r"Entry \(1, 2\) .* is inf; distances must be finite"),
    (line((4, 2, -1.0), (2, 4, -1.0)), ValueError, r"\(2, 4\) .* is -1.0; Negative values in data: dist"),
    (line((3, 3, 0.5)), ValueError, r"Entry \(3, 3\) .* is 0.5; the diagonal must be zero"),
    (line((1, 4, 2.0)), ValueError, r"Entry \(1, 4\) .* is 2.0; entry \(4, 1\) is 3.0"),
    (np.zeros((3, 4)), ValueError, r"square matrix, got shape \(3, 4\)"),
    (np.zeros((1, 1)), ValueError, "at least 2 vertices"),
    (np.zeros((3, 3)) * 1j, ValueError, "Complex data not supported"),
    (np.zeros((3, 3), dtype=bool), TypeError, "dtype bool"),
    (np.array([["a", "b"], ["c", "d"]]), TypeError, "real numbers"),
    (sp.csr_array((3, 3)), TypeError, "graph_from_matrix"),
    (np.zeros((2, 2)), ValueError, "less than the number of points, got 2 for 2"),
]


def test_dense_distances_that_are_refused(monkeypatch):
    monkeypatch.setattr("isoweave.graph._graph.block_rows", lambda n: 2)
    for D, error, text in REFUSED_DENSE:
        with pytest.raises(error, match=text):
            knn_from_distances(D, 2)
