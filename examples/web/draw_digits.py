"""A page that places digits drawn with the mouse on a map: one HTML file that needs no network.

    npm install --prefix build/web onnxruntime-web
    python examples/web/draw_digits.py --out digits.html                 # scikit-learn's digits
    python examples/web/draw_digits.py --data mnist --out digits.html    # reads ISOWEAVE_DATA

A ParametricIsometry learns the map, its encoder is exported to ONNX, and onnxruntime-web runs it in the page.
"""

from __future__ import annotations

import argparse
import base64
import json
import tempfile
from pathlib import Path

import numpy as np

from isoweave import datasets
from isoweave.parametric import ParametricIsometry

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--runtime", type=Path, default=Path("build/web/node_modules/onnxruntime-web"))
    parser.add_argument("--out", type=Path, default=Path("digits.html"))
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()
    data = datasets.load_digits() if args.data == "digits" else datasets.load_mnist("test")
    rows = data.data.astype(np.float32)
    model = ParametricIsometry(2, n_neighbors=12, max_epochs=args.epochs, random_state=1, verbose=1).fit(rows)
    shown = np.random.default_rng(1).permutation(len(rows))[:4000]
    with tempfile.TemporaryDirectory() as folder:
        model.to_onnx(Path(folder) / "map.onnx")
        network = (Path(folder) / "map.onnx").read_bytes()
    content = {
        "side": round(rows.shape[1] ** 0.5),
        "points": np.round(model.transform(rows[shown]), 3).tolist(),
        "labels": data.labels[shown].tolist(),
        "example": rows[shown[0]].round(5).tolist(),
    }
    parts = {
        "CONTENT": json.dumps(content),
        "NETWORK": base64.b64encode(network).decode(),
        "RUNTIME": base64.b64encode((args.runtime / "dist/ort.wasm.bundle.min.mjs").read_bytes()).decode(),
        "WASM": base64.b64encode((args.runtime / "dist/ort-wasm-simd-threaded.wasm").read_bytes()).decode(),
    }
    page = (HERE / "draw_digits.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace(f"@{name}@", text)
    args.out.write_text(page, encoding="utf-8")
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
