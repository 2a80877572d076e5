// What lies over the picture: marks, names, the scale; and what the pointer does: move, zoom, turn, pick, lasso.
const ink = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();

function pickedEnds() {
  if (state.picked < 0 || !data.graph) return [];
  const ends = neighborsOf(state.picked).filter((end) => isPlaced(end.vertex));
  return ends.sort((a, b) => a.length - b.length).slice(0, MOST_NEIGHBORS);
}

function mark(panel) {
  const view = viewNow(panel);
  const { positions } = positionsNow(panel);
  pen.save();
  pen.beginPath();
  pen.rect(...view.corner, ...view.size);
  pen.clip();
  pen.lineWidth = 1.3;
  pen.strokeStyle = ink("--text");
  if (panel === other) drawDivider(view);
  if (other && state.hovered >= 0 && state.hovered !== state.picked) {
    const [x, y] = onScreen(view, positions, state.hovered);
    pen.beginPath();
    pen.arc(x, y, 8, 0, 2 * Math.PI);
    pen.stroke();
  }
  if (state.picked >= 0 && isPlaced(state.picked)) {
    const [x, y] = onScreen(view, positions, state.picked);
    pen.beginPath();
    for (const end of pickedEnds()) {
      pen.moveTo(x, y);
      pen.lineTo(...onScreen(view, positions, end.vertex).slice(0, 2));
    }
    pen.rect(x - 6, y - 6, 12, 12);
    pen.stroke();
  }
  if (state.names) drawNames(view, positions, panel);
  if (lasso.length > 1 && panelAt(...lasso[0]) === panel) {
    pen.fillStyle = "#0072b222";
    pen.beginPath();
    lasso.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.closePath();
    pen.fill();
    pen.stroke();
  }
  if (panel === main && areLengths() && state.picture !== "view" && isFlat()) drawScale(view);
  if (panel === main && !areLengths()) drawAxes(view);
  pen.restore();
}

// The edge towards the other map, and the title of this one.
function drawDivider(view) {
  const [x, y] = view.corner;
  pen.save();
  pen.strokeStyle = ink("--line");
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(...(x > 0 ? [x, y + view.size[1]] : [x + view.size[0], y]));
  pen.stroke();
  pen.font = "13px system-ui, sans-serif";
  label(data.beside.title, x + 10, y + 18, "left", view.size[0] - 20);
  pen.restore();
}

function label(text, x, y, align = "center", most = undefined) {
  pen.textAlign = align;
  pen.lineWidth = 4;
  pen.lineJoin = "round";
  pen.strokeStyle = ink("--paper");
  pen.fillStyle = ink("--text");
  pen.strokeText(text, x, y, most);
  pen.fillText(text, x, y, most);
}

// Names of classes, each at the member nearest to the middle of its class.
function classCenters(panel) {
  const key = `${positionsNow(panel).key}|${state.color}`;
  if (panel.centers?.key !== key) {
    const { positions } = positionsNow(panel);
    const members = column().levels.map(() => []);
    for (let v = 0; v < data.n; v++) if (column().codes[v] >= 0 && isPlaced(v)) members[column().codes[v]].push(v);
    const median = (list, k) => Float32Array.from(list, (v) => positions[3 * v + k]).sort()[list.length >> 1];
    const vertices = members.map((list) => {
      const middle = [0, 1, 2].map((k) => median(list, k));
      const gap = (v) => middle.reduce((sum, m, k) => sum + (positions[3 * v + k] - m) ** 2, 0);
      return list.length ? list.reduce((best, v) => (gap(v) < gap(best) ? v : best)) : -1;
    });
    panel.centers = { key, vertices };
  }
  return panel.centers.vertices;
}

function drawNames(view, positions, panel) {
  if (!column() || !column().levels || column().levels.length > MOST_LISTED) return;
  pen.font = "600 13px system-ui, sans-serif";
  classCenters(panel).forEach((v, code) => {
    if (v < 0 || state.faded.has(code)) return;
    const [x, y] = onScreen(view, positions, v);
    label(column().levels[code], x, y + 4);
  });
}

