// Points, lines and surfaces on a canvas: by WebGL 2, or by plain canvas calls where there is none.
// Both know `clear()`, `points(...)`, `lines(...)`, `faces(...)`; positions are triples, colours bytes of r, g, b, a.
const POINTS_VERTEX = `#version 300 es
in vec3 place; in vec4 tint; uniform mat3 turn; uniform vec2 middle, scale; uniform float size, depth; out vec4 color;
void main() {
  vec3 p = turn * place;
  gl_Position = vec4((p.xy - middle) * scale, -p.z * depth, 1.0);
  gl_PointSize = size + 2.0; color = tint;
}`;
const POINTS_FRAGMENT = `#version 300 es
precision highp float; in vec4 color; uniform float size, adding; out vec4 seen;
void main() {
  if (adding > 0.0) { seen = vec4(color.rgb, 1.0) * color.a; return; }
  float inside = clamp(0.5 * size - length(gl_PointCoord - 0.5) * (size + 2.0) + 0.5, 0.0, 1.0) * color.a;
  if (inside < 0.02) discard;
  seen = vec4(color.rgb * inside, inside);
}`;
// Every line is a thin rectangle: WebGL's own lines are one pixel wide.
const LINES_VERTEX = `#version 300 es
in vec2 corner; in vec3 from, to; in vec4 tint; uniform mat3 turn; uniform vec2 middle, scale, pixel; uniform float width, depth;
out vec4 color; out float side;
void main() {
  vec3 p = turn * from, q = turn * to;
  vec2 a = (p.xy - middle) * scale, b = (q.xy - middle) * scale;
  vec2 along = (b - a) / pixel;
  float reach = length(along);
  vec2 across = reach > 0.0 ? vec2(-along.y, along.x) / reach : vec2(0.0, 1.0);
  float wide = 0.5 * width + 1.0;
  gl_Position = vec4(mix(a, b, corner.x) + across * corner.y * wide * pixel, -mix(p.z, q.z, corner.x) * depth, 1.0);
  color = tint; side = corner.y * wide;
}`;
const LINES_FRAGMENT = `#version 300 es
precision highp float; in vec4 color; in float side; uniform float width; out vec4 seen;
void main() {
  float inside = clamp(0.5 * width - abs(side) + 0.5, 0.0, 1.0) * color.a;
  seen = vec4(color.rgb * inside, inside);
}`;
// Faces are lit from where one looks, each by its own slope: a flat map has plain colours.
const FACES_VERTEX = `#version 300 es
in vec3 place; in vec4 tint; uniform mat3 turn; uniform vec2 middle, scale; uniform float depth; out vec4 color; out vec3 at;
void main() {
  vec3 p = turn * place;
  gl_Position = vec4((p.xy - middle) * scale, -p.z * depth, 1.0);
  color = tint; at = p;
}`;
const FACES_FRAGMENT = `#version 300 es
precision highp float; in vec4 color; in vec3 at; uniform float lit; out vec4 seen;
void main() {
  vec3 across = cross(dFdx(at), dFdy(at));
  vec3 normal = across / max(length(across), 1e-30);
  if (normal.z < 0.0) normal = -normal;
  float light = mix(1.0, 0.3 + 0.45 * normal.z + 0.3 * max(0.0, dot(normal, vec3(-0.45, 0.6, 0.66))), lit);
  seen = vec4(color.rgb * min(light, 1.0), 1.0) * color.a;
}`;
// Sums of colours become their mean, the more opaque the more points fell on the pixel.
const SHADE_VERTEX = `#version 300 es
in vec2 corner; void main() { gl_Position = vec4(corner.x * 2.0 - 1.0, corner.y, 0.0, 1.0); }`;
const SHADE_FRAGMENT = `#version 300 es
precision highp float; uniform sampler2D sums; uniform float rate; out vec4 seen;
void main() {
  vec4 sum = texelFetch(sums, ivec2(gl_FragCoord.xy), 0);
  if (sum.a <= 0.0) discard;
  float opaque = 0.3 + 0.7 * (1.0 - exp(-rate * sum.a));
  seen = vec4(sum.rgb / sum.a, 1.0) * opaque;
}`;

