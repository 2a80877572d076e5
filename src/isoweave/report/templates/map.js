// The map: what is shown, where it lies, and drawing it.
const MOST_WORST = 2000;
const MOST_DRAWN = 1000000;
// More points than this on the screen are shaded by their density.
const DENSE = 50000;
const painter = glPainter(element("map")) ?? plainPainter(element("map"));
const hasWebGL = painter.kind === "webgl";
const pen = element("marks").getContext("2d");

// Roads and grids are lines rather than points.
const isRoad = data.graph !== null && !data.faces && data.graph.indices.length < 2 * data.n;
const dimension = data.dimension;
const state = {
  color: data.columns.length ? 0 : -1,
  faded: new Set(),
  chosen: null, // points in the lasso
  picture: data.view ? "view" : dimension === 3 ? "space" : "flat",
  axes: dimension > 3 ? ["p1", "p2", "p3"] : ["x1", dimension > 1 ? "x2" : "zero", dimension > 2 ? "x3" : "zero"],
  edges: isRoad && data.graph.indices.length <= MOST_DRAWN ? "all" : "none",
  names: false,
  surface: Boolean(data.faces),
  size: isRoad ? 1.5 : Math.max(2.5, Math.min(9, 2 + 140 / Math.sqrt(data.n))),
  truth: 0, // from 0, the map, to 1, the truth
  tour: 0,
  picked: -1,
  hovered: -1,
};
const column = () => data.columns[state.color];
// Points are left out where all edges of a road graph are drawn.
const showsPoints = () => !state.surface && (!isRoad || state.edges === "none" || state.edges === "worst");
const showsColor = () => showsPoints() || state.surface || state.edges === "tinted";
const showsDistortion = () => state.edges === "all" || state.edges === "worst";

// Everything an axis can show, by key: coordinates, principal axes, columns of numbers.
const axisChoices = new Map();
data.coordinates.forEach((values, k) => axisChoices.set(`x${k + 1}`, { title: `x${k + 1}`, isLength: true, get: () => values }));
const principal = (data.principal ? data.principal.shares : []).map((share, k) => {
  let made = null;
  const get = () => {
    if (!made) {
      made = new Float32Array(data.n);
      data.coordinates.forEach((values, a) => {
        const weight = data.principal.axes[k][a];
        for (let i = 0; i < data.n; i++) made[i] += weight * (values[i] - data.principal.mean[a]);
      });
    }
    return made;
  };
  axisChoices.set(`p${k + 1}`, { title: `principal ${k + 1} (${Math.round(100 * share)}%)`, isLength: true, get });
  return get;
});
axisChoices.set("zero", { title: "(nothing)", isLength: true, get: () => new Float32Array(data.n) });
data.columns.forEach((each, k) => {
  if (!each.levels) axisChoices.set(`c${k}`, { title: each.name, isLength: false, get: () => each.numbers });
});

// A tour through all dimensions: planes of principal axes first, then others, each reached by a smooth rotation.
const TOUR_STOPS = 40;
const tourPlanes = (() => {
  const count = principal.length;
  const unit = (k) => Array.from({ length: count }, (_, i) => Number(i === k));
  const planes = [];
  for (let b = 1; b < Math.min(count, 6); b++) for (let a = 0; a < b; a++) planes.push([unit(a), unit(b)]);
  let seed = 12345;
  const random = () => { seed = (1103515245 * seed + 12345) % 2147483648; return seed / 2147483648 - 0.5; };
  while (planes.length < TOUR_STOPS) planes.push([unit(0).map(random), unit(0).map(random)]);
  return planes.slice(0, TOUR_STOPS);
})();

