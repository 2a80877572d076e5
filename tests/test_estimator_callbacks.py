"""scikit-learn's callbacks, where the installed version has them."""

import pytest
from sklearn.datasets import make_swiss_roll
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from isoweave import IsometricEmbedding

POINTS = make_swiss_roll(200, random_state=1)[0]


class Recorder:
    """Follows the protocol and writes down what it is told."""

    def __init__(self, stop_after=None):
        self.calls, self.stop_after = [], stop_after

    def setup(self, estimator, context):
        self.calls.append(("setup", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, metadata):
        self.calls.append(("end", context.task_name, context.task_id))
        return self.stop_after is not None and (metadata or {}).get("iteration") == self.stop_after

    def teardown(self, estimator, context):
        self.calls.append(("teardown", context.task_name))


@pytest.fixture(autouse=True)
def callbacks():
    return pytest.importorskip("sklearn.callback")


def fitted(recorder, **options):
    model = IsometricEmbedding(n_neighbors=8, start="landmark", tol=1e-3, global_weight=0, **options)
    return model.set_callbacks(recorder).fit(POINTS)


def test_every_step_is_a_task():
    recorder, seen = Recorder(), []
    model = fitted(recorder, callback=lambda state: seen.append(state.iteration))
    assert recorder.calls[0] == ("setup", "fit")
    assert recorder.calls[-1] == ("teardown", "fit")
    begun = [call[1:] for call in recorder.calls if call[0] == "begin"]
    ended = [call[1:] for call in recorder.calls if call[0] == "end"]
    assert sorted(begun) == sorted(ended)
    # One more has begun than was taken. One's own callback is called too, and nothing else changes.
    assert sum(name == "step" for name, _ in ended) == model.n_iter_ + 1
    assert seen[:3] == [1, 2, 3]
    plain = IsometricEmbedding(n_neighbors=8, start="landmark", tol=1e-3, global_weight=0).fit(POINTS)
    assert model.embedding_.tobytes() == plain.embedding_.tobytes()


def test_stopped_and_torn_down_after_an_error_and_in_a_pipeline():
    model = fitted(Recorder(stop_after=4))
    assert (model.status_, model.n_iter_) == ("stopped", 4)
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError):
        fitted(recorder, callback=lambda state: 1 / 0)
    assert recorder.calls[-1] == ("teardown", "fit")
    recorder = Recorder()
    make_pipeline(StandardScaler(), IsometricEmbedding(n_neighbors=8).set_callbacks(recorder)).fit(POINTS)
    assert ("teardown", "fit") in recorder.calls