function glPainter(canvas) {
  const gl = canvas.getContext("webgl2", { antialias: Boolean(data.faces), premultipliedAlpha: true });
  if (!gl) return null;
  const canAdd = Boolean(gl.getExtension("EXT_color_buffer_float") || gl.getExtension("EXT_color_buffer_half_float"));
  const texts = {
    points: [POINTS_VERTEX, POINTS_FRAGMENT], lines: [LINES_VERTEX, LINES_FRAGMENT], shade: [SHADE_VERTEX, SHADE_FRAGMENT],
    faces: [FACES_VERTEX, FACES_FRAGMENT],
  };
  // Without a graphics card every program takes a while to build: those that are never used are not.
  const programs = {};
  const programOf = (name) => (programs[name] ??= build(...texts[name]));
  const build = (vertex, fragment) => {
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    return program;
  };
  const corners = gl.createBuffer();
  gl.bindBuffer(gl.ARRAY_BUFFER, corners);
  gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([0, -1, 1, -1, 0, 1, 1, 1]), gl.STATIC_DRAW);
  // One buffer per array, filled again only when the array is another one.
  const kept = new Map();
  const attribute = (program, name, array, count, slot, each = 0, stride = 0, offset = 0) => {
    const at = gl.getAttribLocation(program, name);
    if (array) {
      let found = kept.get(slot);
      if (!found) kept.set(slot, (found = { buffer: gl.createBuffer(), array: null }));
      gl.bindBuffer(gl.ARRAY_BUFFER, found.buffer);
      if (found.array !== array) gl.bufferData(gl.ARRAY_BUFFER, array, gl.DYNAMIC_DRAW);
      found.array = array;
    } else gl.bindBuffer(gl.ARRAY_BUFFER, corners);
    gl.enableVertexAttribArray(at);
    const isByte = array instanceof Uint8Array;
    gl.vertexAttribPointer(at, count, isByte ? gl.UNSIGNED_BYTE : gl.FLOAT, isByte, stride, offset);
    gl.vertexAttribDivisor(at, each);
    return at;
  };
  const uniforms = (program, view, more) => {
    const { turn, middle, perPixel, depth } = view;
    const [width, height] = view.size;
    const all = { middle, scale: [2 / (perPixel[0] * width), 2 / (perPixel[1] * height)], ...more };
    gl.uniformMatrix3fv(gl.getUniformLocation(program, "turn"), true, turn.flat());
    gl.uniform1f(gl.getUniformLocation(program, "depth"), depth);
    for (const [name, value] of Object.entries(all)) {
      const at = gl.getUniformLocation(program, name);
      if (value.length) gl.uniform2f(at, ...value);
      else gl.uniform1f(at, value);
    }
  };
  const start = (program, view) => {
    const ratio = canvas.width / canvas.clientWidth || 1;
    const [left, top] = view.corner;
    const [width, height] = view.size;
    const box = [left * ratio, canvas.height - (top + height) * ratio, width * ratio, height * ratio].map(Math.round);
    gl.viewport(...box);
    gl.scissor(...box);
    gl.enable(gl.SCISSOR_TEST);
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    if (view.depth) gl.enable(gl.DEPTH_TEST);
    else gl.disable(gl.DEPTH_TEST);
    return ratio;
  };
  const finish = (used) => used.forEach((at) => { gl.vertexAttribDivisor(at, 0); gl.disableVertexAttribArray(at); });

  let faceIndex = null;
  let sums = null;
  const sumTarget = () => {
    if (sums && sums.width === canvas.width && sums.height === canvas.height) return sums;
    if (sums) { gl.deleteTexture(sums.texture); gl.deleteFramebuffer(sums.frame); }
    sums = { width: canvas.width, height: canvas.height, texture: gl.createTexture(), frame: gl.createFramebuffer() };
    gl.bindTexture(gl.TEXTURE_2D, sums.texture);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA16F, canvas.width, canvas.height);
    gl.bindFramebuffer(gl.FRAMEBUFFER, sums.frame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, sums.texture, 0);
    return sums;
  };

  return {
    kind: "webgl", canAdd,
    clear() {
      gl.disable(gl.SCISSOR_TEST);
      gl.bindFramebuffer(gl.FRAMEBUFFER, null);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    },
    points(view, positions, colors, size, rate = 0) {
      const program = programOf("points");
      if (rate) {
        gl.bindFramebuffer(gl.FRAMEBUFFER, sumTarget().frame);
        gl.disable(gl.SCISSOR_TEST);
        gl.clear(gl.COLOR_BUFFER_BIT);
      }
      const ratio = start(program, view);
      if (rate) gl.blendFunc(gl.ONE, gl.ONE);
      uniforms(program, view, { size: rate ? Math.max(1, Math.round(ratio)) - 2 : size * ratio, adding: rate });
      const used = [attribute(program, "place", positions, 3, `places ${view.slot}`), attribute(program, "tint", colors, 4, "tints")];
      gl.drawArrays(gl.POINTS, 0, positions.length / 3);
      finish(used);
      if (!rate) return;
      gl.bindFramebuffer(gl.FRAMEBUFFER, null);
      const shade = programOf("shade");
      start(shade, view);
      gl.activeTexture(gl.TEXTURE0);
      gl.bindTexture(gl.TEXTURE_2D, sums.texture);
      gl.uniform1f(gl.getUniformLocation(shade, "rate"), rate);
      const at = attribute(shade, "corner", null, 2);
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
      finish([at]);
    },
    lines(view, ends, colors, width) {
      const program = programOf("lines");
      const ratio = start(program, view);
      const pixel = view.size.map((side) => 2 / (side * ratio));
      uniforms(program, view, { pixel, width: Math.max(1, width * ratio) });
      const used = [
        attribute(program, "corner", null, 2), attribute(program, "from", ends, 3, `ends ${view.slot}`, 1, 24, 0),
        attribute(program, "to", ends, 3, `ends ${view.slot}`, 1, 24, 12), attribute(program, "tint", colors, 4, "edge tints", 1),
      ];
      gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, ends.length / 6);
      finish(used);
    },
    faces(view, positions, colors, corners) {
      const program = programOf("faces");
      start(program, view);
      uniforms(program, view, { lit: view.depth ? 1 : 0 });
      const used = [attribute(program, "place", positions, 3, `places ${view.slot}`), attribute(program, "tint", colors, 4, "tints")];
      if (!faceIndex) {
        faceIndex = gl.createBuffer();
        gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, faceIndex);
        gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, corners, gl.STATIC_DRAW);
      }
      gl.drawElements(gl.TRIANGLES, corners.length, gl.UNSIGNED_INT, 0);
      finish(used);
    },
  };
}

