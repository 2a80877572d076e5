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

const on = (id, kind, act) => element(id).addEventListener(kind, act);

function setPicture(picture) {
  state.picture = picture;
  element("picture").value = picture;
  [0, 1, 2].forEach((k) => { element(`axis-${k}`).value = state.axes[k]; });
  element("axes").hidden = picture !== "flat" && picture !== "space";
  element("axis-2-label").hidden = picture !== "space";
  element("tour").hidden = picture !== "tour";
  element("truth-label").hidden = !data.truth || picture !== "flat";
  isPlaying = false;
  fitCamera();
  return draw();
}

function setUpControls() {
  const byIndex = data.columns.map((each, k) => [String(k), each.name]);
  choices("color", [...byIndex, ["-1", "(one colour)"]], String(state.color)).addEventListener("change", (event) => {
    state.color = Number(event.target.value);
    state.faded = new Set();
    drawLegend(toggleClass);
    draw();
    if (state.picked >= 0) pick(state.picked);
  });
  const pictures = [["flat", dimension <= 2 ? "map" : "2-D"]];
  if (dimension > 2) pictures.push(["space", "3-D"]);
  if (dimension > 3) pictures.push(["tour", "tour"], ["matrix", "scatter matrix"]);
  if (data.view) pictures.unshift(["view", "view (t-SNE)"]);
  element("picture-label").hidden = pictures.length < 2;
  choices("picture", pictures, state.picture).addEventListener("change", (event) => setPicture(event.target.value));
  const axes = [...axisChoices].map(([key, choice]) => [key, choice.title]);
  for (const k of [0, 1, 2]) {
    choices(`axis-${k}`, axes, state.axes[k]).addEventListener("change", (event) => {
      state.axes = state.axes.map((key, i) => (i === k ? event.target.value : key));
      fitCamera();
      draw();
    });
  }
  const edges = [["none", "hidden"]];
  if (data.graph) {
    const count = data.graph.indices.length;
    if (count > MOST_WORST) edges.push(["worst", `${MOST_WORST} most distorted`]);
    if (count <= MOST_DRAWN) edges.push(["all", "all"], ["tinted", "all, by colour"]);
  }
  element("edges-label").hidden = edges.length < 2;
  choices("edges", edges, state.edges).addEventListener("change", (event) => {
    state.edges = event.target.value;
    drawLegend(toggleClass);
    draw();
  });
  on("surface", "change", (event) => { state.surface = event.target.checked; drawLegend(toggleClass); draw(); });
  element("surface-label").hidden = !data.faces;
  element("surface").checked = state.surface;
  on("names", "change", (event) => { state.names = event.target.checked; draw(); });
  element("names-label").hidden = !data.columns.some((each) => each.levels);
  element("size").value = state.size;
  on("size", "input", (event) => { state.size = Number(event.target.value); draw(); });
  on("find", "change", (event) => find(event.target.value.trim()));
  on("controls", "submit", (event) => event.preventDefault());
  on("lasso", "click", () => {
    isLasso = !isLasso;
    element("lasso").setAttribute("aria-pressed", isLasso);
  });
  on("whole", "click", () => { fitCamera(); draw(); });
  on("png", "click", savePng);
  on("svg", "click", () => save(svgText(), "image/svg+xml", "isoweave-map.svg"));
  on("rows", "click", () => save(rowsText(), "text/csv", "selected.csv"));
  on("unchoose", "click", () => choose(null));
  on("close", "click", unpick);
  on("dark", "click", () => {
    const isDark = document.documentElement.dataset.theme === "dark"
      || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
    drawDiagrams();
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { drawDiagrams(); draw(); });
  on("play", "click", () => {
    isPlaying = !isPlaying;
    element("play").textContent = isPlaying ? "Pause" : "Play";
    if (isPlaying) requestAnimationFrame(play);
  });
  element("tour-at").max = TOUR_STOPS;
  on("tour-at", "input", (event) => { state.tour = Number(event.target.value); draw(); });
  on("truth", "input", (event) => { state.truth = Number(event.target.value); draw(); });
}

// One plane every three seconds.
let isPlaying = false;
let lastFrame = null;
function play(now) {
  if (!isPlaying) {
    lastFrame = null;
    element("play").textContent = "Play";
    return;
  }
  state.tour = (state.tour + Math.min(0.1, (now - (lastFrame ?? now)) / 3000)) % TOUR_STOPS;
  lastFrame = now;
  element("tour-at").value = state.tour;
  draw();
  requestAnimationFrame(play);
}

function find(text) {
  alertUser("");
  if (!text) return;
  let v = data.names ? data.names.indexOf(text) : -1;
  if (v < 0 && /^\d+$/.test(text) && Number(text) < data.n) v = Number(text);
  if (v < 0) alertUser(`There is no vertex ${text}.`);
  else pick(v);
}

// A picture that was not moved yet is fitted again when the window changes; otherwise its middle and scale stay.
// Browsers report the first size, too, after the first picture.
new ResizeObserver(() => {
  if (!resized()) return;
  for (const panel of panelsNow()) if (panel.camera.isFitted) fit(panel);
  placeLegend();
  draw();
}).observe(element("stage"));

async function start() {
  if (!hasWebGL) alertUser("This browser has no WebGL 2: maps of many points are drawn slowly.");
  document.body.classList.toggle("two", Boolean(other));
  setUpControls();
  drawLegend(toggleClass);
  await setPicture(state.picture);
  drawDiagrams();
  document.body.dataset.ready = "yes";
}

// For the browser's console, and for the tests.
window.isoweaveReport = {
  data, state, camera, draw, settled: () => drawing ?? draw(), pick, neighborhood, inPlane, eigen, screen, choose, pointAt, setPicture,
  svgText, rowsText, picture, colorsNow, edgesNow, positionsNow, axesNow, tourPlane, boxOf, main, other,
};
start().catch((error) => {
  alertUser(`The page could not be drawn: ${error.message}`);
  throw error;
});
