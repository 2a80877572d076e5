// Controls and events.
function choices(id, entries, value) {
  const select = element(id);
  for (const [key, text] of entries) select.append(new Option(text, key));
  select.value = value;
  return select;
}

function alertUser(text) {
  element("alert").textContent = text;
  element("alert").hidden = !text;
}

function setUpControls() {
  const byIndex = data.columns.map((each, k) => [String(k), each.name]);
  choices("color", [...byIndex, ["-1", "(one colour)"]], String(state.color)).addEventListener("change", (event) => {
    state.color = Number(event.target.value);
    state.faded = new Set();
    draw();
    if (state.picked >= 0) pick(state.picked);
  });
  const canTurn = data.dimension >= 3 && hasWebGL;
  element("view-label").hidden = !canTurn;
  choices("view", [["2", "2-D"], ["3", "3-D"]], state.is3d ? "3" : "2").addEventListener("change", (event) => {
    state.is3d = event.target.value === "3";
    element("axis-2-label").hidden = !state.is3d;
    draw();
  });
  element("axis-2-label").hidden = !state.is3d;
  const axes = [...axisChoices].map(([key, choice]) => [key, choice.title]);
  for (const k of [0, 1, 2]) {
    choices(`axis-${k}`, axes, state.axes[k]).addEventListener("change", (event) => {
      state.axes = state.axes.with ? state.axes.with(k, event.target.value) : state.axes.map((a, i) => (i === k ? event.target.value : a));
      draw();
    });
  }
  const edges = [["none", "hidden"]];
  if (data.graph) {
    const count = data.graph.indices.length;
    if (count > MOST_WORST) edges.push(["worst", `${MOST_WORST} most distorted`]);
    if (count <= MOST_DRAWN) edges.push(["all", "all"]);
  }
  choices("edges", edges, "none").addEventListener("change", (event) => {
    state.edges = event.target.value;
    draw();
  });
  element("size").value = state.size;
  element("size").addEventListener("change", (event) => {
    state.size = Number(event.target.value);
    draw();
  });
  element("find").addEventListener("change", (event) => find(event.target.value.trim()));
  element("controls").addEventListener("submit", (event) => event.preventDefault());
}

function find(text) {
  alertUser("");
  if (!text) return;
  let v = data.names ? data.names.indexOf(text) : -1;
  if (v < 0 && /^\d+$/.test(text) && Number(text) < data.n) v = Number(text);
  if (v < 0) alertUser(`There is no vertex ${text}.`);
  else pick(v);
}

// What the pointer is over. Text is set as text: names and labels may hold anything.
let pointer = { x: 0, y: 0 };
element("map").addEventListener("mousemove", (event) => {
  pointer = { x: event.clientX, y: event.clientY };
});
element("map").addEventListener("mouseleave", () => { element("tip").hidden = true; });

// In space plotly sees a click only if it lasts until the next frame; this sees all.
let hovered = -1;
let pressed = null;
element("map").addEventListener("mousedown", (event) => {
  pressed = { x: event.clientX, y: event.clientY, vertex: hovered };
}, true);
window.addEventListener("mouseup", (event) => {
  const { x, y, vertex } = pressed ?? { vertex: -1 };
  // Not before plotly has seen the button released, too.
  if (state.is3d && vertex >= 0 && Math.hypot(event.clientX - x, event.clientY - y) < 4) setTimeout(() => pick(vertex), 50);
  pressed = null;
}, true);

function setUpPointer() {
  const tip = element("tip");
  element("map").on("plotly_hover", (event) => {
    const point = event.points.find((each) => each.curveNumber === 0);
    if (!point) return;
    const v = point.pointNumber;
    hovered = v;
    const lines = [data.names ? `${nameOf(v)} (vertex ${v})` : `vertex ${v}`];
    for (const each of data.columns.slice(0, 12)) lines.push(`${each.name}: ${valueOf(each, v)}`);
    tip.textContent = lines.join("\n");
    tip.dataset.vertex = v;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(pointer.x + 14, window.innerWidth - box.width - 4)}px`;
    tip.style.top = `${Math.min(pointer.y + 14, window.innerHeight - box.height - 4)}px`;
  });
  element("map").on("plotly_unhover", () => {
    tip.hidden = true;
    hovered = -1;
  });
  element("map").on("plotly_click", (event) => {
    const point = event.points.find((each) => each.curveNumber === 0);
    if (point && !state.is3d) pick(point.pointNumber);
  });
}

async function start() {
  if (!hasWebGL) alertUser("This browser has no WebGL: maps of many points are drawn slowly, and never in 3-D.");
  setUpControls();
  await draw();
  await drawShepard();
  await drawHistory();
  document.body.dataset.ready = "yes";
}

// For the browser's console, and for the tests.
window.isoweaveReport = { data, state, draw, settled: () => drawing, pick, neighborhood, inPlane, eigen };
start().catch((error) => {
  alertUser(`The page could not be drawn: ${error.message}`);
  throw error;
});
