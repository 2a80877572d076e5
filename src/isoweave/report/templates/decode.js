// Typed arrays from base64 text; see report/_page.py.
const KINDS = {
  i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array,
};

function decode(packed) {
  const text = atob(packed.base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new KINDS[packed.type](bytes.buffer);
}

const element = (id) => document.getElementById(id);
const source = JSON.parse(element("data").textContent);
// The text of the data is as long as all arrays together, and no longer needed.
element("data").textContent = "";

const data = {
  n: source.n,
  dimension: source.dimension,
  scale: source.scale,
  coordinates: source.coordinates.map(decode),
  principal: source.principal,
  view: source.view && source.view.map(decode),
  truth: source.truth && source.truth.map(decode),
  beside: source.beside && { title: source.beside.title, axes: source.beside.axes.map(decode) },
  faces: source.faces && new Uint32Array(decode(source.faces)),
  names: source.names,
  columns: source.columns.map((column) => ({
    ...column,
    numbers: column.numbers && decode(column.numbers),
    codes: column.codes && decode(column.codes),
  })),
  graph: null,
  shepard: source.shepard,
  history: source.history,
};

if (source.graph) {
  const dropped = new Set(decode(source.graph.dropped));
  data.graph = {
    indptr: decode(source.graph.indptr),
    indices: decode(source.graph.indices),
    lengths: decode(source.graph.lengths),
    dropped,
  };
}

const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const nameOf = (v) => (data.names ? data.names[v] : String(v));
const isPlaced = (v) => !data.coordinates.some((axis) => Number.isNaN(axis[v]));

function valueOf(column, v) {
  if (column.levels) return column.codes[v] < 0 ? "missing" : column.levels[column.codes[v]];
  return format(column.numbers[v]);
}

function format(x) {
  if (Number.isNaN(x)) return "missing";
  if (x === 0 || (Math.abs(x) >= 1e-3 && Math.abs(x) < 1e6)) return String(Number(x.toPrecision(6)));
  return x.toExponential(3).replace(/\.?0*e\+?/, "e");
}

function mapDistance(i, j) {
  let sum = 0;
  for (const axis of data.coordinates) sum += (axis[i] - axis[j]) ** 2;
  return Math.sqrt(sum);
}

// Length in the map over measured length, minus 1.
function distortion(i, j, length) {
  const found = mapDistance(i, j);
  return found === length ? 0 : found / length - 1;
}

// Calls back with (i, j, length) for every edge i < j that was not dropped.
function forEachEdge(callback) {
  const { indptr, indices, lengths, dropped } = data.graph;
  for (let i = 0; i < data.n; i++) {
    for (let e = indptr[i]; e < indptr[i + 1]; e++) if (!dropped.has(e)) callback(i, indices[e], lengths[e]);
  }
}

// Both directions of every edge that was not dropped, by rows; made when the first vertex is picked.
let adjacency = null;
function neighborsOf(v) {
  if (!adjacency) {
    const start = new Int32Array(data.n + 1);
    forEachEdge((i, j) => { start[i + 1]++; start[j + 1]++; });
    for (let i = 0; i < data.n; i++) start[i + 1] += start[i];
    const next = start.slice(0, data.n);
    const ends = new Int32Array(start[data.n]);
    const lengths = new Float64Array(start[data.n]);
    forEachEdge((i, j, length) => {
      ends[next[i]] = j; lengths[next[i]++] = length;
      ends[next[j]] = i; lengths[next[j]++] = length;
    });
    adjacency = { start, ends, lengths };
  }
  const found = [];
  for (let e = adjacency.start[v]; e < adjacency.start[v + 1]; e++) {
    found.push({ vertex: adjacency.ends[e], length: adjacency.lengths[e] });
  }
  return found;
}
