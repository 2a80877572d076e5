"""The estimator."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_array, check_is_fitted, check_random_state, validate_data

from isoweave._reporter import Reporter
from isoweave._typing import AnyArray
from isoweave._validation import check_integer, check_real
from isoweave.embed import running
from isoweave.estimator import IsometricEmbedding
from isoweave.graph import graph_from_matrix, knn_graph, prepare_graph
from isoweave.optimise import Record, Run
from isoweave.parametric._export import write_onnx, write_torch
from isoweave.parametric._network import (
    Standardized,
    arrays_of_network,
    fill_network,
    folded,
    own_module,
    residual_network,
)
from isoweave.parametric._training import GraphEnergy, Plan, Rows, described, fine_tune, partners, regress
from isoweave.persist import Checkpoint, StoreError, load_model, save

_NUMBERS = [np.float64, np.float32]
# Rows that are placed, or passed through a network on a GPU, at once; on a CPU they stay in its cache.
_AT_ONCE, _IN_CACHE = 65_536, 1024
# Of the learning rate, in the phase that minimises the energy.
_TUNING_RATE = 0.5
# Stands in a file for a module of the user's own, whose code cannot be stored.
_GIVEN = "given"


@dataclass(eq=False, repr=False)
class ParametricIsometry(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A network that maps features to coordinates whose distances match those of neighbours.

    The ordinary map is made first (:class:`isoweave.IsometricEmbedding`); the network learns its coordinates,
    and then minimises the map's own energy. Afterwards a point is placed by one pass through the network,
    without the data of the fit.

    Parameters
    ----------
    n_components : int, default=2
    n_neighbors : int, default=10
    map_options : dict, default=None
        Other parameters of the IsometricEmbedding that makes the map.
    map_samples : int, default=50000
        Of more rows than this, a random sample makes the map, and the others are placed in it.
    encoder : torch.nn.Module, default=None
        From rows of ``n_features`` float32 numbers (centred, divided by one common scale) to
        ``n_components``. A convolutional one begins with ``torch.nn.Unflatten``. By default a residual
        perceptron.
    hidden_layer_sizes : sequence of int, default=None
        Widths of the default encoder, and backwards those of the decoder. By default three layers of
        about twelve times ``n_components``, 64 to 256.
    decoder : bool or torch.nn.Module, default=False
        Whether to train an inverse, for :meth:`inverse_transform`.
    max_epochs : int, default=100
        At most, of each phase.
    fine_tune_epochs : int, default=None
        Of the phase that minimises the energy; by default ``max_epochs``. 0 leaves it out.
    batch_size : int, default=256
    learning_rate : float, default=2e-3
        The highest; it rises for two epochs and then falls along a cosine.
    validation_fraction : float, default=0.1
        Share of the rows that training does not see. The weights that do best on them are kept, but in the
        phase that minimises the energy, which ends with its last epoch.
    n_iter_no_change : int, default=25
        Epochs without a better result on these rows after which another phase ends.
    device : str, default="auto"
        Of torch; "auto" is a GPU if torch finds one.
    n_jobs : int, default=None
        Threads of the map; those of training are torch's own (``torch.set_num_threads``).
    random_state : int, RandomState or None, default=None
        On the CPU the same number and the same threads give the same network.
    callback : callable, default=None
        Called with every entry of ``history_``; the phase ends when it returns True.
    checkpoint : isoweave.Checkpoint, default=None
        A file for the state of the training, written between epochs; beside it, one whose name ends in
        ``.map`` for the map. A fit that was killed continues and ends with the same bits.
    verbose : int, default=0

    Attributes
    ----------
    weights_ : dict of arrays
        Parameters of the encoder and of what surrounds it; ``decoder_weights_`` likewise.
    history_ : list of dict
        Of every epoch: "phase" ("map", "energy" or "decoder"), "epoch", "loss" and "held_out", the loss on
        the rows held out.
    n_features_in_ : int

    Notes
    -----
    Through the default network, a row has the same place in every batch, up to float32's rounding.
    """

    # How many rows at once is nobody's metadata.
    __metadata_request__transform: ClassVar = {"batch_size": UNUSED}
    __metadata_request__inverse_transform: ClassVar = {"batch_size": UNUSED}

    n_components: int = 2
    _: KW_ONLY
    n_neighbors: int = 10
    map_options: dict[str, Any] | None = None
    map_samples: int = 50_000
    encoder: Any = None
    hidden_layer_sizes: Sequence[int] | None = None
    decoder: Any = False
    max_epochs: int = 100
    fine_tune_epochs: int | None = None
    batch_size: int = 256
    learning_rate: float = 2e-3
    validation_fraction: float = 0.1
    n_iter_no_change: int = 25
    device: str = "auto"
    n_jobs: int | None = None
    random_state: Any = None
    callback: Callable[[dict[str, Any]], Any] | None = None
    checkpoint: Any = None
    verbose: int = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Make the map of X, and train the network on it.

        X, of shape (n_samples, n_features), may be a memory map: its rows are then read as they are needed.
        """
        X = self._checked(X, reset=True)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with self._running(X, seed) as run, self._seeded(seed):
            self._fit(X, seed, replace(run, report=None))
            run.finish()
        return self

    def _fit(self, X: AnyArray, seed: int, run: Run) -> None:
        # First of all: a module that does not fit must not cost a map.
        network, decoder = self._new("encoder"), None if self.decoder is False else self._new("decoder")
        self.__dict__.pop("decoder_weights_", None)
        rng, n = np.random.default_rng(seed), len(X)
        held = np.zeros(n, dtype=np.bool_)
        held[rng.permutation(n)[: int(self.validation_fraction * n)]] = True
        sample = np.arange(n)
        if n > self.map_samples:
            sample = np.sort(rng.choice(n, self.map_samples, replace=False))
        self._say(f"map of {len(sample)} rows")
        made = self._estimator(seed).fit(X if len(sample) == n else X[sample])
        targets = np.asarray(made.embedding_, dtype=np.float32)
        if len(sample) < n:
            targets = self._placed(made, X, run)
        self._map = made
        self.history_: list[dict[str, Any]] = []
        network.adapt(X, targets)
        network = network.to(self._device())
        prepared = prepare_graph(graph_from_matrix(made.graph_))
        plan = self._plan(self.max_epochs, seed, run=run)
        rows, places = Rows(X, plan.device), Rows(targets, plan.device)
        regress(network, rows, places, held, plan, "map", partners(prepared, sample, held))
        epochs = self.max_epochs if self.fine_tune_epochs is None else self.fine_tune_epochs
        if epochs and prepared.graph.n_edges:
            plan = self._plan(epochs, seed + 1, _TUNING_RATE, run)
            energy = GraphEnergy(prepared, sample, held, self.n_components)
            # Distances from points beside the rows are known only if they are Euclidean.
            beside = energy.beside(targets, X, seed) if made.metric == "euclidean" else None
            fine_tune(network, rows, places, energy, plan, beside)
        self._take(network)
        if decoder is not None:
            coordinates = self._passed(network, X, self.n_components)
            decoder.adapt(coordinates, X)
            self._decoder_network = decoder.to(plan.device)
            plan = self._plan(self.max_epochs, seed + 2, run=run)
            regress(decoder, Rows(coordinates, plan.device), rows, held, plan, "decoder")
            self.decoder_weights_ = arrays_of_network(decoder)

    def _placed(self, made: IsometricEmbedding, X: AnyArray, run: Run) -> AnyArray:
        """Coordinates of all rows in the map of some."""
        record = run.load("placed")
        if record is not None:
            return record.array("coordinates", (len(X), self.n_components), np.float32)
        self._say(f"placing {len(X)} rows")
        parts = [made.transform(X[at : at + _AT_ONCE]) for at in range(0, len(X), _AT_ONCE)]
        placed = np.concatenate(parts).astype(np.float32, copy=False)
        run.keep("placed", lambda: Record({}, {"coordinates": placed}))
        return placed

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on with more rows; the first call is a fit.

        Rows are placed in the map of the fit, and the network is trained on them beside as many rows of that
        map, so that it does not forget. The map itself does not change. A model that was loaded has no map.
        """
        if not hasattr(self, "weights_"):
            return self.fit(X)
        X = self._checked(X, reset=False)
        made = self.map_
        placed = made.transform(X)
        rng = np.random.default_rng(len(self.history_))
        again = rng.choice(len(made.embedding_), min(len(X), len(made.embedding_)), replace=False)
        inputs = np.concatenate([X, made._features()[again]])
        targets = np.concatenate([placed, made.embedding_[again]]).astype(np.float32)
        held = rng.random(len(inputs)) < self.validation_fraction
        network = self._module()
        with self._seeded(len(self.history_)):
            plan = self._plan(self.max_epochs, len(self.history_))
            rows, places = Rows(inputs, plan.device), Rows(targets, plan.device)
            regress(network, rows, places, held, plan, "map")
        self._take(network)
        return self

    def transform(self, X: Any, batch_size: int | None = None) -> AnyArray:
        """Coordinates of rows, shape (n, n_components), by one pass through the network.

        ``batch_size`` rows at a time: by default 1,024, which stay in a processor's cache; 65,536 on a GPU.
        """
        check_is_fitted(self, "weights_")
        # Through the default network, anything that is not finite comes out as something not finite.
        X = self._checked(X, reset=False, is_finite=self.encoder is not None)
        if "_folded" not in self.__dict__:
            self._folded = folded(self._module())
        found = self._passed(self._folded, X, self.n_components, batch_size)
        if not np.isfinite(found).all():
            self._checked(X, reset=False)
        return found.astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any, batch_size: int | None = None) -> AnyArray:
        """Features of coordinates, shape (n, n_features), by the decoder."""
        check_is_fitted(self, "weights_")
        if not hasattr(self, "decoder_weights_"):
            raise ValueError("There is no inverse: fit with decoder=True.")
        Y = check_array(X, dtype=_NUMBERS)
        if Y.shape[1] != self.n_components:
            raise ValueError(f"Coordinates must have the shape (n, {self.n_components}), got {Y.shape}.")
        return self._passed(self._module("decoder"), Y, self.n_features_in_, batch_size)

    def score(self, X: Any, y: Any = None) -> float:
        """How well distances between the 10 nearest neighbours among X are kept; 0 is best.

        Minus their mean relative error. Coinciding rows do not count.
        """
        coordinates = self.transform(X)
        X = self._checked(X, reset=False)
        if len(X) < 2:
            raise ValueError("score needs at least two rows.")
        graph = knn_graph(X, min(10, len(X) - 1), n_jobs=self.n_jobs)
        apart = graph.lengths > 0
        steps = coordinates[graph.indices[apart]] - coordinates[graph.sources[apart]]
        lengths = graph.lengths[apart]
        errors = np.abs(np.linalg.norm(steps.astype(np.float64), axis=1) - lengths) / lengths
        return -float(errors.mean()) if len(errors) else 0.0

    @property
    def map_(self) -> IsometricEmbedding:
        """The map that the network was trained on; it is not saved."""
        if not hasattr(self, "_map"):
            raise AttributeError("There is no map, which is not saved with a model: fit makes one.")
        return self._map

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save parameters and networks in one safetensors file, without the data of the fit.

        An ``encoder`` or ``decoder`` of your own is saved as its weights: give the module to :meth:`load`.
        A ``device`` that is not the CPU is saved as "auto": the file may be loaded where there is none.
        """
        check_is_fitted(self, "weights_")
        plain = copy.copy(self)
        plain.device = "cpu" if self.device == "cpu" else "auto"
        for name in ("encoder", "decoder"):
            if isinstance(getattr(self, name), torch.nn.Module):
                setattr(plain, name, _GIVEN)
        save(plain, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, encoder: Any = None, decoder: Any = None) -> Self:
        """Load a model; nothing in the file is executed. Modules of your own are given again, untrained."""
        loaded: Self = load_model(cls, path)
        for name, module in (("encoder", encoder), ("decoder", decoder)):
            if getattr(loaded, name) == _GIVEN and module is None:
                raise ValueError(f"{path} was trained with a module of your own: load(path, {name}=module).")
            if module is not None:
                setattr(loaded, name, module)
        try:
            loaded._module()
            if hasattr(loaded, "decoder_weights_"):
                loaded._module("decoder")
        except (ValueError, TypeError, AttributeError) as error:
            raise StoreError(Path(path), "content.attributes", f"{error!s:.300}") from error
        return loaded

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the encoder as an ONNX model of opset 18.

        Its input "features" has any number of rows, its output is "coordinates". Needs onnx and onnxscript:
        ``pip install 'isoweave[parametric]'``.
        """
        write_onnx(self._exported(), self.n_features_in_, path)

    def to_torch(self, path: str | os.PathLike[str]) -> None:
        """Write the encoder as a program of torch.export (``.pt2``), for ``torch.export.load``."""
        write_torch(self._exported(), self.n_features_in_, path)

    def _exported(self) -> Any:
        check_is_fitted(self, "weights_")
        # On the CPU, and a copy: an export must not move the network that is in use.
        return folded(copy.deepcopy(self._module()).cpu().eval())

    def _checked(self, X: Any, *, reset: bool, is_finite: bool = True) -> AnyArray:
        """Finite features; parameters, too, before a fit."""
        if reset:
            _check_parameters(self)
        if sp.issparse(X):
            raise TypeError("X is sparse, and a network takes dense rows: reduce it first (TruncatedSVD).")
        fewest = 2 if reset else 1
        return validate_data(
            self, X, reset=reset, dtype=_NUMBERS, ensure_min_samples=fewest, ensure_all_finite=is_finite
        )

    def _running(self, X: AnyArray, seed: int) -> AbstractContextManager[Run]:
        """What keeps the state of the training, if anything does."""
        nothing = {"callback": None, "verbose": 0, "on_interrupt": "raise"}
        options: Any = SimpleNamespace(checkpoint=self.checkpoint, **nothing)
        return running(options, lambda: described(X, {**self.get_params(deep=False), "random_state": seed}))

    def _estimator(self, seed: int) -> IsometricEmbedding:
        options = {"n_components": self.n_components, "n_neighbors": self.n_neighbors, "n_jobs": self.n_jobs}
        if self.checkpoint is not None:
            options["checkpoint"] = replace(self.checkpoint, path=f"{self.checkpoint.path}.map")
        return IsometricEmbedding(**{**options, "random_state": seed, **(self.map_options or {})})

    def _sizes(self) -> list[int]:
        # More dimensions need more room; multiples of 32 fill the registers.
        width = 32 * min(max(round(12 * self.n_components / 32), 2), 8)
        given = self.hidden_layer_sizes
        return [width] * 3 if given is None else np.ravel(given).tolist()

    def _new(self, name: str) -> Any:
        """An untrained encoder or decoder: ours, or a copy of the user's."""
        module, n, sizes = getattr(self, name), (self.n_features_in_, self.n_components), self._sizes()
        if name == "decoder":
            n, sizes = n[::-1], sizes[::-1]
        is_ours = module is (None if name == "encoder" else True)
        return Standardized(residual_network(*n, sizes) if is_ours else own_module(name, module, *n), *n)

    def _module(self, name: str = "encoder") -> Any:
        """The network, made of its weights if the model was loaded."""
        attribute = f"_{name}_network"
        if attribute not in self.__dict__:
            network = self._new(name)
            fill_network(network, self.weights_ if name == "encoder" else self.decoder_weights_)
            setattr(self, attribute, network.to(self._device()).eval())
        return getattr(self, attribute)

    def _device(self) -> Any:
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return torch.device(self.device)

    def _plan(self, epochs: int, seed: int, rate: float = 1.0, run: Run | None = None) -> Plan:
        def watch(step: dict[str, Any]) -> bool:
            self._say("{phase}: epoch {epoch}, loss {loss:.3g}, held out {held_out:.3g}".format(**step))
            return self.callback is not None and self.callback(step) is True

        rate, patience, device = rate * self.learning_rate, self.n_iter_no_change, self._device()
        return Plan(epochs, self.batch_size, rate, patience, device, seed, watch, self.history_, run or Run())

    def _take(self, network: Any) -> None:
        """A network that has been trained."""
        self._encoder_network, self._folded = network, folded(network)
        self.weights_ = arrays_of_network(network)

    def _passed(self, network: Any, rows: AnyArray, n_out: int, batch_size: int | None = None) -> AnyArray:
        device = self._device()
        if batch_size is None:
            batch_size = _IN_CACHE if device.type == "cpu" else _AT_ONCE
        check_integer("batch_size", batch_size, minimum=1)
        network.to(device).eval()
        found = np.empty((len(rows), n_out), dtype=np.float32)
        with torch.inference_mode():
            for at in range(0, len(rows), batch_size):
                part = np.require(rows[at : at + batch_size], np.float32, ["C", "W"])
                found[at : at + len(part)] = network(torch.from_numpy(part).to(device)).cpu().numpy()
        return found

    @contextmanager
    def _seeded(self, seed: int) -> Iterator[None]:
        """torch's global generator is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield

    def _say(self, text: str) -> None:
        Reporter(self.verbose)(text)

    def _check_stored(self) -> None:
        """Refuse a loaded model whose parts do not fit together."""
        check_integer("n_features_in", self.n_features_in_, minimum=1)
        for name in ("weights_", "decoder_weights_"):
            arrays = getattr(self, name, {})
            if not isinstance(arrays, dict) or not all(isinstance(a, np.ndarray) for a in arrays.values()):
                raise ValueError(f"{name} must be arrays by name")

    @property
    def _n_features_out(self) -> int:
        return self.n_components


def _check_parameters(model: ParametricIsometry) -> None:
    """Raise ValueError or TypeError that says what to do instead."""
    for name in ("n_components", "n_neighbors", "map_samples", "batch_size", "n_iter_no_change"):
        check_integer(name, getattr(model, name), minimum=1)
    for width in np.ravel(() if model.hidden_layer_sizes is None else model.hidden_layer_sizes):
        check_integer("a width of hidden_layer_sizes", width, minimum=1)
    check_integer("max_epochs", model.max_epochs, minimum=0)
    if model.fine_tune_epochs is not None:
        check_integer("fine_tune_epochs", model.fine_tune_epochs, minimum=0)
    check_real("learning_rate", model.learning_rate, minimum=0, include_minimum=False)
    check_real("validation_fraction", model.validation_fraction, minimum=0, maximum=0.5)
    if model.checkpoint is not None and not isinstance(model.checkpoint, Checkpoint):
        raise TypeError(f"checkpoint must be an isoweave.Checkpoint or None, got {model.checkpoint!r:.100}.")
    if model.callback is not None and not callable(model.callback):
        raise TypeError(f"callback must be a function of one epoch's entry, got {model.callback!r:.100}.")
    try:
        torch.empty(0, device=model._device())
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(f"device must be 'auto' or torch's, got {model.device!r}: {error!s:.200}") from error
    options = model.map_options or {}
    if not isinstance(options, dict):
        raise TypeError(f"map_options must be a dict, got {options!r:.100}.")
    if "n_components" in options:
        raise ValueError("n_components is a parameter of ParametricIsometry, not one of map_options.")
    if options.get("metric") == "precomputed":
        raise ValueError(
            "A network needs features, and metric='precomputed' has distances only. New points are then "
            "placed by their distances: IsometricEmbedding(metric='precomputed').fit(D).transform(D_new)."
        )
    if options.get("components") == "largest":
        raise ValueError("components='largest' leaves rows without coordinates; use 'separate'.")
