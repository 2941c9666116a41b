/* The page of a training run: how far it is, its curves, and every epoch as a row. It is written anew after each epoch. */
"use strict";

const METRIC_NAMES = {
  accuracy: "accuracy (last token)",
  accuracy_mean: "accuracy (mean of tokens)",
  accuracy_vote: "accuracy (vote of tokens)",
  map: "mAP",
};

function trainingPage(root, data) {
  const { epochs } = data;
  const title = make("h1", { name: data.name });
  const state = make("div", { class: "about", text: data.said });
  const progress = make("progress", { max: data.planned, value: epochs.length, "aria-label": "Epochs done" });
  root.append(
    make("header", { class: "top" }, title, state, make("div", { class: "tools" }, theme.button())),
    data.state === "running" ? progress : "",
    make("section", { class: "card", "aria-label": "Figures" }, figureList(data.figures)),
    make("section", { class: "card chart-row", "aria-label": "Curves" }, lossChart(epochs), scoreChart(data), rateChart(epochs)),
    make("section", { class: "card", "aria-label": "Epochs" }, make("h2", { text: "Epochs" }), epochTable(epochs)),
    make("footer", { text: data.made }),
  );
  document.body.dataset.ready = epochs.length;
}

const epochAxis = { label: "epoch", whole: true, text: (value) => String(value) };
const column = (epochs, name) => epochs.map((epoch) => [epoch.epoch, epoch[name] ?? NaN]);
const hasAny = (epochs, name) => epochs.some((epoch) => epoch[name] !== null && epoch[name] !== undefined);

function lossChart(epochs) {
  const series = [{ name: "training", points: column(epochs, "train_loss") }];
  if (hasAny(epochs, "validation_loss")) series.push({ name: "validation", points: column(epochs, "validation_loss") });
  return chart({ title: "Loss", series, x: epochAxis, y: { label: "loss", text: short } });
}

function scoreChart({ epochs, metric }) {
  const names = Object.keys(METRIC_NAMES).filter((name) => hasAny(epochs, `validation_${name}`));
  if (!names.length) return null;
  const best = epochs.filter((epoch) => epoch.best).pop();
  return chart({
    title: "Validation",
    series: names.map((name) => ({ name: METRIC_NAMES[name], points: column(epochs, `validation_${name}`) })),
    x: epochAxis,
    y: { label: "score", from: 0, to: 1, text: (value) => percent(value) },
    mark: best && best.epoch,
    markText: `best, by ${metric}`,
  });
}

function rateChart(epochs) {
  const series = [{ name: "learning rate", points: column(epochs, "learning_rate") }];
  return chart({ title: "Learning rate", series, x: epochAxis, y: { label: "rate", from: 0, text: (value) => value.toPrecision(2) } });
}

function epochTable(epochs) {
  const shown = ["epoch", "train_loss", "validation_loss", ...Object.keys(METRIC_NAMES).map((name) => `validation_${name}`), "learning_rate", "seconds"];
  const names = shown.filter((name) => hasAny(epochs, name));
  const head = names.map((name) => make("th", { scope: "col", class: "number", text: columnName(name) }));
  const rows = [...epochs].reverse().map((epoch) => {
    const cells = names.map((name) => make("td", { class: "number", text: epoch[name] === null ? "" : cellText(name, epoch[name]) }));
    if (epoch.best) cells[0].prepend("★ ");
    return make("tr", {}, ...cells);
  });
  return make("div", { class: "scroll epochs" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
}

const columnName = (name) => name.replace("validation_map", "val. mAP").replace("validation_", "val. ").replaceAll("_", " ");

function cellText(name, value) {
  if (name === "epoch") return String(value);
  if (name in METRIC_NAMES || /accuracy|map/.test(name)) return percent(value, 1);
  return name === "seconds" ? value.toFixed(1) : value.toPrecision(3);
}

trainingPage(document.getElementById("page"), pageData());