function tourPlane(t) {
  const at = Math.floor(t) % TOUR_STOPS;
  const [from, to] = [tourPlanes[at], tourPlanes[(at + 1) % TOUR_STOPS]];
  const ease = 0.5 - 0.5 * Math.cos(Math.PI * (t - Math.floor(t)));
  const mixed = from.map((axis, k) => {
    // Signs mean nothing; with this one no axis passes through zero.
    const sign = dot(axis, to[k]) < 0 ? -1 : 1;
    return axis.map((x, i) => Math.cos((ease * Math.PI) / 2) * x + sign * Math.sin((ease * Math.PI) / 2) * to[k][i]);
  });
  const scaled = (axis) => { const size = Math.sqrt(dot(axis, axis)) || 1; return axis.map((x) => x / size); };
  const first = scaled(mixed[0]);
  const along = dot(first, mixed[1]);
  return [first, scaled(mixed[1].map((x, i) => x - along * first[i]))];
}

const isFlat = (panel = main) => (panel === other ? data.beside.axes.length < 3 : state.picture !== "space");
const shownAxes = () => state.axes.slice(0, isFlat() ? 2 : 3).map((key) => axisChoices.get(key));
const areLengths = () => state.picture !== "flat" && state.picture !== "space" ? true : shownAxes().every((axis) => axis.isLength);
// Only here can distances be read off: the map itself, whole.
const isWhole = () => dimension <= 3 && areLengths() && new Set(state.axes.slice(0, isFlat() ? 2 : 3)).size >= dimension
  && state.axes.slice(0, dimension).every((key) => key.startsWith("x") || key.startsWith("p"));

// Three numbers per point, as drawn; made anew when the picture changes, and only then.
let placed = { key: "", positions: null, middle: [0, 0], reach: [1, 1] };
function axesNow() {
  if (state.picture === "view") return data.view;
  if (state.picture === "tour") {
    return tourPlane(state.tour).map((axis) => {
      const made = new Float32Array(data.n);
      principal.forEach((get, k) => {
        const values = get();
        const weight = axis[k];
        if (weight !== 0) for (let i = 0; i < data.n; i++) made[i] += weight * values[i];
      });
      return made;
    });
  }
  const values = shownAxes().map((axis) => axis.get());
  if (!data.truth || !state.truth) return values;
  return values.map((axis, k) => {
    const truth = state.axes[k].startsWith("x") ? data.truth[Number(state.axes[k].slice(1)) - 1] : null;
    return truth ? axis.map((x, i) => (Number.isNaN(truth[i]) ? x : x + state.truth * (truth[i] - x))) : axis;
  });
}

function place(values) {
  const positions = new Float32Array(3 * data.n);
  const spans = values.map((axis) => {
    let low = Infinity;
    let high = -Infinity;
    for (const x of axis) { if (x < low) low = x; if (x > high) high = x; }
    return low <= high ? [low, high] : [-1, 1];
  });
  const middle = spans.map(([low, high]) => (low + high) / 2);
  values.forEach((axis, k) => { for (let i = 0; i < data.n; i++) positions[3 * i + k] = axis[i] - middle[k]; });
  return { positions, middle, reach: spans.map(([low, high]) => (high - low) / 2 || 1) };
}

function positionsNow(panel = main) {
  if (panel === other) return (other.placed ??= { ...place(data.beside.axes), key: "beside" });
  const key = [state.picture, state.axes, state.tour, state.truth].join();
  if (placed.key !== key) placed = { ...place(axesNow()), key };
  return placed;
}

// The part of the picture that is seen: middle and units per pixel of the turned positions.
const UPRIGHT = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
const TILTED = [[0.8, 0.6, 0], [-0.24, 0.32, 0.917], [0.55, -0.734, 0.4]];
const newCamera = () => ({ turn: UPRIGHT, middle: [0, 0], perPixel: [1, 1], isFitted: true });
const camera = newCamera();
const stageSize = () => [element("map").clientWidth, element("map").clientHeight];

// Two maps share the stage, the points and their colours; each has its own camera.
const main = { camera };
const other = data.beside ? { camera: newCamera() } : null;
const panelsNow = () => (other && state.picture !== "matrix" ? [main, other] : [main]);

