// The picked vertex, and the diagrams below the map.

function cells(row, values, tag = "td") {
  values.forEach((value, k) => {
    const cell = document.createElement(tag);
    cell.textContent = value;
    if (k > 0) cell.className = "number";
    row.append(cell);
  });
  return row;
}

function table(head, rows, onPick) {
  const made = document.createElement("table");
  if (head) made.createTHead().append(cells(document.createElement("tr"), head, "th"));
  const body = made.createTBody();
  rows.forEach((values, k) => {
    const row = cells(document.createElement("tr"), values);
    if (onPick) row.addEventListener("click", () => onPick(k));
    body.append(row);
  });
  return made;
}

// Elements of a drawing; every text is set as text.
function shape(parent, tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

function drawingIn(place, width, height) {
  element(place).replaceChildren();
  return shape(element(place), "svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img" });
}

function pick(v) {
  state.picked = v;
  element("vertex").hidden = false;
  element("vertex-title").textContent = data.names ? `${nameOf(v)} (vertex ${v})` : `Vertex ${v}`;
  const values = data.columns.map((each) => [each.name, valueOf(each, v)]);
  data.coordinates.slice(0, 20).forEach((axis, k) => values.push([`x${k + 1}`, format(axis[v])]));
  element("vertex-values").replaceChildren(table(null, values));
  element("vertex-neighbors").replaceChildren();
  let told = "";
  if (!isPlaced(v)) told = "This vertex was not embedded.";
  else if (!data.graph) told = "The page holds no measured distances.";
  else if (neighborsOf(v).length === 0) told = "This vertex has no neighbours.";
  element("vertex-help").textContent = told;
  element("neighborhood").hidden = told !== "";
  if (!told) showNeighborhood(v);
  return draw();
}

function unpick() {
  state.picked = -1;
  element("vertex").hidden = true;
  return draw();
}

// With a sign, except for zero.
function percent(ratio) {
  const text = (100 * ratio).toFixed(1);
  return Number(text) === 0 ? "0.0%" : `${ratio > 0 ? "+" : ""}${text}%`;
}

function showNeighborhood(v) {
  const found = neighborhood(v);
  const plane = inPlane(found);
  const ratios = found.vertices.map((w, k) => (k === 0 ? 0 : distortion(v, w, found.lengths[k])));
  const extent = 1.1 * Math.max(...[...plane.before, ...plane.after].flat().map(Math.abs)) || 1;
  const svg = drawingIn("neighborhood", 340, 190);
  [[plane.before, 85, "as measured"], [plane.after, 255, "in the map"]].forEach(([points, middle, title]) => {
    const group = shape(svg, "g", { class: "side" });
    const at = ([x, y]) => [middle + (82 * x) / extent, 85 - (82 * y) / extent];
    points.forEach((point, k) => {
      const [x2, y2] = at(point);
      if (k) shape(group, "line", { x1: middle, y1: 85, x2, y2, stroke: EDGE_CLASSES[edgeClass(ratios[k])].color, "stroke-width": 2 });
    });
    points.forEach((point, k) => {
      const [cx, cy] = at(point);
      const dot = shape(group, "circle", { cx, cy, r: k ? 4 : 6, fill: colorOf(found.vertices[k]), stroke: ink("--text") });
      shape(dot, "title", {}, nameOf(found.vertices[k]));
    });
    shape(svg, "text", { x: middle, y: 185, "text-anchor": "middle" }, title);
  });
  const shownRows = found.vertices.slice(1, 41);
  const rows = shownRows.map((w, k) => [
    nameOf(w), format(found.lengths[k + 1]), format(mapDistance(v, w)),
    percent(ratios[k + 1]),
  ]);
  element("vertex-neighbors").replaceChildren(
    table(["neighbour", "measured", "map", "change"], rows, (k) => pick(shownRows[k])),
  );
}

// A small diagram with ends of its axes and titles; returns where a point lies in it.
function diagram(place, [left, right], [bottom, top], titles) {
  const svg = drawingIn(place, 460, 320);
  const at = (x, y) => [60 + (390 * (x - left)) / (right - left || 1), 275 - (265 * (y - bottom)) / (top - bottom || 1)];
  shape(svg, "path", { d: "M60 10V275H450", class: "axis" });
  const short = (x) => format(Number(x.toPrecision(3)));
  return { svg, at, finish(labels = [short(left), short(right), short(bottom), short(top)]) {
    [[60, 290, "start"], [450, 290, "end"], [54, 275, "end"], [54, 18, "end"]].forEach(([x, y, anchor], k) => {
      shape(svg, "text", { x, y, "text-anchor": anchor }, labels[k]);
    });
    shape(svg, "text", { x: 255, y: 310, "text-anchor": "middle" }, titles[0]);
    shape(svg, "text", { x: 16, y: 145, "text-anchor": "middle", transform: "rotate(-90 16 145)" }, titles[1]);
  } };
}

function drawShepard() {
  element("shepard-part").hidden = !data.shepard;
  if (!data.shepard) return;
  const { graph, map, counts, bins, ends } = data.shepard;
  const pairs = counts ? null : [decode(graph), decode(map)];
  const longest = counts ? Math.max(...ends) : Math.max(...pairs[0], ...pairs[1]);
  const { svg, at, finish } = diagram("shepard", [0, longest], [0, longest], ["shortest path in the graph", "distance in the map"]);
  if (counts) {
    const found = decode(counts);
    const image = Object.assign(document.createElement("canvas"), { width: bins, height: bins });
    const brush = image.getContext("2d");
    const pixels = brush.createImageData(bins, bins);
    const most = Math.log(1 + found.reduce((a, b) => Math.max(a, b), 0));
    // Rows run along the distance in the map, upwards.
    found.forEach((count, k) => {
      if (!count) return;
      const [row, at] = [Math.floor(k / bins), k % bins];
      pixels.data.set([...ramp(VIRIDIS, Math.log(1 + count) / most), 255], 4 * ((bins - 1 - row) * bins + at));
    });
    brush.putImageData(pixels, 0, 0);
    const [x, bottom] = at(0, 0);
    const [right, y] = at(ends[0], ends[1]);
    const size = { x, y, width: right - x, height: bottom - y, preserveAspectRatio: "none", style: "image-rendering: pixelated" };
    shape(svg, "image", { ...size, href: image.toDataURL() });
  } else {
    pairs[0].forEach((x, k) => {
      const [cx, cy] = at(x, pairs[1][k]);
      shape(svg, "circle", { cx, cy, r: 1.5, fill: PALETTE[0], opacity: 0.5 });
    });
  }
  shape(svg, "path", { d: `M${at(0, 0)}L${at(longest, longest)}`, class: "diagonal" });
  finish();
}

function drawHistory() {
  const { step, energy } = data.history;
  element("history-part").hidden = step.length === 0;
  if (step.length === 0) return;
  const isPositive = energy.every((value) => value > 0);
  const heights = isPositive ? energy.map(Math.log10) : energy;
  const titles = ["step", isPositive ? "energy (logarithmic)" : "energy"];
  const { svg, at, finish } = diagram("history", [step[0], step.at(-1)], [Math.min(...heights), Math.max(...heights)], titles);
  shape(svg, "polyline", { points: step.map((x, k) => at(x, heights[k]).join()).join(" "), class: "curve" });
  finish([step[0], step.at(-1), ...[Math.min(...energy), Math.max(...energy)].map((x) => format(Number(x.toPrecision(3))))]);
}

function drawDiagrams() {
  drawShepard();
  drawHistory();
  drawLegend(toggleClass);
  if (state.picked >= 0) pick(state.picked);
}
