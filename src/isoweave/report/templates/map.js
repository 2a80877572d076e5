// The map: what is shown, and drawing it.
const MOST_WORST = 2000;
const MOST_DRAWN = 30000;
const hasWebGL = (() => {
  try {
    const canvas = document.createElement("canvas");
    return Boolean(canvas.getContext("webgl") || canvas.getContext("webgl2"));
  } catch {
    return false;
  }
})();

// plotly reads tags in texts; ours have none.
const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const state = {
  color: data.columns.length ? 0 : -1,
  faded: new Set(),
  is3d: data.dimension === 3 && hasWebGL,
  axes: [],
  edges: "none",
  size: Math.max(2, Math.min(9, 2 + 140 / Math.sqrt(data.n))),
  picked: -1,
};

// Everything an axis can show, by key: coordinates, principal axes, columns of numbers.
const axisChoices = new Map();
data.coordinates.forEach((values, k) => axisChoices.set(`x${k + 1}`, { title: `x${k + 1}`, isLength: true, get: () => values }));
if (data.principal) {
  data.principal.shares.forEach((share, k) => {
    let made = null;
    const title = `principal ${k + 1} (${Math.round(100 * share)} %)`;
    const get = () => {
      if (!made) {
        made = new Float64Array(data.n);
        data.coordinates.forEach((values, a) => {
          const weight = data.principal.axes[k][a];
          for (let i = 0; i < data.n; i++) made[i] += weight * (values[i] - data.principal.mean[a]);
        });
      }
      return made;
    };
    axisChoices.set(`p${k + 1}`, { title, isLength: true, get });
  });
}
axisChoices.set("zero", { title: "(nothing)", isLength: true, get: () => new Float64Array(data.n) });
data.columns.forEach((column, k) => {
  if (!column.levels) axisChoices.set(`c${k}`, { title: column.name, isLength: false, get: () => column.numbers });
});
const startAxes = { 1: ["x1", "zero", "zero"], 2: ["x1", "x2", "zero"], 3: ["x1", "x2", "x3"] };
state.axes = startAxes[data.dimension] || ["p1", "p2", "p3"];

const column = () => data.columns[state.color];

function axisValues() {
  return state.axes.slice(0, state.is3d ? 3 : 2).map((key) => axisChoices.get(key).get());
}

// One polyline per class of edges, with gaps.
function edgeLines(values) {
  const lines = EDGE_CLASSES.map(() => values.map(() => []));
  const add = (i, j, d) => {
    const line = lines[edgeClass(d)];
    values.forEach((axis, k) => line[k].push(axis[i], axis[j], NaN));
  };
  if (state.edges === "all") {
    forEachEdge((i, j, length) => { if (isPlaced(i) && isPlaced(j)) add(i, j, distortion(i, j, length)); });
  } else if (state.edges === "worst") {
    for (const [i, j, d] of worstEdges()) add(i, j, d);
  }
  return lines;
}

let worst = null;
function worstEdges() {
  if (!worst) {
    const all = [];
    forEachEdge((i, j, length) => {
      const d = distortion(i, j, length);
      if (!Number.isNaN(d)) all.push([i, j, d, Math.abs(Math.log(1 + d))]);
    });
    all.sort((a, b) => b[3] - a[3]);
    worst = all.slice(0, MOST_WORST);
  }
  return worst;
}

function pickedEnds() {
  if (state.picked < 0 || !data.graph) return [];
  const ends = neighborsOf(state.picked).filter((end) => isPlaced(end.vertex));
  return ends.sort((a, b) => a.length - b.length).slice(0, MOST_NEIGHBORS);
}

// In space the picked vertex and its edges are one more line.
function pickedLines(values) {
  const line = values.map(() => []);
  if (state.picked < 0 || !state.is3d) return line;
  const ends = pickedEnds();
  values.forEach((axis, k) => {
    line[k].push(axis[state.picked]);
    for (const end of ends) line[k].push(axis[end.vertex], axis[state.picked]);
  });
  return line;
}

// In the plane they are arrows without heads, which lie over the points; lines would lie under them.
function pickedArrows() {
  if (state.picked < 0 || state.is3d || !isPlaced(state.picked)) return [];
  const [x, y] = axisValues();
  const arrow = (from, to, more) => ({
    x: x[to], y: y[to], ax: x[from], ay: y[from], axref: "x", ayref: "y", text: "", showarrow: true,
    arrowcolor: "#111111", arrowwidth: 1.3, arrowhead: 0, captureevents: false, ...more,
  });
  const here = state.picked;
  const mark = {
    x: x[here], y: y[here], text: "\u25a1", showarrow: false, font: { size: 18, color: "#111111" }, captureevents: false,
  };
  return [...pickedEnds().map((end) => arrow(here, end.vertex)), mark];
}

const named = (line) => Object.fromEntries(line.map((values, k) => ["xyz"[k], values]));