// Beside each other on a wide stage, below each other on a narrow one.
function boxOf(panel) {
  const size = stageSize();
  const count = panelsNow().length;
  const along = size[0] >= size[1] ? 0 : 1;
  const corner = [0, 0];
  size[along] /= count;
  corner[along] = panel === other ? size[along] : 0;
  return { corner, size };
}

function panelAt(x, y) {
  const { corner } = boxOf(other);
  return panelsNow().length > 1 && x >= corner[0] && y >= corner[1] ? other : main;
}

function fitCamera() {
  for (const panel of panelsNow()) fit(panel);
  placeLegend();
}

function fit(panel) {
  const { reach } = positionsNow(panel);
  const room = boxOf(panel).size.map((side) => Math.max(40, side - 40));
  const seen = panel.camera;
  if (!isFlat(panel)) {
    const all = Math.sqrt(reach.reduce((sum, r) => sum + r * r, 0));
    seen.perPixel = Array(2).fill((2 * all) / Math.min(...room));
    seen.turn = TILTED;
  } else {
    const own = [0, 1].map((k) => (2 * reach[k]) / room[k]);
    seen.perPixel = panel === other || areLengths() ? Array(2).fill(Math.max(...own)) : own;
    seen.turn = UPRIGHT;
  }
  seen.middle = [0, 0];
  seen.isFitted = true;
}

// The legend lies in the corner with the fewest points beneath it.
const CORNERS = [["right", "top"], ["right", "bottom"], ["left", "bottom"], ["left", "top"]];
function placeLegend() {
  const box = element("legend");
  const [width, height] = stageSize();
  const size = [box.offsetWidth + 16, box.offsetHeight + 16];
  const counts = CORNERS.map(() => 0);
  for (const panel of panelsNow()) {
    const view = viewNow(panel);
    const { positions } = positionsNow(panel);
    for (let v = 0; v < data.n; v += Math.ceil(data.n / 5000)) {
      const [x, y] = onScreen(view, positions, v);
      CORNERS.forEach(([side, end], k) => {
        if ((side === "left" ? x : width - x) < size[0] && (end === "top" ? y : height - y) < size[1]) counts[k]++;
      });
    }
  }
  const best = CORNERS[counts.indexOf(Math.min(...counts))];
  box.dataset.corner = state.picture === "matrix" ? "right top" : best.join(" ");
}

function viewNow(panel = main) {
  const { reach } = positionsNow(panel);
  const depth = isFlat(panel) ? 0 : 0.9 / Math.sqrt(reach.reduce((sum, r) => sum + r * r, 0));
  return { ...panel.camera, depth, ...boxOf(panel), slot: panel === other ? "beside" : "" };
}

const screen = (v, panel = main) => onScreen(viewNow(panel), positionsNow(panel).positions, v);

// Ends and colours of the edges that are shown; made anew with the positions. Colours are those of the map.
function edgesNow(panel = main) {
  const { key, positions } = positionsNow(panel);
  const all = `${key}|${state.edges}`;
  if (panel.lined?.key !== all) {
    const edges = state.edges === "worst" ? worstEdges() : allEdges();
    const ends = new Float32Array(6 * edges.count);
    for (let e = 0; e < edges.count; e++) {
      for (let k = 0; k < 3; k++) {
        ends[6 * e + k] = positions[3 * edges.from[e] + k];
        ends[6 * e + 3 + k] = positions[3 * edges.to[e] + k];
      }
    }
    panel.lined = { key: all, ends, edges };
  }
  const { edges, ends } = panel.lined;
  return { ends, edges, colors: state.edges === "tinted" ? tinted(edges) : edges.colors };
}

