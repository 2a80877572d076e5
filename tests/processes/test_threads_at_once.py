"""Fits in several threads of one process: the same bits as one after the other, and BLAS left as it was."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from isoweave import embed_graph
from isoweave._parallel import thread_team
from isoweave.datasets import swiss_roll
from isoweave.graph import knn_graph
from process_scripts import run_python


def blas_threads():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


def in_threads(jobs, timeout=600):
    """Results of functions called at the same moment; a thread that hangs is reported."""
    barrier = threading.Barrier(len(jobs))
    results = [None] * len(jobs)

    def work(slot):
        barrier.wait(timeout)
        try:
            results[slot] = jobs[slot]()
        except BaseException as error:
            results[slot] = error

    threads = [threading.Thread(target=work, args=(slot,), daemon=True) for slot in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    assert not any(thread.is_alive() for thread in threads), "a fit hangs"
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("settings", [{}, {"solver": "amg"}, {"preset": "paper", "max_iter": 4}])
def test_same_bits_as_in_turn(n_jobs, settings):
    matrices = [knn_graph(swiss_roll(300, random_state=seed).data, 8).to_matrix() for seed in (89, 97, 101)]

    def fit(matrix):
        return embed_graph(matrix, 2, n_jobs=n_jobs, **settings)

    # Warnings filters are the process's, and pytest would turn this one into an error in any thread.
    if settings.get("preset") == "paper":
        settings = settings | {"tol": 10.0}
    expected = [fit(matrix) for matrix in matrices]
    before = blas_threads()
    for _ in range(2):
        found = in_threads([lambda matrix=matrix: fit(matrix) for matrix in matrices])
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a.coordinates, b.coordinates)
            assert a.history == b.history
    assert blas_threads() == before


def test_overlapping_computations_share_the_blas_limit():
    """The first to leave must not lift the limit of the other, and the last must lift it."""
    np.ones((4, 4)) @ np.ones((4, 4))
    before = blas_threads()
    first, second = thread_team(1), thread_team(1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    between = blas_threads()
    second.__exit__(None, None, None)
    after = blas_threads()
    assert set(between) == {1}
    assert after == before


def test_every_thread_can_limit_blas():
    """Also after a thread that is still alive did; threadpoolctl 3.8 heeds only the first by itself."""
    matrix = knn_graph(swiss_roll(300, random_state=89).data, 8).to_matrix()
    before = blas_threads()
    seen = []

    def fit():
        return embed_graph(matrix, 2, n_jobs=1, callback=lambda state: seen.append(blas_threads()))

    # Libraries that are loaded on first use are not limited before they are there.
    fit()
    seen.clear()
    fit()
    in_threads([fit])
    in_threads([fit, fit])
    assert seen
    assert {count for counts in seen for count in counts} == {1}
    assert blas_threads() == before


def test_a_callback_may_fit():
    """A fit inside the callback of another: neither notices."""
    inner = knn_graph(swiss_roll(300, random_state=103).data, 8).to_matrix()
    outer = knn_graph(swiss_roll(400, random_state=107).data, 8).to_matrix()
    expected_inner, expected_outer = embed_graph(inner, n_jobs=2), embed_graph(outer, n_jobs=2)
    found = []

    def callback(state):
        if len(found) < 2:
            found.append(embed_graph(inner, n_jobs=2).coordinates)

    result = embed_graph(outer, n_jobs=2, callback=callback)
    np.testing.assert_array_equal(result.coordinates, expected_outer.coordinates)
    assert len(found) == 2
    for coordinates in found:
        np.testing.assert_array_equal(coordinates, expected_inner.coordinates)


def test_an_error_in_a_callback_leaves_no_thread():
    matrix = knn_graph(swiss_roll(400, random_state=107).data, 8).to_matrix()

    def callback(state):
        raise KeyError("mine")

    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(KeyError, match="mine"):
            embed_graph(matrix, n_jobs=3, callback=callback)
    assert threading.active_count() == before


FIRST_FITS = """
results = {}
barrier = threading.Barrier(3)
def work(seed):
    barrier.wait(500)
    results[seed] = digest(seed)
threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert results == {seed: digest(seed, n_jobs=1) for seed in (1, 2, 3)}, results
"""


def test_first_fits_of_a_process(tmp_path):
    """Modules are imported and kernels loaded by whichever thread comes first."""
    run_python(FIRST_FITS, folder=tmp_path)


@pytest.mark.slow
def test_first_fits_compile(tmp_path):
    """With nothing in the cache of compiled kernels, three threads ask for the same ones."""
    run_python(FIRST_FITS, folder=tmp_path, timeout=1200, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
