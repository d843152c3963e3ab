
// One panel as SVG: axes, bands, curves, markers, and what has left through the top (▲) or the bottom (▽).

const NS = "http://www.w3.org/2000/svg";
const FAR = 4000; // pixels outside the axis to which a curve is followed, so that it crosses the edge at its own angle
let clips = 0;

function svg(tag, attributes, parent) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  if (parent) parent.append(made);
  return made;
}

function ink(colour) {
  return colour === "#000000" ? "var(--ink)" : colour; // black is the colour of the text, also on a dark page
}

// `depth`: of the notches between the corners, 0 for none. `size` makes the shapes look equally large.
function polygon(corners, turn, depth = 0, size = 1) {
  const points = [], count = depth ? 2 * corners : corners;
  for (let i = 0; i < count; i++) {
    const angle = turn + (2 * Math.PI * i) / count, r = depth && i % 2 ? depth : 1;
    points.push([size * r * Math.sin(angle), -size * r * Math.cos(angle)]);
  }
  return points;
}

const CROSS = [[-1, -3], [1, -3], [1, -1], [3, -1], [3, 1], [1, 1], [1, 3], [-1, 3], [-1, 1], [-3, 1], [-3, -1], [-1, -1]]
  .map(([x, y]) => [x / 2.5, y / 2.5]);
const SHAPES = {
  o: polygon(20, 0), s: polygon(4, Math.PI / 4, 0, 1.2), D: polygon(4, 0, 0, 1.2), p: polygon(5, 0, 0, 1.1), h: polygon(6, 0, 0, 1.1),
  "^": polygon(3, 0, 0, 1.35), v: polygon(3, Math.PI, 0, 1.35), "<": polygon(3, -Math.PI / 2, 0, 1.35), ">": polygon(3, Math.PI / 2, 0, 1.35),
  "*": polygon(5, 0, 0.42, 1.5), P: CROSS, X: CROSS.map(([x, y]) => [(x - y) * 0.71, (x + y) * 0.71]),
};

function marker(parent, shape, x, y, radius, colour, open) {
  const points = (SHAPES[shape] || SHAPES.o).map(([dx, dy]) => `${round(x + radius * dx)},${round(y + radius * dy)}`);
  const made = svg("polygon", { points: points.join(" "), "stroke-width": open ? 1.3 : 0.8 }, parent);
  made.style.fill = open ? "var(--paper)" : colour;
  made.style.stroke = open ? colour : "var(--paper)";
  return made;
}

function round(v) {
  return Math.round(v * 10) / 10;
}

// The pixel of a value; null (not finite) is far above the axis, 0 on a log axis far below.
function heightOf(value, y, top, bottom) {
  if (value === null) return top - FAR;
  if (y.kind === "log" && value <= 0) return bottom + FAR;
  return Math.min(Math.max(y.at(value), top - FAR), bottom + FAR);
}

function pointsOf(series, grid, values, x, y, frame) {
  return values.map((value, i) =>
    (x.kind === "log" && grid[i] <= 0) || (value === null && series.gaps)
      ? null
      : [round(x.at(grid[i])), round(heightOf(value, y, frame.top, frame.bottom)), i]);
}

function linePath(points, steps, right) {
  let text = "", last = null;
  for (const point of points) {
    if (point === null) { last = null; continue; }
    const [px, py] = point;
    text += last === null ? `M${px} ${py}` : steps ? `H${px}V${py}` : `L${px} ${py}`;
    last = point;
  }
  return steps && text ? `${text}H${right}` : text;
}

function bandPath(low, high) {
  const pairs = low.map((point, i) => [point, high[i]]).filter(([a, b]) => a && b);
  if (pairs.length < 2) return "";
  return "M" + pairs.map(([, b]) => `${b[0]} ${b[1]}`).join("L") + "L" + pairs.reverse().map(([a]) => `${a[0]} ${a[1]}`).join("L") + "Z";
}

function drawPanel(chart, panel, state, size, first) {
  const frame = { left: 58, right: size.width - 18, top: 14, bottom: size.height - 42 };
  const x = makeScale(state.x, chart.x.scales[state.x], frame.left, frame.right);
  const y = makeScale(state.y, chart.y.scales[state.y], frame.bottom, frame.top);
  const root = svg("svg", { viewBox: `0 0 ${size.width} ${size.height}`, class: "plot" });
  const clip = `clip${++clips}`;
  const edge = svg("clipPath", { id: clip }, root);
  svg("rect", { x: frame.left, y: frame.top, width: frame.right - frame.left, height: frame.bottom - frame.top }, edge);
  drawAxes(root, chart, x, y, frame, first);
  const bands = svg("g", { "clip-path": `url(#${clip})` }, root);
  const lines = svg("g", { "clip-path": `url(#${clip})` }, root);
  const marks = svg("g", {}, root);
  const seen = [], escapes = [];
  panel.series.forEach((series, place) => {
    if (state.hidden.has(series.label)) return;
    const grid = chart.grids[series.grid], values = series.values[state.statistic] || Object.values(series.values)[0];
    const points = pointsOf(series, grid, values, x, y, frame), colour = ink(series.colour);
    const dim = state.highlight !== null && state.highlight !== series.label ? "dim" : "";
    if (state.band && series.band) {
      const [low, high] = series.band.map((side) => pointsOf(series, grid, side, x, y, frame));
      svg("path", { d: bandPath(low, high), class: `band ${dim}` }, bands).style.fill = colour;
    }
    if (points.length > 1) {
      const dashes = series.dash.map((d) => d * 1.6).join(" ");
      const line = svg("path", { d: linePath(points, series.steps, frame.right), class: `curve ${dim}`, "stroke-width": series.width }, lines);
      if (dashes) line.setAttribute("stroke-dasharray", dashes);
      line.style.stroke = colour;
    }
    const group = svg("g", { class: dim }, marks);
    drawMarkers(group, series, points, place / panel.series.length, frame, colour);
    const gone = leaving(series, grid, values, y);
    if (gone) {
      for (const at of gone.exits) {
        marker(group, "^", clamp(x.at(Math.max(at, x.low)), frame.left, frame.right), frame.top, 5, colour, false).setAttribute("class", "escape");
      }
      escapes.push({ colour, text: `${series.name}: ${gone.text(chart.unit)}` });
    }
    const sunk = sinking(grid, values, y);
    if (sunk !== null) marker(group, "v", clamp(x.at(Math.max(sunk, x.low)), frame.left, frame.right), frame.bottom, 4.5, colour, true);
    seen.push({ series, grid, values, colour });
  });
  return { root, x, y, frame, seen, escapes };
}