// A round length, drawn as long as it is in the picture.
function drawScale(view) {
  const wanted = 0.18 * view.size[0] * view.perPixel[0];
  const power = 10 ** Math.floor(Math.log10(wanted));
  const length = power * [5, 2, 1].find((step) => step * power <= wanted);
  const pixels = length / view.perPixel[0];
  const y = view.corner[1] + view.size[1] - 14;
  pen.font = "12px system-ui, sans-serif";
  pen.strokeStyle = ink("--text");
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(12, y - 4);
  pen.lineTo(12, y);
  pen.lineTo(12 + pixels, y);
  pen.lineTo(12 + pixels, y - 4);
  pen.stroke();
  label(format(length), 12 + pixels / 2, y - 6);
}

// Axes are drawn only where they mean something: columns.
function drawAxes(view) {
  const { middle } = positionsNow();
  pen.font = "12px system-ui, sans-serif";
  const [width, height] = view.size;
  shownAxes().slice(0, 2).forEach((axis, k) => {
    const half = (view.size[k] / 2) * view.perPixel[k];
    const ends = [-half, half].map((side) => format(Number((middle[k] + view.middle[k] + side).toPrecision(3))));
    if (k === 0) {
      label(ends[0], 60, height - 8, "left");
      label(axis.title, width / 2, height - 8);
      label(ends[1], width - 8, height - 8, "right");
    } else {
      label(ends[0], 8, height - 26, "left");
      label(axis.title, 8, 32, "left");
      label(ends[1], 8, 16, "left");
    }
  });
}

// The point nearest to a place on the screen; of those as near, in space, the one in front.
function pointAt(x, y, reach = 12) {
  if (state.picture === "matrix") return -1;
  const panel = panelAt(x, y);
  const view = viewNow(panel);
  const { positions } = positionsNow(panel);
  // Of a surface only the front can be seen.
  const front = isFlat(panel) ? 0 : state.surface ? reach : 1;
  let best = -1;
  let least = Infinity;
  for (let v = 0; v < data.n; v++) {
    const [a, b, z] = onScreen(view, positions, v);
    const near = Math.hypot(a - x, b - y);
    const gap = near - front * z * view.depth;
    if (near < reach && gap < least) [best, least] = [v, gap];
  }
  return best;
}

function zoomAt(x, y, factor) {
  const panel = panelAt(x, y);
  const { corner, size } = boxOf(panel);
  const offset = [x - corner[0] - size[0] / 2, corner[1] + size[1] / 2 - y];
  const seen = panel.camera;
  seen.middle = seen.middle.map((m, k) => m + offset[k] * seen.perPixel[k] * (1 - factor));
  seen.perPixel = seen.perPixel.map((p) => p * factor);
  seen.isFitted = false;
  draw();
}

function turnBy(dx, dy, seen) {
  const [a, b] = [dx * 0.008, dy * 0.008];
  const about = [
    [[Math.cos(a), 0, Math.sin(a)], [0, 1, 0], [-Math.sin(a), 0, Math.cos(a)]],
    [[1, 0, 0], [0, Math.cos(b), -Math.sin(b)], [0, Math.sin(b), Math.cos(b)]],
  ];
  seen.turn = multiply(about[1], multiply(about[0], seen.turn));
}

let lasso = [];
let isLasso = false;
const fingers = new Map();
let moved = 0;
let held = main; // the map that a finger moves
let lastTap = -1e9;
const stage = element("marks");
const placeOf = (event) => { const box = stage.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };

stage.addEventListener("pointerdown", (event) => {
  stage.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, placeOf(event));
  moved = 0;
  held = panelAt(...placeOf(event));
  lasso = isLasso || event.shiftKey ? [placeOf(event)] : [];
});

