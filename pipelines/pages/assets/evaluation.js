/* The page of `cotrans evaluate --report`: the table of models, score against cost, and one model at a time below. */
"use strict";

function evaluationPage(root, data) {
  const body = make("div", { class: "model" });
  const select = make("select", { "aria-label": "Model", id: "model" });
  data.models.forEach((model, index) => select.append(make("option", { value: index, name: model.name })));
  select.addEventListener("change", () => new ModelView(body, data.models[select.value]));
  root.append(
    make("header", { class: "top" }, make("h1", { name: data.title }), make("div", { class: "about", text: data.said }), make("div", { class: "tools" }, theme.button())),
    make("section", { class: "card", "aria-label": "Models" }, make("h2", { text: "Models" }), modelTable(data.table), costChart(data)),
    data.models.length > 1 ? make("label", { class: "tools" }, make("span", { text: "Model" }), select) : "",
    body,
    data.notes.length ? make("section", { class: "card" }, make("h2", { text: "Notes" }), make("ul", {}, ...data.notes.map((text) => make("li", { name: text })))) : "",
    make("footer", { text: data.made }),
  );
  new ModelView(body, data.models[0]);
  document.body.dataset.ready = data.models.length;
}

function modelTable({ columns, rows }) {
  const head = columns.map((title, index) => make("th", { scope: "col", class: index ? "number" : null, text: title }));
  const lines = rows.map((cells) =>
    make("tr", {}, ...cells.map((cell, index) => (index ? make("td", { class: "number", text: cell ?? "" }) : make("th", { scope: "row", name: cell })))),
  );
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...lines)));
}

function costChart({ points, metric }) {
  const families = [...new Set(points.map((point) => point.family))];
  const series = families.map((family) => ({
    name: family,
    points: points.filter((point) => point.family === family && point.macs > 0).map((point) => [point.macs, point.score ?? NaN, point.name]),
  }));
  return chart({
    title: `${metric} against the cost of a prediction`,
    series,
    kind: "points",
    x: { label: "MACs", log: true, text: short },
    y: { label: metric, from: 0, to: 1, text: (value) => percent(value) },
  });
}

evaluationPage(document.getElementById("page"), pageData());
