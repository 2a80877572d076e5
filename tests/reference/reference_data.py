"""Little data files in the layout of the real ones."""

import numpy as np

N = 130


def write_folder(folder):
    for name, arrays in tables().items():
        np.savez(folder / f"{name}.npz", **arrays)
    return folder


def tables():
    """The arrays of every file that the loaders read, by its name."""
    rng = np.random.default_rng(301)
    labels = rng.integers(0, 3, N)
    # Three clouds on a plane, lifted to many coordinates: classes that can be told apart.
    plane = rng.normal(size=(N, 2)) + 2.0 * np.column_stack([labels == 1, labels == 2])
    lifted = plane @ rng.normal(size=(2, 784)) + 0.05 * rng.normal(size=(N, 784))
    pixels = np.clip(128 + 12 * lifted, 0, 255).astype(np.uint8).reshape(N, 28, 28)
    names = np.array(["a", "b", "c"])
    counts = np.clip(40 + 8 * lifted[:, :60], 0, None).astype(np.uint16)
    images = {"X": pixels, "y": labels.astype(np.uint8)}
    classes = {"y": labels.astype(np.int16), "y_names": names}
    cells = {"counts": counts, "total_counts": counts.sum(axis=1)}
    return {
        "mnist_test": images,
        "fashion_mnist_test": images,
        "tcga_pancan11_rnaseq": classes
        | {"X100": (100 * lifted[:, :40]).astype(np.int16), "tumour": rng.integers(0, 2, N)},
        "tcga_lusc_rnaseq": classes | {"X": lifted[:, :30].astype(np.float32)},
        "lungline_5cl_celseq2": cells | classes,
        "lungline_rnamix": cells | {"props": rng.dirichlet(np.ones(3), N), "y": labels},
        "isomap_faces_32": {"X": pixels.astype(np.uint16), "pose": lifted[:, :3]},
        "miles_128cities": cities(rng),
        "mesh_camelhead": bump(14),
        "road_oldenburg": {
            "indptr": np.array([0, 1, 2]),
            "indices": np.array([1, 0]),
            "data": np.array([5.0, 5.0], dtype=np.float32),
            "coords": np.array([[0, 0], [3, 4]], dtype=np.float32),
        },
    }


def cities(rng):
    """Places on a patch of the globe; roads a fifth longer than straight lines."""
    lat, lon = rng.uniform(30, 45, 40), rng.uniform(-110, -80, 40)
    map_miles = np.column_stack([69.0 * np.cos(np.radians(38)) * lon, 69.0 * lat])
    straight = np.linalg.norm(map_miles[:, None] - map_miles, axis=2)
    miles = np.rint(1.2 * straight).astype(np.int16)
    return {"D": miles, "lat": lat, "lon": lon, "names": np.array([f"city {i}" for i in range(40)])}


def bump(side):
    """A square sheet with a hump, as triangles."""
    x, y = (part.ravel() for part in np.meshgrid(np.linspace(-1, 1, side), np.linspace(-1, 1, side)))
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    lower = np.column_stack([corner, corner + 1, corner + side])
    upper = np.column_stack([corner + 1, corner + side + 1, corner + side])
    # Jittered, so that no two paths are equally long.
    jitter = 0.01 * np.random.default_rng(303).normal(size=(2, side * side))
    heights = 0.3 * np.exp(-4 * (x**2 + y**2))
    return {
        "V": np.column_stack([x + jitter[0], y + jitter[1], heights]).astype(np.float32),
        "F": np.vstack([lower, upper]).astype(np.int32),
    }