function traces() {
  const values = axisValues();
  const type = state.is3d ? "scatter3d" : hasWebGL ? "scattergl" : "scatter";
  const look = coloringOf(column());
  const { color, colorscale, cmin, cmax } = look;
  const points = {
    type, mode: "markers", hoverinfo: "none", showlegend: false, ...named(values),
    marker: {
      size: state.is3d ? Math.max(1, state.size / 2) : state.size, color, colorscale, cmin, cmax, showscale: false, line: { width: 0 },
      // WebGL draws lines first and points over them.
      opacity: state.edges === "none" ? 1 : 0.3,
    },
  };
  const edges = edgeLines(values).map((line, k) => ({
    type, hoverinfo: "skip", showlegend: false, connectgaps: false, ...named(line),
    // The worst edges of many may be too short to be seen as lines.
    mode: state.edges === "worst" ? "lines+markers" : "lines",
    line: { color: EDGE_CLASSES[k].color, width: state.is3d ? 3 : 1.5 },
    marker: { color: EDGE_CLASSES[k].color, size: 3 },
  }));
  const picked = {
    type, mode: "lines+markers", hoverinfo: "skip", showlegend: false, ...named(pickedLines(values)),
    line: { color: "#111111", width: 3 },
    marker: { size: 4, color: "#111111" },
  };
  return [points, ...edges, picked];
}

// Ranges are made here, with the same scale on both axes where both are lengths. plotly's own ways to choose ranges
// and to tie axes together look at all points again after every move, which takes half a second for 100,000 of them.
const MARGIN = { l: 55, r: 10, t: 10, b: 45 };
const plotSize = () => [element("map").clientWidth - MARGIN.l - MARGIN.r, element("map").clientHeight - MARGIN.t - MARGIN.b];
const areLengths = () => state.axes.slice(0, state.is3d ? 3 : 2).every((key) => axisChoices.get(key).isLength);

function ranges() {
  const found = state.axes.slice(0, 2).map(extent);
  if (!areLengths()) return found;
  const size = plotSize();
  const perPixel = Math.max(...found.map(([low, high], k) => (high - low) / Math.max(1, size[k])));
  return found.map(([low, high], k) => [-1, 1].map((side) => (low + high) / 2 + (side * perPixel * size[k]) / 2));
}

// The height follows the width when the window changes.
new ResizeObserver(() => {
  const full = element("map")._fullLayout;
  if (!full || state.is3d || !areLengths()) return;
  const [width, height] = plotSize();
  const [left, right] = full.xaxis.range;
  const [bottom, top] = full.yaxis.range;
  const reach = (((right - left) / width) * height) / 2;
  const middle = (bottom + top) / 2;
  if (Math.abs(top - bottom - 2 * reach) > 1e-3 * reach) Plotly.relayout(element("map"), { "yaxis.range": [middle - reach, middle + reach] });
}).observe(element("map"));

const extents = new Map();
function extent(key) {
  if (!extents.has(key)) {
    let low = Infinity;
    let high = -Infinity;
    for (const x of axisChoices.get(key).get()) {
      if (x < low) low = x;
      if (x > high) high = x;
    }
    const margin = 0.04 * (high - low) || 1;
    extents.set(key, low <= high ? [low - margin, high + margin] : [-1, 1]);
  }
  return extents.get(key);
}

function layout() {
  const chosen = state.axes.map((key) => axisChoices.get(key));
  const axis = (k) => ({ title: { text: plain(chosen[k].title) }, zeroline: false });
  const common = {
    margin: MARGIN, hovermode: "closest", dragmode: state.is3d ? "orbit" : "pan", showlegend: false,
    // Zoom is kept while colours change, and reset with the axes.
    uirevision: state.axes.join() + state.is3d, plot_bgcolor: "#ffffff", paper_bgcolor: "#ffffff",
  };
  if (state.is3d) {
    const camera = { eye: { x: 1.7, y: 1.7, z: 1.2 } };
    const scene = { camera, xaxis: axis(0), yaxis: axis(1), zaxis: axis(2), aspectmode: areLengths() ? "data" : "cube" };
    return { ...common, margin: { l: 0, r: 0, t: 0, b: 0 }, scene };
  }
  const [x, y] = ranges();
  return { ...common, annotations: pickedArrows(), xaxis: { ...axis(0), range: x }, yaxis: { ...axis(1), range: y } };
}

// Buttons are named one by one: plotly's own choice has one that sends the data to a server.
const CONFIG = { responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "" };
const BUTTONS_2D = [["toImage"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]];
const BUTTONS_3D = [["toImage"], ["orbitRotation", "pan3d", "zoom3d"], ["resetCameraDefault3d"]];
let drawnIs3d = null;

// Draws that are asked for while one is under way are made one, afterwards.
let drawing = null;
let isStale = false;
async function draw() {
  if (drawing) {
    isStale = true;
    return drawing;
  }
  drawing = (async () => {
    do {
      isStale = false;
      const isNew = state.is3d !== drawnIs3d;
      if (isNew) Plotly.purge(element("map"));
      await Plotly.react(element("map"), traces(), layout(), {
        ...CONFIG, scrollZoom: true, doubleClick: "reset",
        modeBarButtons: state.is3d ? BUTTONS_3D : BUTTONS_2D,
        toImageButtonOptions: { filename: "isoweave-map", scale: 2 },
      });
      drawnIs3d = state.is3d;
      if (isNew) setUpPointer();
      drawLegend(column(), coloringOf(column()), toggleClass);
    } while (isStale);
  })();
  try {
    await drawing;
  } finally {
    drawing = null;
  }
}

// A click on a class shows it alone, a click on the only one shown brings all back.
function toggleClass(code) {
  const codes = column().levels.map((_, k) => k);
  const isAlone = state.faded.size === codes.length - 1 && !state.faded.has(code);
  state.faded = isAlone ? new Set() : new Set(codes.filter((k) => k !== code));
  return draw();
}
