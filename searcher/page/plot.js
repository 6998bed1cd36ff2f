// Plots of lines. Their numbers are in a table next to them, which is what a screen reader reads.

import { el, svg } from "./dom.js";

// In its own units: letters of a plot are as large on a narrow screen, and fewer.
const [WIDE, NARROW, HEIGHT] = [560, 330, 260];
const INSIDE = { left: 64, margin: 20, top: 14, bottom: 214 };

function ticks(low, high, wanted = 4) {
  const step = 10 ** Math.floor(Math.log10((high - low) / wanted || 1));
  const nice = [1, 2, 5, 10].map((one) => one * step).find((one) => (high - low) / one <= wanted) ?? step;
  const all = [];
  for (let at = Math.ceil(low / nice - 1e-9) * nice; at <= high + nice * 1e-6; at += nice) {
    all.push(Number(at.toPrecision(12)));
  }
  return all;
}

/**
 * Lines of `series` (name, class, points [x, y]); x by its logarithm, at the values that the points have. `label` says what it shows; `x` and
 * `y` name the axes, `format` writes a value of y, `least` and `most` bound y.
 */
export function plot({ label, x, y, series, format, least, most }) {
  const width = matchMedia("(max-width: 760px)").matches ? NARROW : WIDE;
  const right = width - INSIDE.margin;
  const points = series.flatMap((one) => one.points);
  if (points.length === 0) {
    return el("p", { class: "empty" }, "Nothing was measured.");
  }
  const xs = [...new Set(points.map(([at]) => at))].sort((a, b) => a - b);
  const ys = points.map(([, at]) => at);
  const [first, last] = [Math.log(xs[0]), Math.log(xs.at(-1))];
  const low = Math.min(...ys, least ?? Infinity);
  let high = Math.max(...ys, most ?? -Infinity);
  high = high > low ? high : low + 1;
  const toX = (at) => INSIDE.left + (last > first ? (Math.log(at) - first) / (last - first) : 0.5) * (right - INSIDE.left);
  const toY = (at) => INSIDE.bottom - ((at - low) / (high - low)) * (INSIDE.bottom - INSIDE.top);
  const drawing = svg("svg", {
    class: "plot",
    viewBox: `0 0 ${width} ${HEIGHT}`,
    role: "img",
    "aria-label": `${label}. The table has the numbers.`,
  });
  for (const at of ticks(low, high)) {
    const height = toY(at);
    drawing.append(
      svg("line", { class: "grid", x1: INSIDE.left, x2: right, y1: height, y2: height }),
      svg("text", { x: INSIDE.left - 8, y: height + 4, "text-anchor": "end" }, format(at)),
    );
  }
  let free = -Infinity;
  for (const at of xs) {
    // Labels that would overlap are left out.
    if (toX(at) - free > 34) {
      free = toX(at);
      drawing.append(svg("text", { x: free, y: INSIDE.bottom + 18, "text-anchor": "middle" }, at));
    }
  }
  const middle = (INSIDE.left + right) / 2;
  drawing.append(
    svg("text", { class: "axis", x: middle, y: HEIGHT - 8, "text-anchor": "middle" }, x),
    svg(
      "text",
      { class: "axis", x: 0, y: 0, "text-anchor": "middle", transform: `translate(14 ${(INSIDE.top + INSIDE.bottom) / 2}) rotate(-90)` },
      y,
    ),
  );
  for (const one of series) {
    const path = one.points.map(([at, value], number) => `${number ? "L" : "M"}${toX(at).toFixed(1)} ${toY(value).toFixed(1)}`);
    drawing.append(svg("path", { class: `line ${one.class}`, d: path.join("") }));
    for (const [at, value] of one.points) {
      const dot = svg("circle", { class: `point ${one.class}`, cx: toX(at), cy: toY(value), r: 3.5 });
      dot.append(svg("title", {}, `${one.name}: ${at}, ${format(value)}`));
      drawing.append(dot);
    }
  }
  const legend =
    series.length > 1 &&
    el(
      "ul",
      { class: "legend" },
      series.map((one) => el("li", {}, el("span", { class: `key ${one.class}`, "aria-hidden": "true" }), one.name)),
    );
  return el("figure", {}, drawing, legend);
}