function clamp(v, low, high) {
  return Math.min(Math.max(v, low), high);
}

function drawMarkers(group, series, points, offset, frame, colour) {
  if (!series.marker) return;
  const inside = points.filter((p) => p && p[1] >= frame.top - 1 && p[1] <= frame.bottom + 1);
  if (!inside.length) return;
  const single = points.length === 1;
  const narrow = frame.right - frame.left < 300;
  const apart = (p, q) => Math.hypot(p[0] - q[0], p[1] - q[1]) > 22;
  let chosen = inside.reduce((kept, p) => (!kept.length || apart(p, kept[kept.length - 1]) ? [...kept, p] : kept), []);
  if (inside.length > 12) {
    const [from, to] = [inside[0][0], inside[inside.length - 1][0]];
    const count = narrow ? 4 : 6;
    const wanted = [...Array(count).keys()].map((i) => from + ((i + 0.15 + 0.7 * offset) * (to - from)) / count);
    chosen = wanted.map((px) => inside.reduce((best, p) => (Math.abs(p[0] - px) < Math.abs(best[0] - px) ? p : best)));
  }
  for (const [px, py] of chosen) marker(group, series.marker, px, py, single ? 6.5 : narrow ? 3.3 : 4, colour, series.open);
}

// Whether a curve is above the axis somewhere: where it leaves (each time), and what is said about it.
function leaving(series, grid, values, y) {
  const above = values.map((v) => (v === null ? !series.gaps : v > y.high));
  const exits = grid.filter((_, i) => above[i] && (i === 0 || !above[i - 1]));
  if (!exits.length) return null;
  const last = grid[above.lastIndexOf(true)], gone = above[above.length - 1];
  const text = (unit) => {
    if (exits.length > 1) return `leaves ${exits.length} times, first at ${unit} = ${exits[0]}${gone ? `: ${series.end}` : ""}`;
    if (gone) return `leaves at ${unit} = ${exits[0]}: ${series.end}`;
    return last === exits[0] ? `above the axis at ${unit} = ${last} (${numberText(values[grid.indexOf(last)])})` : `above the axis until ${unit} = ${last}`;
  };
  return { exits, text };
}

// The first point from which a curve stays below a log axis; null if it does not end there.
function sinking(grid, values, y) {
  const below = (v) => v !== null && v < y.low;
  if (y.kind !== "log" || !below(values[values.length - 1])) return null;
  let i = values.length - 1;
  while (i > 0 && below(values[i - 1])) i--;
  return grid[i];
}

function drawAxes(root, chart, x, y, frame, first) {
  for (const v of ticks(y, Math.max(3, (frame.bottom - frame.top) / 42))) {
    const at = round(y.at(v));
    if (at < frame.top - 1 || at > frame.bottom + 1) continue;
    svg("line", { x1: frame.left, x2: frame.right, y1: at, y2: at, class: v === 0 && y.low < 0 ? "zero" : "gridline" }, root);
    svg("text", { x: frame.left - 7, y: at + 4, "text-anchor": "end" }, root).textContent = tickText(v);
  }
  for (const v of ticks(x, Math.max(3, (frame.right - frame.left) / 65))) {
    const at = round(x.at(v));
    svg("line", { x1: at, x2: at, y1: frame.top, y2: frame.bottom, class: "gridline" }, root);
    svg("text", { x: at, y: frame.bottom + 17, "text-anchor": "middle" }, root).textContent = tickText(v);
  }
  svg("path", { d: `M${frame.left} ${frame.top}V${frame.bottom}H${frame.right}`, class: "axis", fill: "none" }, root);
  svg("text", { x: (frame.left + frame.right) / 2, y: frame.bottom + 36, "text-anchor": "middle", class: "label" }, root).textContent = chart.x.label;
  if (!first) return;
  const middle = (frame.top + frame.bottom) / 2;
  svg("text", { x: 13, y: middle, "text-anchor": "middle", class: "label", transform: `rotate(-90 13 ${middle})` }, root).textContent = chart.y.label;
}
