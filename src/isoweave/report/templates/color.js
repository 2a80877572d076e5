// Colours of points and edges.
const PALETTE = [
  "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22", "#3b4cc0",
  "#aec7e8", "#ffbb78", "#98df8a", "#ff9896", "#c5b0d5", "#c49c94", "#f7b6d2", "#9edae5", "#dbdb8d", "#7f7f7f",
];
const MISSING = "#c9ced6";
const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const DIVERGING = ["#3b4cc0", "#7b9ff9", "#c0d4f5", "#dddddd", "#f2cbb7", "#ee8468", "#b40426"];
const EDGE_CLASSES = [
  { upTo: -0.25, color: "#3b4cc0", text: "shorter by more than 25 %" },
  { upTo: -0.1, color: "#8db0fe", text: "shorter by 10 to 25 %" },
  { upTo: 0.1, color: "#9aa0a8", text: "within 10 %" },
  { upTo: 0.25, color: "#f4987a", text: "longer by 10 to 25 %" },
  { upTo: Infinity, color: "#b40426", text: "longer by more than 25 %" },
];

const edgeClass = (d) => EDGE_CLASSES.findIndex((kind) => d <= kind.upTo);
const scaleOf = (colors) => colors.map((color, k) => [k / (colors.length - 1), color]);

// Colours of classes as a colour scale of steps; the first step is for what is missing or faded.
function steps(colors) {
  const all = [MISSING, ...colors];
  return all.flatMap((color, k) => [[k / all.length, color], [(k + 1) / all.length, color]]);
}

// Numbers per point with the scale they are coloured by. Classes in `faded` are drawn as if missing.
function coloring(column, faded) {
  if (!column) return { color: PALETTE[0] };
  if (column.levels) {
    const used = Math.min(column.levels.length, PALETTE.length);
    const color = new Float32Array(data.n);
    for (let i = 0; i < data.n; i++) {
      const code = column.codes[i];
      color[i] = code < 0 || faded.has(code) ? -1 : code % PALETTE.length;
    }
    return { color, colorscale: steps(PALETTE.slice(0, used)), cmin: -1.5, cmax: used - 0.5 };
  }
  const low = Math.max(-Number.MAX_VALUE / 4, column.low);
  const high = Math.min(Number.MAX_VALUE / 4, column.high);
  const color = new Float64Array(data.n);
  if (column.ratio) {
    // One in the middle, and as much room for a half as for two.
    const reach = Math.max(Math.log(1.02), Math.abs(Math.log(low)), Math.abs(Math.log(high)));
    const end = Number.isFinite(reach) ? reach : Math.log(10);
    for (let i = 0; i < data.n; i++) color[i] = Math.log(column.numbers[i]);
    return { color, colorscale: scaleOf(DIVERGING), cmin: -end, cmax: end, ends: [Math.exp(-end), 1, Math.exp(end)] };
  }
  for (let i = 0; i < data.n; i++) color[i] = column.numbers[i];
  const top = high > low ? high : low + 1;
  return { color, colorscale: scaleOf(VIRIDIS), cmin: low, cmax: top, ends: [low, (low + top) / 2, top] };
}

function colorOf(column, v) {
  if (!column) return PALETTE[0];
  if (column.levels) return column.codes[v] < 0 ? MISSING : PALETTE[column.codes[v] % PALETTE.length];
  const look = coloringOf(column);
  const value = look.color[v];
  if (Number.isNaN(value)) return MISSING;
  const colors = column.ratio ? DIVERGING : VIRIDIS;
  const at = Math.round(((value - look.cmin) / (look.cmax - look.cmin)) * (colors.length - 1));
  return colors[Math.min(colors.length - 1, Math.max(0, at))];
}

// The colouring that is shown, computed once per column and choice of classes.
let shown = { column: undefined, key: "", look: null };
function coloringOf(column, faded = state.faded) {
  const key = [...faded].join();
  if (!shown.look || shown.column !== column || shown.key !== key) shown = { column, key, look: coloring(column, faded) };
  return shown.look;
}

function drawLegend(column, look, onToggle) {
  const box = element("legend");
  box.replaceChildren();
  if (column && column.levels) {
    column.levels.slice(0, 40).forEach((level, code) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = state.faded.has(code) ? "off" : "";
      button.append(swatch(PALETTE[code % PALETTE.length]), level);
      button.addEventListener("click", () => onToggle(code));
      box.append(button);
    });
    if (column.levels.length > 40) box.append(`and ${column.levels.length - 40} more`);
  } else if (column) {
    const bar = document.createElement("div");
    bar.className = "bar";
    bar.style.background = `linear-gradient(to right, ${(column.ratio ? DIVERGING : VIRIDIS).join(",")})`;
    const ends = document.createElement("div");
    ends.className = "ends";
    for (const x of look.ends) ends.append(Object.assign(document.createElement("span"), { textContent: format(Number(x.toPrecision(3))) }));
    box.append(bar, ends);
  }
  if (state.edges !== "none") {
    for (const kind of EDGE_CLASSES) {
      const row = document.createElement("div");
      row.append(swatch(kind.color), ` ${kind.text}`);
      row.firstChild.style.display = "inline-block";
      box.append(row);
    }
  }
}

function swatch(color) {
  const mark = document.createElement("span");
  mark.className = "swatch";
  mark.style.background = color;
  return mark;
}
