
"use strict";
// Axes: from values to pixels, where the ticks are, and how numbers are written.

const FORWARD = {
  linear: (v) => v,
  log: (v) => Math.log10(v),
  symlog: (v) => Math.sign(v) * Math.log10(1 + Math.abs(v)), // linear around 0, logarithmic far from it
};

function makeScale(kind, limits, from, to) {
  const [low, high] = limits, forward = FORWARD[kind];
  const a = forward(low), b = forward(high);
  return { kind, low, high, at: (v) => from + ((forward(v) - a) / (b - a)) * (to - from) };
}

function ticks(scale, wanted) {
  if (scale.kind === "linear") return linearTicks(scale.low, scale.high, wanted);
  if (scale.kind === "log") return logTicks(scale.low, scale.high, wanted);
  const top = Math.floor(Math.log10(Math.max(scale.high, 1)));
  const stride = Math.max(1, Math.ceil((top + 1) / wanted));
  const found = [0];
  for (let e = 0; e <= top; e += stride) found.push(10 ** e);
  for (let e = 0; -(10 ** e) >= scale.low; e += stride) found.push(-(10 ** e));
  return found;
}

function linearTicks(low, high, wanted) {
  const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9) + 1e-12; i++) found.push(i * step);
  return found;
}

function logTicks(low, high, wanted) {
  const a = Math.log10(low), b = Math.log10(high);
  const found = [];
  if (b - a < 2.2) { // 1, 2, 5: decades alone would be too few
    for (let e = Math.floor(a); e <= b; e++) {
      for (const m of [1, 2, 5]) if (m * 10 ** e >= low * 0.999 && m * 10 ** e <= high * 1.001) found.push(m * 10 ** e);
    }
    return found.length > 2 ? found : linearTicks(low, high, wanted);
  }
  const stride = Math.max(1, Math.ceil((b - a) / wanted));
  for (let e = stride * Math.ceil(a / stride - 1e-9); e <= b + 1e-9; e += stride) found.push(10 ** e);
  return found;
}

const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

function tickText(v) {
  if (v === 0) return "0";
  const size = Math.abs(v), e = Math.log10(size);
  if (size >= 1e-2 && size < 1e5) return String(Number(v.toPrecision(4)));
  const power = "10" + [...String(Math.round(e))].map((c) => SUPERSCRIPTS[c]).join("");
  return Math.abs(e - Math.round(e)) < 1e-6 ? (v < 0 ? "−" : "") + power : v.toExponential(0);
}

function numberText(v) {
  if (v === null || v === undefined) return "not finite";
  if (v === 0) return "0";
  const size = Math.abs(v);
  return size >= 1e-2 && size < 1e5 ? String(Number(v.toPrecision(4))) : v.toExponential(2);
}
