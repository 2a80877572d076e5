"""Maps of annotated data, called like scanpy's own tools: ``isoweave.tl.embed(adata)``.

Neither scanpy nor anndata is imported: the object is read and written through its own attributes.
"""

from __future__ import annotations

from typing import Any

from isoweave.estimator import IsometricEmbedding
from isoweave.interop import features_of, from_anndata, to_anndata


def embed(
    adata: Any,
    n_components: int | str = 2,
    *,
    use_rep: str | None = None,
    neighbors_key: str | None = None,
    key_added: str = "isoweave",
    copy: bool = False,
    **options: Any,
) -> Any:
    """Embed the cells of an AnnData object.

    By default those distances are embedded that ``scanpy.pp.neighbors`` has left, as ``scanpy.tl.umap`` does
    with connectivities; where there are none, or if ``use_rep`` is given, neighbours are searched here.

    Parameters
    ----------
    adata : anndata.AnnData
    n_components : int or "auto"
        Dimension of the map.
    use_rep : str, optional
        Entry of ``adata.obsm`` to search neighbours in ("X" for ``adata.X``); by default "X_pca".
    neighbors_key : str, optional
        Entry of ``adata.uns`` in which ``scanpy.pp.neighbors`` has named its distances; by default
        "neighbors".
    key_added : str
        Coordinates go to ``adata.obsm["X_" + key_added]``, where ``scanpy.pl.embedding(adata, key_added)``
        finds them, and the parameters and the outcome to ``adata.uns[key_added]``.
    copy : bool
        Return a copy with the map instead of writing into ``adata``.
    **options
        Of :class:`isoweave.IsometricEmbedding`.

    Returns
    -------
    AnnData or None
    """
    for attribute in ("obsm", "obsp", "uns", "n_obs"):
        if not hasattr(adata, attribute):
            raise TypeError(f"Expected an AnnData object, got {type(adata).__name__}.")
    if use_rep is not None and neighbors_key is not None:
        raise ValueError(
            "use_rep searches neighbours and neighbors_key names those found before; give one of them."
        )
    adata = adata.copy() if copy else adata
    key = adata.uns.get(neighbors_key or "neighbors", {}).get("distances_key", "distances")
    if neighbors_key is not None and neighbors_key not in adata.uns:
        raise ValueError(
            f"uns has no {neighbors_key!r}; it has {sorted(adata.uns)}. Run scanpy.pp.neighbors."
        )
    if use_rep is None and (key in adata.obsp or neighbors_key is not None):
        source: dict[str, Any] = {"distances_key": key}
        model = IsometricEmbedding(n_components, metric="precomputed", **options)
        model.fit(from_anndata(adata, key).distances)
    else:
        source = {"use_rep": use_rep or ("X_pca" if "X_pca" in adata.obsm else "X")}
        model = IsometricEmbedding(n_components, **options).fit(features_of(adata, source["use_rep"]))
    to_anndata(adata, model, f"X_{key_added}")
    given = {name: value for name, value in options.items() if isinstance(value, str | int | float | bool)}
    parameters = source | given | {"n_components": model.n_components_}
    adata.uns[key_added] = {"params": parameters} | adata.uns[key_added]
    return adata if copy else None
