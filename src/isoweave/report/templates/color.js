// Colours of points and edges.
// The first eight can be told apart by colour-blind eyes (Okabe and Ito).
const PALETTE = [
  "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#b8a800", "#7a5fc0", "#8c564b", "#17becf",
  "#e377c2", "#7f7f7f", "#98df8a", "#ff9896", "#c5b0d5", "#c49c94", "#f7b6d2", "#9edae5", "#dbdb8d", "#ffbb78",
];
const MISSING = "#a8afb9";
const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const DIVERGING = ["#3b4cc0", "#7b9ff9", "#c0d4f5", "#dddddd", "#f2cbb7", "#ee8468", "#b40426"];
const EDGE_CLASSES = [
  { upTo: -0.25, color: "#3b4cc0", text: "over 25% shorter" },
  { upTo: -0.1, color: "#8db0fe", text: "10 to 25% shorter" },
  { upTo: 0.1, color: "#9aa0a8", text: "within 10%" },
  { upTo: 0.25, color: "#f4987a", text: "10 to 25% longer" },
  { upTo: Infinity, color: "#b40426", text: "over 25% longer" },
];

const edgeClass = (d) => EDGE_CLASSES.findIndex((kind) => d <= kind.upTo);

const bytesOf = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const PALETTE_BYTES = PALETTE.map(bytesOf);

// A class keeps its colour in every column it occurs in; the others take the first that is free.
const colorByName = new Map();
for (const each of data.columns.filter((column) => column.levels)) {
  const taken = new Set(each.levels.map((level) => colorByName.get(level)).filter((k) => k !== undefined));
  let next = 0;
  each.colors = each.levels.map((level, code) => {
    if (!colorByName.has(level)) {
      while (taken.has(next) && taken.size < PALETTE.length) next++;
      colorByName.set(level, taken.size < PALETTE.length ? next : code % PALETTE.length);
      taken.add(colorByName.get(level));
    }
    return colorByName.get(level);
  });
}

// Where numbers lie on their colour scale, from 0 to 1, and what its ends and middle are.
function scaleOf(column) {
  const low = Math.max(-Number.MAX_VALUE / 4, column.low);
  const high = Math.min(Number.MAX_VALUE / 4, column.high);
  if (column.ratio) {
    // One in the middle, and as much room for a half as for two.
    const reach = Math.max(Math.log(1.02), Math.abs(Math.log(low)), Math.abs(Math.log(high)));
    const end = Number.isFinite(reach) ? reach : Math.log(10);
    return { at: (x) => 0.5 + Math.log(x) / (2 * end), ends: [Math.exp(-end), 1, Math.exp(end)], colors: DIVERGING };
  }
  const top = high > low ? high : low + 1;
  return { at: (x) => (x - low) / (top - low), ends: [low, (low + top) / 2, top], colors: VIRIDIS };
}

function ramp(colors, t) {
  const at = Math.min(1, Math.max(0, t)) * (colors.length - 1);
  const k = Math.min(colors.length - 2, Math.floor(at));
  const [from, to] = [bytesOf(colors[k]), bytesOf(colors[k + 1])];
  return from.map((x, c) => Math.round(x + (at - k) * (to[c] - x)));
}

// Bytes r, g, b, a of every point. Points outside the chosen classes or the lasso are faint.
const FAINT = 26;
function coloring(column, faded, chosen) {
  const found = new Uint8Array(4 * data.n).fill(255);
  const scale = column && !column.levels && scaleOf(column);
  const steps = scale && Array.from({ length: 256 }, (_, k) => ramp(scale.colors, k / 255));
  const missing = bytesOf(MISSING);
  for (let i = 0; i < data.n; i++) {
    let bytes = PALETTE_BYTES[0];
    let isFaint = chosen !== null && !chosen.has(i);
    if (scale) {
      const t = scale.at(column.numbers[i]);
      bytes = Number.isNaN(t) ? missing : steps[Math.round(255 * Math.min(1, Math.max(0, t)))];
    } else if (column) {
      const code = column.codes[i];
      bytes = code < 0 ? missing : PALETTE_BYTES[column.colors[code]];
      isFaint ||= faded.has(code);
    }
    found.set(bytes, 4 * i);
    if (isFaint) found[4 * i + 3] = FAINT;
  }
  return found;
}

const hexOf = (bytes) => `#${[...bytes].map((x) => x.toString(16).padStart(2, "0")).join("")}`;
const colorOf = (v) => hexOf(colorsNow().subarray(4 * v, 4 * v + 3));

// The colouring that is shown, computed once per column and choice of points.
let shown = { key: null, chosen: null, bytes: null };
function colorsNow() {
  const key = `${state.color}:${[...state.faded].join()}`;
  if (shown.key !== key || shown.chosen !== state.chosen) {
    shown = { key, chosen: state.chosen, bytes: coloring(column(), state.faded, state.chosen) };
  }
  return shown.bytes;
}

const MOST_LISTED = 40;
function drawLegend(onToggle) {
  const box = element("legend");
  const chosen = column();
  const add = (tag, name, ...content) => {
    const made = Object.assign(document.createElement(tag), { className: name });
    made.append(...content);
    box.append(made);
    return made;
  };
  box.replaceChildren();
  const isSeen = chosen && showsColor();
  if (isSeen) add("h3", "", chosen.name);
  if (isSeen && chosen.levels) {
    chosen.levels.slice(0, MOST_LISTED).forEach((level, code) => {
      const button = add("button", state.faded.has(code) ? "off" : "", swatch(PALETTE[chosen.colors[code]]), level);
      button.type = "button";
      button.addEventListener("click", () => onToggle(code));
    });
    if (chosen.levels.length > MOST_LISTED) add("p", "", `and ${chosen.levels.length - MOST_LISTED} more`);
  } else if (isSeen) {
    const { colors, ends } = scaleOf(chosen);
    add("div", "bar").style.background = `linear-gradient(to right, ${colors.join(",")})`;
    add("div", "ends", ...ends.map((x) => Object.assign(document.createElement("span"), { textContent: format(Number(x.toPrecision(3))) })));
  }
  if (showsDistortion()) {
    add("h3", "", "edges: map against measured");
    for (const kind of EDGE_CLASSES) add("div", "row", swatch(kind.color), kind.text);
  }
  box.className = isSeen && chosen.levels ? "classes" : "";
  box.hidden = box.childElementCount === 0;
}

function swatch(color) {
  const mark = document.createElement("span");
  mark.className = "swatch";
  mark.style.background = color;
  return mark;
}
