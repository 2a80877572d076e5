"""
Faces
=====

Images of one head, turned left and right, up and down, under a lamp that moves sideways: three numbers
determine every image, and a map into three dimensions recovers them. The head here is a painted ball,
rendered by the script.
"""

# %%
# Every pixel looks at a point of the ball. Turning the head moves the painting; the lamp shades it.

import matplotlib.pyplot as plt
import numpy as np

from isoweave import IsometricEmbedding
from isoweave.diagnostics import edge_errors
from isoweave.metrics import parameter_error

SIDE = 24
across, down = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(1, -1, SIDE))
on_ball = across**2 + down**2 < 0.98
normals = np.stack([across, down, np.sqrt(np.maximum(1 - across**2 - down**2, 0))], axis=-1)[on_ball]


def spot(points, centre, width):
    """A soft spot of paint around a direction."""
    centre = np.asarray(centre) / np.linalg.norm(centre)
    return np.exp(-np.sum((points - centre) ** 2, axis=1) / width**2)


def render(yaw, pitch, lamp):
    """One image of SIDE x SIDE values."""
    cy, sy, cp, sp = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch)
    turn = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]]) @ np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    skin = normals @ turn
    paint = 1.0 - 0.8 * spot(skin, (-0.4, 0.3, 0.9), 0.25) - 0.8 * spot(skin, (0.4, 0.3, 0.9), 0.25)
    paint -= 0.5 * spot(skin, (0.0, -0.45, 0.9), 0.3)
    paint += 0.3 * spot(skin, (0.0, -0.05, 1.0), 0.2)
    light = np.array([np.sin(lamp), 0.3, np.cos(lamp)])
    image = np.zeros((SIDE, SIDE))
    image[on_ball] = paint * (0.4 + 0.6 * np.maximum(normals @ light, 0))
    return image


rng = np.random.default_rng(11)
pose = rng.uniform([-0.7, -0.5, -0.8], [0.7, 0.5, 0.8], size=(900, 3))
images = np.stack([render(*numbers) for numbers in pose])

# %%
# The map, and how well an affine function of it gives yaw, pitch and lamp: 0 is perfect, 1 is no better
# than their means.

model = IsometricEmbedding(n_components=3, n_neighbors=10).fit(images.reshape(len(images), -1))
error = parameter_error(pose, model.embedding_)
print(f"edges off by {edge_errors(model)}; parameter error {error:.3f}")

# %%
# The affine function, fitted by least squares, and some of the images at their positions.

design = np.column_stack([model.embedding_, np.ones(len(pose))])
found = design @ np.linalg.lstsq(design, pose, rcond=None)[0]

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, (a, b), names in zip(axes, ((0, 1), (0, 2)), (("yaw", "pitch"), ("yaw", "lamp")), strict=True):
    ax.scatter(found[:, a], found[:, b], c=pose[:, b], s=6)
    ax.set_xlabel(f"{names[0]}, read off the map")
    ax.set_ylabel(f"{names[1]}, read off the map")
for i in range(0, len(pose), 45):
    axes[0].imshow(
        images[i],
        extent=(found[i, 0] - 0.06, found[i, 0] + 0.06, found[i, 1] - 0.06, found[i, 1] + 0.06),
        cmap="gray",
        zorder=2,
    )
axes[0].set(xlim=(-0.9, 0.9), ylim=(-0.7, 0.7), aspect="auto")

plt.show()