stage.addEventListener("pointermove", (event) => {
  const [x, y] = placeOf(event);
  const before = fingers.get(event.pointerId);
  if (!before) return showTip(event, pointAt(x, y));
  moved += Math.hypot(x - before[0], y - before[1]);
  element("tip").hidden = true;
  if (lasso.length) lasso.push([x, y]);
  else if (state.picture === "matrix") return undefined;
  else if (fingers.size === 2) {
    const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
    const gap = (p) => Math.max(10, Math.hypot(p[0] - other[0], p[1] - other[1]));
    zoomAt((x + other[0]) / 2, (y + other[1]) / 2, gap(before) / gap([x, y]));
  } else if (isFlat(held)) {
    held.camera.middle[0] -= (x - before[0]) * held.camera.perPixel[0];
    held.camera.middle[1] += (y - before[1]) * held.camera.perPixel[1];
  } else turnBy(x - before[0], y - before[1], held.camera);
  fingers.set(event.pointerId, [x, y]);
  held.camera.isFitted &&= lasso.length > 0;
  return draw();
});

const lift = (event) => {
  const [x, y] = placeOf(event);
  if (!fingers.delete(event.pointerId)) return;
  if (lasso.length > 2) choose(pointsIn(lasso));
  else if (moved < 5 && event.timeStamp - lastTap < 400) fitCamera();
  else if (moved < 5 && event.type === "pointerup") {
    lastTap = event.timeStamp;
    const v = pointAt(x, y, event.pointerType === "touch" ? 24 : 12);
    if (v >= 0) pick(v);
    else if (state.picture === "matrix") openCell(x, y);
    else if (state.chosen) choose(null);
  }
  lasso = [];
  draw();
};
stage.addEventListener("pointerup", lift);
stage.addEventListener("pointercancel", lift);
stage.addEventListener("pointerleave", () => { element("tip").hidden = true; lead(-1); });
stage.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (state.picture !== "matrix") zoomAt(...placeOf(event), Math.exp(Math.min(240, Math.max(-240, event.deltaY)) * 0.0015));
}, { passive: false });

function openCell(x, y) {
  const cell = matrixCells().find((each) => each.row !== each.at && x > each.x && x < each.x + each.side && y > each.y && y < each.y + each.side);
  if (!cell) return;
  state.axes = [`p${cell.at + 1}`, `p${cell.row + 1}`, state.axes[2]];
  setPicture("flat");
}

// The point under the pointer is marked in both maps.
function lead(v) {
  if (!other || state.hovered === v) return;
  state.hovered = v;
  requestAnimationFrame(paintMarks);
}

// Text is set as text: names and labels may hold anything.
function showTip(event, v) {
  const tip = element("tip");
  lead(v);
  tip.hidden = v < 0;
  if (v < 0) return;
  const lines = [data.names ? `${nameOf(v)} (vertex ${v})` : `vertex ${v}`];
  for (const each of data.columns.slice(0, 12)) lines.push(`${each.name}: ${valueOf(each, v)}`);
  tip.textContent = lines.join("\n");
  tip.dataset.vertex = v;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, window.innerWidth - box.width - 4))}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, window.innerHeight - box.height - 4))}px`;
}

// Points within a closed line, by the number of times a ray crosses it.
function pointsIn(line) {
  const panel = panelAt(...line[0]);
  const view = viewNow(panel);
  const { positions } = positionsNow(panel);
  const found = new Set();
  for (let v = 0; v < data.n; v++) {
    const [x, y] = onScreen(view, positions, v);
    let isInside = false;
    for (let a = 0, b = line.length - 1; a < line.length; b = a++) {
      const [[x1, y1], [x2, y2]] = [line[a], line[b]];
      if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) isInside = !isInside;
    }
    if (isInside) found.add(v);
  }
  return found;
}

function choose(points) {
  state.chosen = points && points.size ? points : null;
  element("chosen").hidden = !state.chosen;
  if (state.chosen) element("chosen-count").textContent = `${state.chosen.size.toLocaleString("en")} points selected`;
  return draw();
}
