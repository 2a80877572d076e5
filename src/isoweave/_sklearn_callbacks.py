"""scikit-learn's callbacks (``set_callbacks``, since 1.9), where the installed version has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from isoweave.optimise import Callback, IterationState

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: scikit-learn before 1.9 has no callbacks."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        return method


@contextmanager
def watched(estimator: Any, X: Any) -> Iterator[Callback | None]:
    """The callback of a fit: the user's, and scikit-learn's if there are any, for which a step is a task."""
    if not hasattr(estimator, "_skl_callbacks"):
        yield estimator.callback
        return

    step: Any = None

    def begin() -> None:
        nonlocal step
        step = context.subcontext(task_name="step")
        step.call_on_fit_task_begin(estimator=estimator)

    def call(state: IterationState) -> bool:
        """End the task of the step that was taken, and begin the next."""
        metadata = {n: getattr(state, n) for n in ("stage", "iteration", "energy", "gradient_norm")}
        stop = step.call_on_fit_task_end(estimator=estimator, metadata=metadata)
        begin()
        return bool(stop) or bool(estimator.callback is not None and estimator.callback(state))

    try:
        # How many steps it will be is not known.
        context = estimator._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=estimator, X=X)
        begin()
        yield call
        # That of a step that was not taken.
        step.call_on_fit_task_end(estimator=estimator)
        context.call_on_fit_task_end(estimator=estimator, X=X, reconstruction_attributes={})
    finally:
        # The decorator tears the callbacks down after the method; around `fit` itself it would stand
        # between the user and the warnings of the fit.
        with_callbacks(lambda estimator: None)(estimator)
