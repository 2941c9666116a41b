/* Charts of lines or points, drawn as SVG: few numbers, readable at any size, each with its values as text. */
"use strict";

const CHART = { width: 560, height: 260, left: 58, right: 14, top: 12, bottom: 40 };
const DASHES = ["", "7 4", "2 3", "10 3 2 3"]; // lines differ in more than their colour
const MARKS = ["circle", "square", "diamond", "triangle"];

function shape(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/**
 * series: [{name, points: [[x, y, label?], …]}]. kind: "lines" or "points". x, y: {label, log, from, to, text: (value) => …}.
 * mark: a value of x that is drawn as a line, with markText. Returns the element.
 */
function chart({ title, series, kind = "lines", x, y, mark, markText }) {
  const points = series.flatMap((one) => one.points);
  const scaleX = chartScale(points.map((point) => point[0]), x, CHART.left, CHART.width - CHART.right);
  const scaleY = chartScale(points.map((point) => point[1]), y, CHART.height - CHART.bottom, CHART.top);
  const svg = shape("svg", { viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "img", "aria-label": title, class: "chart" });
  drawAxes(svg, scaleX, scaleY, x, y);
  if (mark !== undefined && points.length) {
    const at = scaleX.place(mark);
    svg.append(shape("line", { x1: at, x2: at, y1: CHART.top, y2: CHART.height - CHART.bottom, class: "chart-mark" }));
    const late = at > CHART.width / 2;
    const side = { x: at + (late ? -5 : 5), "text-anchor": late ? "end" : "start" };
    svg.append(shape("text", { ...side, y: CHART.height - CHART.bottom - 8, class: "chart-text" }, markText));
  }
  series.forEach((one, index) => drawSeries(svg, one, index, kind, scaleX, scaleY, x, y));
  const legend = make("div", { class: "legend" }, ...series.map((one, index) => legendEntry(one.name, index, kind)));
  return make("figure", { class: "chart-box" }, make("figcaption", { text: title }), svg, series.length > 1 ? legend : null);
}

/** {place: value -> pixels, ticks}. */
function chartScale(values, axis, from, to) {
  const finite = values.filter(Number.isFinite);
  let low = axis.from ?? Math.min(...finite, Infinity);
  let high = axis.to ?? Math.max(...finite, -Infinity);
  if (!(low <= high)) [low, high] = [0, 1];
  const mapped = axis.log ? Math.log10 : (value) => value;
  if (axis.log) [low, high] = [10 ** Math.floor(Math.log10(low) + 1e-9), 10 ** Math.ceil(Math.log10(high) - 1e-9)];
  if (low === high) [low, high] = axis.log ? [low / 10, high * 10] : [low - 0.5, high + 0.5];
  const place = (value) => from + ((mapped(value) - mapped(low)) / (mapped(high) - mapped(low))) * (to - from);
  return { place, ticks: axis.log ? logTicks(low, high) : evenTicks(low, high, axis.whole) };
}

function logTicks(low, high) {
  const ticks = [];
  for (let value = low; value <= high * 1.001; value *= 10) ticks.push(value);
  return ticks;
}

function evenTicks(low, high, whole) {
  const rough = (high - low) / 5;
  const size = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((factor) => factor * size).find((candidate) => candidate >= rough);
  if (whole) step = Math.max(1, Math.round(step));
  const ticks = [];
  for (let tick = Math.ceil(low / step - 1e-9); tick * step <= high + 1e-9 * step; tick++) ticks.push(tick * step);
  return ticks;
}

function drawAxes(svg, scaleX, scaleY, x, y) {
  const [left, right] = [CHART.left, CHART.width - CHART.right];
  const bottom = CHART.height - CHART.bottom;
  for (const tick of scaleY.ticks) {
    const at = scaleY.place(tick);
    svg.append(shape("line", { x1: left, x2: right, y1: at, y2: at, class: "chart-grid" }));
    svg.append(shape("text", { x: left - 7, y: at + 4, "text-anchor": "end", class: "chart-text" }, y.text(tick)));
  }
  for (const tick of scaleX.ticks) {
    const at = scaleX.place(tick);
    const anchor = at > right - 12 ? "end" : "middle";
    svg.append(shape("text", { x: at, y: bottom + 17, "text-anchor": anchor, class: "chart-text" }, x.text(tick)));
  }
  svg.append(shape("text", { x: (left + right) / 2, y: CHART.height - 6, "text-anchor": "middle", class: "chart-text" }, x.label));
}

function drawSeries(svg, { name, points }, index, kind, scaleX, scaleY, x, y) {
  const known = points.filter((point) => Number.isFinite(point[1]));
  if (kind === "lines") {
    const path = known.map((point) => `${scaleX.place(point[0]).toFixed(1)},${scaleY.place(point[1]).toFixed(1)}`).join(" ");
    svg.append(shape("polyline", { points: path, class: `chart-line series-${index % 7}`, "stroke-dasharray": DASHES[index % 4] }));
  }
  for (const [valueX, valueY, label] of known) {
    const [left, top] = [scaleX.place(valueX), scaleY.place(valueY)];
    const dot = markShape(kind === "lines" ? "circle" : MARKS[index % 4], left, top, kind === "lines" ? 3 : 6, index);
    const said = `${visible(label || name)}: ${y.text(valueY)} (${x.label} ${x.text(valueX)})`;
    dot.append(shape("title", {}, said));
    svg.append(dot);
    if (kind === "points" && label) {
      const anchor = left > 0.65 * CHART.width ? "end" : "start";
      const text = shape("text", { x: left + (anchor === "end" ? -9 : 9), y: top + 4, "text-anchor": anchor, class: "chart-text name" });
      text.textContent = visible(label);
      svg.append(text);
    }
  }
}

function markShape(kind, x, y, size, index) {
  const look = { class: `chart-dot series-${index % 7}` };
  if (kind === "circle") return shape("circle", { cx: x, cy: y, r: size, ...look });
  const corners = { square: [[-1, -1], [1, -1], [1, 1], [-1, 1]], diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]], triangle: [[0, -1.2], [1.2, 1], [-1.2, 1]] };
  return shape("polygon", { points: corners[kind].map(([across, down]) => `${x + size * across},${y + size * down}`).join(" "), ...look });
}

function legendEntry(name, index, kind) {
  const sample = shape("svg", { viewBox: "0 0 28 12", width: 28, height: 12, "aria-hidden": "true" });
  if (kind === "lines") {
    sample.append(shape("line", { x1: 1, x2: 27, y1: 6, y2: 6, class: `chart-line series-${index % 7}`, "stroke-dasharray": DASHES[index % 4] }));
  } else {
    sample.append(markShape(MARKS[index % 4], 14, 6, 5, index));
  }
  return make("span", {}, sample, make("span", { name }));
}
