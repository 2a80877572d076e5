// The picked vertex, and the diagrams below the map.
const SMALL = { margin: { l: 60, r: 10, t: 8, b: 45 }, showlegend: false };
const QUIET = { ...CONFIG, displayModeBar: false };

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

async function pick(v) {
  state.picked = v;
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
  if (!told) await showNeighborhood(v);
  if (state.is3d) await draw();
  else await Plotly.relayout(element("map"), { annotations: pickedArrows() });
}

async function showNeighborhood(v) {
  const found = neighborhood(v);
  const plane = inPlane(found);
  const ratios = found.vertices.map((w, k) => (k === 0 ? 0 : distortion(v, w, found.lengths[k])));
  const extent = 1.1 * Math.max(...[...plane.before, ...plane.after].flat().map(Math.abs)) || 1;
  const parts = [];
  for (const [points, axis] of [[plane.before, ""], [plane.after, "2"]]) {
    const at = { xaxis: `x${axis}`, yaxis: `y${axis}`, showlegend: false };
    EDGE_CLASSES.forEach((kind, which) => {
      const ends = points.filter((_, k) => k > 0 && edgeClass(ratios[k]) === which);
      if (ends.length === 0) return;
      parts.push({
        ...at, mode: "lines", hoverinfo: "skip", line: { color: kind.color, width: 2 },
        x: ends.flatMap((end) => [0, end[0], null]), y: ends.flatMap((end) => [0, end[1], null]),
      });
    });
    parts.push({
      ...at, mode: "markers", hoverinfo: "text", x: points.map((p) => p[0]), y: points.map((p) => p[1]),
      text: found.vertices.map((w) => plain(nameOf(w))),
      marker: {
        size: points.map((_, k) => (k === 0 ? 11 : 8)), symbol: points.map((_, k) => (k === 0 ? "square" : "circle")),
        color: found.vertices.map((w) => colorOf(column(), w)), line: { width: 1, color: "#333333" },
      },
    });
  }
  const range = [-extent, extent];
  const side = (domain, title) => ({ domain, range, title: { text: title }, zeroline: false, showticklabels: false });
  const up = { range, zeroline: false, showticklabels: false };
  await Plotly.react(element("neighborhood"), parts, {
    height: 215, margin: { l: 5, r: 5, t: 5, b: 30 }, hovermode: "closest", paper_bgcolor: "#f6f7f9",
    xaxis: side([0, 0.485], "as measured"), yaxis: { ...up, scaleanchor: "x" },
    xaxis2: side([0.515, 1], "in the map"), yaxis2: { ...up, anchor: "x2", scaleanchor: "x2" },
  }, QUIET);

  const shownRows = found.vertices.slice(1, 41);
  const rows = shownRows.map((w, k) => [
    nameOf(w), format(found.lengths[k + 1]), format(mapDistance(v, w)),
    `${ratios[k + 1] >= 0 ? "+" : ""}${(100 * ratios[k + 1]).toFixed(1)} %`,
  ]);
  element("vertex-neighbors").replaceChildren(
    table(["neighbour", "measured", "map", "change"], rows, (k) => pick(shownRows[k])),
  );
}

function drawShepard() {
  element("shepard-part").hidden = !data.shepard;
  if (!data.shepard) return null;
  const { graph, map, counts, bins, ends } = data.shepard;
  const parts = [];
  let longest;
  if (counts) {
    const flat = decode(counts);
    const rows = Array.from({ length: bins }, (_, r) => Array.from(flat.subarray(r * bins, (r + 1) * bins)));
    const middles = (end) => Array.from({ length: bins }, (_, k) => ((k + 0.5) * end) / bins);
    parts.push({
      type: "heatmap", x: middles(ends[0]), y: middles(ends[1]), z: rows.map((row) => row.map((c) => (c ? Math.log10(c) : null))),
      colorscale: scaleOf(VIRIDIS), showscale: false, customdata: rows, hovertemplate: "%{customdata} pairs<extra></extra>",
    });
    longest = Math.max(...ends);
  } else {
    const x = decode(graph);
    const y = decode(map);
    longest = Math.max(...x, ...y);
    parts.push({ type: "scatter", mode: "markers", x, y, marker: { size: 3, opacity: 0.5, color: PALETTE[0] }, hoverinfo: "skip" });
  }
  parts.push({ type: "scatter", mode: "lines", x: [0, longest], y: [0, longest], line: { color: "#666666", dash: "dash", width: 1 }, hoverinfo: "skip" });
  return Plotly.newPlot(element("shepard"), parts, {
    ...SMALL, xaxis: { title: { text: "shortest path in the graph" } }, yaxis: { title: { text: "distance in the map" } },
  }, QUIET);
}

function drawHistory() {
  const { step, energy } = data.history;
  element("history-part").hidden = step.length === 0;
  if (step.length === 0) return null;
  const isPositive = energy.every((value) => value > 0);
  return Plotly.newPlot(element("history"), [{ type: "scatter", mode: "lines+markers", x: step, y: energy, marker: { size: 4 } }], {
    ...SMALL, xaxis: { title: { text: "step" } },
    yaxis: { title: { text: "energy" }, type: isPositive ? "log" : "linear", exponentformat: "power" },
  }, QUIET);
}