// Edges in the colour of their first end.
let tints = { edges: null, bytes: null, colors: null };
function tinted(edges) {
  const bytes = colorsNow();
  if (tints.edges !== edges || tints.bytes !== bytes) {
    const colors = new Uint8Array(4 * edges.count);
    for (let e = 0; e < edges.count; e++) colors.set(bytes.subarray(4 * edges.from[e], 4 * edges.from[e] + 4), 4 * e);
    tints = { edges, bytes, colors };
  }
  return tints.colors;
}

const EDGE_BYTES = EDGE_CLASSES.map((kind) => [...bytesOf(kind.color), 255]);
let edgeLists = {};
function allEdges() {
  if (!edgeLists.all) {
    const most = data.graph.indices.length;
    const list = { from: new Int32Array(most), to: new Int32Array(most), distortion: new Float32Array(most), count: 0 };
    forEachEdge((i, j, length) => {
      const d = distortion(i, j, length);
      if (Number.isNaN(d)) return;
      [list.from[list.count], list.to[list.count], list.distortion[list.count++]] = [i, j, d];
    });
    // The most distorted on top.
    edgeLists.all = sorted(list, list.count);
  }
  return edgeLists.all;
}

function sorted(list, count) {
  const weight = list.distortion.map((d) => Math.abs(Math.log(1 + Math.max(d, -0.999999))));
  const order = Array.from({ length: list.count }, (_, e) => e).sort((a, b) => weight[a] - weight[b]).slice(list.count - count);
  const take = (values) => Int32Array.from(order, (e) => values[e]);
  const colors = new Uint8Array(4 * count);
  order.forEach((e, k) => colors.set(EDGE_BYTES[edgeClass(list.distortion[e])], 4 * k));
  return { from: take(list.from), to: take(list.to), distortion: Float32Array.from(order, (e) => list.distortion[e]), count, colors };
}

function worstEdges() {
  edgeLists.worst ??= sorted(allEdges(), Math.min(MOST_WORST, allEdges().count));
  return edgeLists.worst;
}

// How many points are in sight decides whether they are dots or a density; the edges of roads need no dots.
function inSight(view, positions) {
  let count = 0;
  for (let v = 0; v < data.n; v++) {
    const [x, y] = [(positions[3 * v] - view.middle[0]) / view.perPixel[0], (positions[3 * v + 1] - view.middle[1]) / view.perPixel[1]];
    if (Math.abs(x) <= view.size[0] / 2 && Math.abs(y) <= view.size[1] / 2) count++;
  }
  return count;
}

// Brings the canvases to the size of the stage; false if they have it already.
function resized() {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = stageSize().map((side) => Math.max(1, Math.round(side * ratio)));
  const changed = [element("map"), element("marks")].filter((each) => each.width !== width || each.height !== height);
  changed.forEach((each) => Object.assign(each, { width, height }));
  return changed.length > 0;
}

function paint() {
  resized();
  painter.clear();
  state.isDense = false;
  if (state.picture !== "matrix") panelsNow().forEach(paintPanel);
  paintMarks();
  const kind = element("kind");
  kind.textContent = whatIsShown();
  // Beside another map it keeps to its own half, and the legend to what is below it.
  kind.style.maxWidth = `calc(${boxOf(main).size[0]}px - 1rem)`;
  element("legend")?.style.setProperty("--below", `${kind.offsetHeight}px`);
}

function paintPanel(panel) {
  const view = viewNow(panel);
  const { positions, reach } = positionsNow(panel);
  if (state.surface) painter.faces(view, positions, colorsNow(), data.faces);
  const hasEdges = state.edges !== "none" && data.graph;
  if (hasEdges) {
    const { ends, colors } = edgesNow(panel);
    painter.lines(view, ends, colors, state.edges === "worst" ? 2 : 1);
  }
  const seen = painter.canAdd && isFlat(panel) && data.n > DENSE ? inSight(view, positions) : 0;
  const isDense = seen > DENSE && !hasEdges;
  if (panel === main) state.isDense = isDense;
  // A pixel of the mean density becomes two thirds opaque.
  const pixels = (4 * reach[0] * reach[1]) / (view.perPixel[0] * view.perPixel[1]);
  const rate = Math.min(2, Math.max(0.02, pixels / data.n));
  if (showsPoints()) painter.points(view, positions, colorsNow(), hasEdges ? state.size * 0.7 : state.size, isDense ? rate : 0);
}

