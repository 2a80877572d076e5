"""Tests of the cluster engine: under mpiexec by `make test-cluster`, skipped where there is no PETSc."""

import os

import pytest


@pytest.fixture(scope="session")
def comm():
    """All ranks of this run; a test that takes it is run by every one of them."""
    pytest.importorskip("petsc4py", reason="needs PETSc: make test-cluster")
    return pytest.importorskip("mpi4py.MPI", reason="needs MPI: make test-cluster").COMM_WORLD


@pytest.fixture
def folder(comm, tmp_path_factory):
    """The same empty folder on all ranks."""
    return comm.bcast(tmp_path_factory.mktemp("folder") if comm.rank == 0 else None)


def _size():
    # Without importing MPI, which would start it.
    return int(os.environ.get("OMPI_COMM_WORLD_SIZE", os.environ.get("PMI_SIZE", "1")))


def _rank():
    return int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")))


def pytest_collection_modifyitems(items):
    """Of several ranks only those tests are run that use them."""
    if _size() > 1:
        items[:] = [item for item in items if "comm" in getattr(item, "fixturenames", ())]


def pytest_sessionstart(session):
    """One rank speaks, unless another fails."""
    if _rank():
        session.config.get_terminal_writer()._file = open(os.devnull, "w")  # noqa: SIM115


def pytest_exception_interact(call, report):
    """The others would wait for the failing one for ever."""
    if _size() > 1:
        from mpi4py import MPI

        print(f"\nrank {_rank()} of {_size()}:\n{report.longreprtext}", flush=True)
        MPI.COMM_WORLD.Abort(1)
