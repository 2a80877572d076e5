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
    try:
        # How many steps it will be is not known.
        context = estimator._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=estimator, X=X)
        steps = _Steps(estimator, context)
        yield steps
        steps.close()
        context.call_on_fit_task_end(estimator=estimator, X=X, reconstruction_attributes={})
    finally:
        # The decorator tears the callbacks down after the method; around `fit` itself it would stand
        # between the user and the warnings of the fit.
        with_callbacks(lambda estimator: None)(estimator)


class _Steps:
    """Ends the task of the step that was taken, and begins the next."""

    def __init__(self, estimator: Any, context: Any) -> None:
        self._estimator, self._context = estimator, context
        self._begin()

    def __call__(self, state: IterationState) -> bool:
        metadata = {n: getattr(state, n) for n in ("stage", "iteration", "energy", "gradient_norm")}
        stop = self._step.call_on_fit_task_end(estimator=self._estimator, metadata=metadata)
        self._begin()
        mine = self._estimator.callback
        return bool(stop) or bool(mine is not None and mine(state))

    def close(self) -> None:
        """End the task of a step that was not taken."""
        self._step.call_on_fit_task_end(estimator=self._estimator)

    def _begin(self) -> None:
        self._step = self._context.subcontext(task_name="step")
        self._step.call_on_fit_task_begin(estimator=self._estimator)