// What lies over the points; quick, so that the pointer can lead it.
function paintMarks() {
  const ratio = window.devicePixelRatio || 1;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, ...stageSize());
  if (state.picture === "matrix") paintMatrix();
  else panelsNow().forEach(mark);
}

// The leading principal axes against each other; a click opens a cell.
const MATRIX_AXES = Math.min(4, principal.length);
// The words above the cells take one line.
const MATRIX_TOP = 24;
function matrixCells() {
  const [width, height] = stageSize();
  const side = Math.min(width, height - MATRIX_TOP) / MATRIX_AXES;
  const left = (width - side * MATRIX_AXES) / 2;
  const cells = [];
  for (let row = 0; row < MATRIX_AXES; row++) {
    for (let at = 0; at <= row; at++) cells.push({ row, at, x: left + at * side, y: MATRIX_TOP + row * side, side });
  }
  return cells;
}

function paintMatrix() {
  const axes = principal.slice(0, MATRIX_AXES).map((get) => get());
  for (const { row, at, x, y, side } of matrixCells()) {
    pen.strokeStyle = ink("--line");
    pen.strokeRect(x + 3, y + 3, side - 6, side - 6);
    if (row === at) {
      pen.fillStyle = ink("--text");
      pen.font = "13px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.fillText(`principal ${row + 1}`, x + side / 2, y + side / 2 - 4);
      const share = `${Math.round(100 * data.principal.shares[row])}%`;
      pen.fillText(side < 140 ? share : `${share} of the variance`, x + side / 2, y + side / 2 + 14);
      continue;
    }
    const { positions, reach } = place([axes[at], axes[row]]);
    const perPixel = (2 * Math.max(...reach)) / (side - 20);
    const view = { turn: UPRIGHT, middle: [0, 0], perPixel: [perPixel, perPixel], depth: 0, corner: [x + 3, y + 3], size: [side - 6, side - 6] };
    painter.points(view, positions, colorsNow(), Math.max(1.5, state.size / 2));
  }
}

function whatIsShown() {
  const names = shownAxes().map((axis) => axis.title);
  if (state.picture === "view") return "View (t-SNE held by the order of distances): clusters and their places; distances are not to scale";
  if (state.picture === "matrix") return `Leading axes of the ${dimension}-dimensional map`;
  if (state.picture === "tour") {
    const share = tourPlane(state.tour).reduce((sum, axis) => sum + axis.reduce((s, x, k) => s + x * x * data.principal.shares[k], 0), 0);
    return `Tour of ${dimension} dimensions: this plane holds ${Math.round(100 * share)}% of the variance`;
  }
  if (state.truth >= 1) return "The truth";
  if (state.truth > 0) return "Between the map and the truth";
  if (isWhole()) return data.scale;
  if (!areLengths()) return names.join(" against ");
  return `Projection of a ${dimension}-dimensional map: ${names.join(", ")}`;
}

// Draws that are asked for before the next frame are one.
let drawing = null;
function draw() {
  drawing ??= new Promise((done, failed) => {
    requestAnimationFrame(() => {
      drawing = null;
      try {
        paint();
        done();
      } catch (error) {
        failed(error);
      }
    });
  });
  return drawing;
}

// A click on a class shows it alone, a click on the only one shown brings all back.
function toggleClass(code) {
  const codes = column().levels.map((_, k) => k);
  const isAlone = state.faded.size === codes.length - 1 && !state.faded.has(code);
  state.faded = isAlone ? new Set() : new Set(codes.filter((k) => k !== code));
  drawLegend(toggleClass);
  return draw();
}
