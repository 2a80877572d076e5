// What leaves the page: pictures with a caption, and the selected rows.
function save(content, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const caption = () => `${document.title} · ${whatIsShown()}${panelsNow().length > 1 ? ` · beside: ${data.beside.title}` : ""}`;

// The picture, its marks, the legend and a caption on one canvas.
function picture() {
  paint();
  const [map, ratio] = [element("map"), window.devicePixelRatio || 1];
  const rows = legendRows();
  const made = document.createElement("canvas");
  const [width, height] = stageSize();
  const foot = 30 + 18 * Math.ceil(rows.length / Math.max(1, Math.floor(width / 170)));
  [made.width, made.height] = [map.width, map.height + Math.round(foot * ratio)];
  const brush = made.getContext("2d");
  brush.fillStyle = ink("--paper");
  brush.fillRect(0, 0, made.width, made.height);
  brush.drawImage(map, 0, 0);
  brush.drawImage(element("marks"), 0, 0);
  brush.scale(ratio, ratio);
  brush.font = "13px system-ui, sans-serif";
  brush.fillStyle = ink("--text");
  brush.fillText(caption(), 10, height + 18, width - 20);
  rows.forEach(([color, text], k) => {
    const perRow = Math.max(1, Math.floor(width / 170));
    const [x, y] = [10 + 170 * (k % perRow), height + 36 + 18 * Math.floor(k / perRow)];
    brush.fillStyle = color;
    brush.fillRect(x, y - 9, 10, 10);
    brush.fillStyle = ink("--text");
    brush.fillText(text, x + 15, y, 150);
  });
  return made;
}

function legendRows() {
  const chosen = showsColor() ? column() : null;
  const rows = [];
  if (chosen && chosen.levels) chosen.levels.slice(0, MOST_LISTED).forEach((level, code) => rows.push([PALETTE[chosen.colors[code]], level]));
  else if (chosen) {
    const { colors, ends } = scaleOf(chosen);
    [0, 0.5, 1].forEach((t, k) => rows.push([hexOf(ramp(colors, t)), `${k ? "" : `${chosen.name}: `}${format(Number(ends[k].toPrecision(3)))}`]));
  }
  if (showsDistortion()) EDGE_CLASSES.forEach((kind) => rows.push([kind.color, kind.text]));
  return rows;
}

function savePng() {
  picture().toBlob((blob) => save(blob, "image/png", "isoweave-map.png"));
}

// Few points are circles and lines that can be edited; many are a picture within the drawing.
const MOST_SHAPES = 20000;
function svgText() {
  const escape = (text) => plain(text).replaceAll('"', "&quot;");
  const [width, height] = stageSize();
  const parts = [];
  const edgeCount = state.edges === "none" ? 0 : edgesNow().ends.length / 6;
  if (state.picture === "matrix" || state.surface || panelsNow().length * (data.n + edgeCount) > MOST_SHAPES) {
    const whole = picture();
    const tall = whole.height / (window.devicePixelRatio || 1);
    const image = `<image width="${width}" height="${tall}" href="${whole.toDataURL("image/png")}"/>`;
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${tall}">${image}</svg>`;
  }
  for (const panel of panelsNow()) {
    const view = viewNow(panel);
    const [[left, top], [wide, tall]] = [view.corner, view.size];
    const at = (positions, k) => onScreen(view, positions, k).slice(0, 2).map((x) => x.toFixed(2));
    parts.push(`<svg x="${left}" y="${top}" width="${wide}" height="${tall}" viewBox="${left} ${top} ${wide} ${tall}">`);
    for (let e = 0; e < edgeCount; e++) {
      const { ends, colors } = edgesNow(panel);
      const [[x1, y1], [x2, y2]] = [at(ends, 2 * e), at(ends, 2 * e + 1)];
      parts.push(`<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" stroke="${hexOf(colors.subarray(4 * e, 4 * e + 3))}"/>`);
    }
    const { positions } = positionsNow(panel);
    for (let v = 0; v < data.n; v++) {
      if (Number.isNaN(positions[3 * v]) || !isPlaced(v) || !showsPoints()) continue;
      const [x, y] = at(positions, v);
      parts.push(`<circle cx="${x}" cy="${y}" r="${state.size / 2}" fill="${colorOf(v)}" fill-opacity="${colorsNow()[4 * v + 3] / 255}"/>`);
    }
    if (panel === other) parts.push(`<text x="${left + 10}" y="${top + 18}">${escape(data.beside.title)}</text>`);
    parts.push("</svg>");
  }
  legendRows().forEach(([color, text], k) => {
    const y = height + 40 + 18 * k;
    parts.push(`<rect x="10" y="${y - 9}" width="10" height="10" fill="${color}"/><text x="26" y="${y}">${escape(text)}</text>`);
  });
  const tall = height + 50 + 18 * legendRows().length;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${tall}" font-family="sans-serif" font-size="13" fill="${ink("--text")}">`
    + `<rect width="${width}" height="${tall}" fill="${ink("--paper")}"/>${parts.join("\n")}<text x="10" y="${height + 18}">${escape(caption())}</text></svg>`;
}

// The selected rows as a table: vertex, name, columns, coordinates.
function rowsText() {
  const cell = (value) => (/[",\n\r]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  const missing = (text) => (text === "missing" ? "" : text);
  const head = ["vertex", ...(data.names ? ["name"] : []), ...data.columns.map((each) => each.name), ...data.coordinates.map((_, k) => `x${k + 1}`)];
  const rows = [...state.chosen].map((v) => [
    v, ...(data.names ? [nameOf(v)] : []), ...data.columns.map((each) => missing(valueOf(each, v))),
    ...data.coordinates.map((axis) => (Number.isNaN(axis[v]) ? "" : axis[v])),
  ]);
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
