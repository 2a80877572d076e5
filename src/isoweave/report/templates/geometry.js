// A neighbourhood laid out from its measured distances: the twin of isoweave/plot/_distances.py.
const MOST_NEIGHBORS = 150;

// Eigenvalues, largest first, and eigenvectors (as rows) of a symmetric matrix, by cyclic Jacobi rotations.
function eigen(matrix) {
  const n = matrix.length;
  const a = matrix.map((row) => Float64Array.from(row));
  const v = a.map((_, i) => { const row = new Float64Array(n); row[i] = 1; return row; });
  for (let sweep = 0; sweep < 50; sweep++) {
    let off = 0;
    let all = 0;
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) { all += a[i][j] ** 2; if (i !== j) off += a[i][j] ** 2; }
    if (off <= 1e-26 * all) break;
    for (let p = 0; p < n; p++) {
      for (let q = p + 1; q < n; q++) {
        if (a[p][q] === 0) continue;
        const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const t = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
        const c = 1 / Math.sqrt(t * t + 1);
        const s = t * c;
        for (let k = 0; k < n; k++) {
          const x = a[k][p];
          const y = a[k][q];
          a[k][p] = c * x - s * y;
          a[k][q] = s * x + c * y;
        }
        for (let k = 0; k < n; k++) {
          const x = a[p][k];
          const y = a[q][k];
          a[p][k] = c * x - s * y;
          a[q][k] = s * x + c * y;
          const g = v[p][k];
          const h = v[q][k];
          v[p][k] = c * g - s * h;
          v[q][k] = s * g + c * h;
        }
      }
    }
  }
  const order = a.map((_, i) => i).sort((i, j) => a[j][j] - a[i][i]);
  return { values: order.map((i) => a[i][i]), vectors: order.map((i) => Array.from(v[i])) };
}

const multiply = (a, b) => a.map((row) => b[0].map((_, j) => row.reduce((sum, x, k) => sum + x * b[k][j], 0)));
const transpose = (a) => a[0].map((_, j) => a.map((row) => row[j]));
const dot = (x, y) => x.reduce((sum, value, k) => sum + value * y[k], 0);

// The orthogonal matrix U V^T of M = U S V^T, completed where M has no full rank.
function nearestOrthogonal(m) {
  const n = m.length;
  const { values, vectors } = eigen(multiply(transpose(m), m));
  const left = [];
  for (let k = 0; k < n; k++) {
    let u = m.map((row) => dot(row, vectors[k]));
    const isKnown = values[k] > 1e-20 * values[0] && values[k] > 0;
    // A direction that M does not have: any unit vector at right angles to the others.
    const tries = isKnown ? [u] : [...Array(n).keys()].map((i) => Array.from({ length: n }, (_, j) => Number(i === j)));
    let best = null;
    let longest = -1;
    for (const candidate of tries) {
      const rest = candidate.slice();
      for (const before of left) {
        const along = dot(before, rest);
        for (let i = 0; i < n; i++) rest[i] -= along * before[i];
      }
      const size = Math.sqrt(dot(rest, rest));
      if (size > longest) { longest = size; best = rest.map((x) => x / size); }
    }
    left.push(best);
  }
  return m.map((_, i) => m.map((__, j) => left.reduce((sum, u, k) => sum + u[i] * vectors[k][j], 0)));
}

function neighborhood(v) {
  const neighbors = neighborsOf(v).filter((end) => isPlaced(end.vertex));
  neighbors.sort((a, b) => a.length - b.length || a.vertex - b.vertex);
  neighbors.splice(MOST_NEIGHBORS);
  const vertices = [v, ...neighbors.map((end) => end.vertex)];
  const lengths = [0, ...neighbors.map((end) => end.length)];
  const p = vertices.length;
  const after = vertices.map((w) => data.coordinates.map((axis) => axis[w] - axis[v]));

  // Measured distances among them, completed by shortest paths within the neighbourhood.
  const position = new Map(vertices.map((w, at) => [w, at]));
  const d = vertices.map((_, i) => vertices.map((__, j) => (i === j ? 0 : Infinity)));
  vertices.forEach((w, at) => {
    for (const end of neighborsOf(w)) if (position.has(end.vertex)) d[at][position.get(end.vertex)] = end.length;
  });
  for (let k = 0; k < p; k++) {
    for (let i = 0; i < p; i++) for (let j = 0; j < p; j++) d[i][j] = Math.min(d[i][j], d[i][k] + d[k][j]);
  }
  const scale = Math.max(...d.map((row) => Math.max(...row))) || 1;
  const gram = d.map((row) => row.map((x) => -0.5 * (x / scale) ** 2));
  const means = gram.map((row) => row.reduce((sum, x) => sum + x, 0) / p);
  const mean = means.reduce((sum, x) => sum + x, 0) / p;
  const { values, vectors } = eigen(gram.map((row, i) => row.map((x, j) => x - means[i] - means[j] + mean)));

  const axes = [...Array(data.dimension).keys()];
  const scaled = vertices.map((_, i) => axes.map((k) => (k < p ? vectors[k][i] * Math.sqrt(Math.max(values[k], 0)) : 0)));
  const before = scaled.map((row, i) => {
    const relative = row.map((x, k) => x - scaled[0][k]);
    const reach = Math.sqrt(dot(relative, relative));
    return relative.map((x) => (reach > 1e-9 ? (x * lengths[i]) / reach : 0));
  });
  const turned = multiply(before, nearestOrthogonal(multiply(transpose(before), after)));
  return { vertices, lengths, before: turned, after };
}

// Both layouts in the plane: along the two longest axes in the map where there are more than two.
function inPlane(found) {
  if (data.dimension === 1) return { before: found.before.map(([x]) => [x, 0]), after: found.after.map(([x]) => [x, 0]) };
  if (data.dimension === 2) return { before: found.before, after: found.after };
  const plane = transpose(eigen(multiply(transpose(found.after), found.after)).vectors.slice(0, 2));
  return { before: multiply(found.before, plane), after: multiply(found.after, plane) };
}
