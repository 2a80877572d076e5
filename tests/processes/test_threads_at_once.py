"""Fits in several threads of one process: the same bits as one after the other, and BLAS left as it was."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from isoweave import embed_graph
from isoweave.datasets import swiss_roll
from isoweave.graph import knn_graph


def blas_threads():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


def in_threads(jobs, timeout=600):
    """Results of functions called at the same moment; a thread that hangs is reported, and is left behind."""
    barrier, results = threading.Barrier(len(jobs)), {}

    def work(job):
        barrier.wait(timeout)
        results[job] = job()

    threads = [threading.Thread(target=work, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    assert not any(thread.is_alive() for thread in threads), "a fit hangs"
    return [results[job] for job in jobs]


def roll(n, seed):
    """Distances to the neighbours on a swiss roll."""
    return knn_graph(swiss_roll(n, random_state=seed).data, 8).to_matrix()


@pytest.mark.parametrize(
    ("n_jobs", "settings"),
    [(1, {}), (2, {"refine": "none"}), (2, {"solver": "amg"}), (2, {"preset": "paper", "max_iter": 4})],
)
def test_same_bits_as_in_turn(n_jobs, settings):
    matrices = [roll(200, seed) for seed in (89, 97)]

    def fit(matrix):
        return embed_graph(matrix, 2, n_jobs=n_jobs, **settings)

    # Warnings filters are the process's, and pytest would turn this one into an error in any thread.
    if settings.get("preset") == "paper":
        settings = settings | {"tol": 10.0}
    expected = [fit(matrix) for matrix in matrices]
    with threadpool_limits(2, user_api="blas"):
        found = in_threads([lambda matrix=matrix: fit(matrix) for matrix in matrices * 2])
        assert set(blas_threads()) == {2}
    for a, b in zip(expected * 2, found, strict=True):
        np.testing.assert_array_equal(a.coordinates, b.coordinates)
        assert a.history == b.history


def test_every_thread_can_limit_blas():
    """Also after another thread, still alive, did; threadpoolctl 3.8 alone heeds only the first."""
    matrix, seen = roll(200, 89), []

    def fit():
        return embed_graph(matrix, 2, n_jobs=1, callback=lambda state: seen.append(blas_threads()))

    # Libraries that load on first use cannot be limited before.
    fit()
    seen.clear()
    with threadpool_limits(2, user_api="blas"):
        for jobs in ([fit], [fit], [fit, fit]):
            in_threads(jobs)
        assert set(blas_threads()) == {2}
    assert {count for counts in seen for count in counts} == {1}


def test_a_callback_may_fit_or_fail():
    """A fit inside the callback of another: neither notices. An error leaves no thread."""
    inner, outer = roll(150, 103), roll(200, 107)
    expected_inner, expected_outer = embed_graph(inner, n_jobs=2), embed_graph(outer, n_jobs=2)
    found, before = [], threading.active_count()

    def callback(state):
        if len(found) < 2:
            found.append(embed_graph(inner, n_jobs=2).coordinates)

    result = embed_graph(outer, n_jobs=2, callback=callback)
    np.testing.assert_array_equal(result.coordinates, expected_outer.coordinates)
    np.testing.assert_array_equal(found, [expected_inner.coordinates] * 2)
    with pytest.raises(ZeroDivisionError):
        embed_graph(outer, n_jobs=3, callback=lambda state: 1 / 0)
    assert threading.active_count() == before