function plainPainter(canvas) {
  const pen = canvas.getContext("2d");
  const within = (view, act) => {
    const ratio = canvas.width / canvas.clientWidth || 1;
    pen.save();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.beginPath();
    pen.rect(...view.corner, ...view.size);
    pen.clip();
    act();
    pen.restore();
  };
  const ink = (colors, k) => `rgba(${colors[4 * k]},${colors[4 * k + 1]},${colors[4 * k + 2]},${colors[4 * k + 3] / 255})`;
  return {
    kind: "canvas", canAdd: false,
    clear: () => pen.clearRect(0, 0, canvas.width, canvas.height),
    points(view, positions, colors, size) {
      within(view, () => {
        for (let k = 0; 3 * k < positions.length; k++) {
          const [x, y] = onScreen(view, positions, k);
          pen.fillStyle = ink(colors, k);
          pen.fillRect(x - size / 2, y - size / 2, size, size);
        }
      });
    },
    lines(view, ends, colors, width) {
      within(view, () => {
        pen.lineWidth = width;
        for (let k = 0; 6 * k < ends.length; k++) {
          pen.strokeStyle = ink(colors, k);
          pen.beginPath();
          pen.moveTo(...onScreen(view, ends, 2 * k));
          pen.lineTo(...onScreen(view, ends, 2 * k + 1));
          pen.stroke();
        }
      });
    },
    faces(view, positions, colors, corners) {
      const at = Array.from({ length: positions.length / 3 }, (_, k) => onScreen(view, positions, k));
      const depth = (f) => at[corners[f]][2] + at[corners[f + 1]][2] + at[corners[f + 2]][2];
      const order = Array.from({ length: corners.length / 3 }, (_, k) => 3 * k).sort((f, g) => depth(f) - depth(g));
      within(view, () => {
        for (const f of order) {
          pen.fillStyle = ink(colors, corners[f]);
          pen.beginPath();
          for (let k = 0; k < 3; k++) pen.lineTo(at[corners[f + k]][0], at[corners[f + k]][1]);
          pen.fill();
        }
      });
    },
  };
}

// Where the k-th triple of coordinates lies, in CSS pixels of the canvas, and its depth.
function onScreen(view, positions, k) {
  const { turn, middle, perPixel, corner, size } = view;
  const p = [positions[3 * k], positions[3 * k + 1], positions[3 * k + 2]];
  const [x, y, z] = turn.map((row) => row[0] * p[0] + row[1] * p[1] + row[2] * p[2]);
  return [corner[0] + size[0] / 2 + (x - middle[0]) / perPixel[0], corner[1] + size[1] / 2 - (y - middle[1]) / perPixel[1], z];
}
