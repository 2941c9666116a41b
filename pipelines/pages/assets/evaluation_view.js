/* One model of an evaluation: confusion, scores per class, the worst recordings, and a recording to look at. */
"use strict";

const SHOWN_LANES = 12; // classes of a recording's timeline: those that are true in it, and the strongest

class ModelView {
  constructor(body, model) {
    this.model = model;
    this.behind = make("div", { class: "behind" }, make("p", { class: "muted", text: "Choose a cell to see what it counts." }));
    this.stage = make("div", { class: "stage" }, make("p", { class: "muted", text: "Choose a recording to see its timeline." }));
    const card = (title, ...children) => make("section", { class: "card", "aria-label": title }, make("h2", { text: title }), ...children);
    const seeds = model.seeds > 1 ? ` (of the first of ${model.seeds} seeds)` : "";
    body.replaceChildren(
      make("p", { class: "muted", text: model.headline + seeds }),
      model.confusion
        ? card("Who is taken for whom", make("div", { class: "cells" }, confusionMatrix(model.confusion, (own, named) => this.showCell(own, named)), this.behind))
        : "",
      make("div", { class: "pair" }, card(`Per class: ${model.perClass.title}`, this.classTable()), card("Worst recordings", this.worstTable())),
      card("Recording", this.stage),
    );
  }

  classTable() {
    const { rows, unit } = this.model.perClass;
    const sorted = [...rows].sort((first, second) => (second[1] ?? -1) - (first[1] ?? -1));
    const lines = sorted.map(([name, value, count]) => {
      const bar = make("div", { class: "bar" }, make("div"));
      bar.firstChild.style.width = percent(value ?? 0, 1).replace(" ", "");
      const text = value === null ? "–" : percent(value, 1);
      return make(
        "tr",
        {},
        make("th", { scope: "row", name }),
        make("td", { class: "wide" }, bar),
        make("td", { class: "number", text }),
        make("td", { class: "number muted", text: count.toLocaleString("en") }),
      );
    });
    const head = make("tr", {}, make("th", { text: "class" }), make("th"), make("th", { class: "number", text: this.model.perClass.title }), make("th", { class: "number", text: unit }));
    return make("div", { class: "scroll tall" }, make("table", { class: "classes" }, make("thead", {}, head), make("tbody", {}, ...lines)));
  }

  worstTable() {
    const lines = this.model.worst.map(([index, belief]) =>
      make("tr", {}, make("td", {}, this.opener(index, 0)), make("td", { class: "number", text: percent(belief) })),
    );
    const head = make("tr", {}, make("th", { text: "recording" }), make("th", { class: "number", text: "belief in the truth" }));
    return make("div", { class: "scroll tall" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines)));
  }

  /** A button that shows a recording from a second on. */
  opener(index, seconds) {
    const button = make("button", { type: "button", class: "link", name: this.model.recordings[index].name });
    button.addEventListener("click", () => this.showRecording(index, seconds));
    return button;
  }

  showCell(own, named) {
    const { classes, counts, behind, unit } = this.model.confusion;
    const places = behind[`${own},${named}`] || [];
    const hop = this.model.hop;
    const lines = places.map(([index, first, frames]) => {
      const where = unit === "clips" ? "" : hop ? ` ${clock(first * hop)} – ${clock((first + frames) * hop)}` : ` frames ${first} – ${first + frames - 1}`;
      return make("li", {}, this.opener(index, unit === "clips" || !hop ? 0 : first * hop), make("span", { class: "muted number", text: where }));
    });
    const title = make(
      "p",
      {},
      make("strong", { name: classes[own] }),
      own === named ? " named rightly: " : " taken for ",
      own === named ? null : make("strong", { name: classes[named] }),
      own === named ? "" : ": ",
      `${counts[own][named].toLocaleString("en")} ${unit}${counts[own][named] > places.length ? "; the longest:" : ""}`,
    );
    this.behind.replaceChildren(title, make("ul", { class: "places" }, ...lines));
  }

  async showRecording(index, seconds) {
    const recording = this.model.recordings[index];
    if (this.player) this.player.close();
    const place = make("div", { class: "stage-media" });
    const lanes = make("div");
    this.stage.replaceChildren(make("p", {}, make("strong", { name: recording.name })), place, lanes);
    this.player = recording.media ? new Player(place, recording.media) : null;
    if (recording.timeline) await this.showTimeline(lanes, recording.timeline);
    else lanes.append(make("p", { class: "muted", text: "Its scores are not in this page: only the worst recordings have a timeline." }));
    this.seek(seconds);
    this.stage.scrollIntoView({ block: "nearest" });
    this.stage.dataset.shown = index;
  }

  async showTimeline(place, { rows, truth }) {
    const { classes } = this.model;
    const scores = await Scores.unpack(rows, classes.length);
    const stretches = truth.map(([start, end, label]) => ({ start, end, label }));
    const own = new Set(stretches.map((stretch) => classes.indexOf(stretch.label)));
    const ranked = classes.map((_, index) => index).sort((first, second) => scores.peak(second) - scores.peak(first));
    const lanes = [...new Set([...own, ...ranked])].slice(0, Math.max(SHOWN_LANES, own.size)).sort((first, second) => first - second);
    this.timeline = new Timeline(place, { classes, scores, truth: stretches, lanes });
    new Overview(place, this.timeline);
    this.timeline.on("seek", (time) => this.seek(time));
    if (this.player) this.player.onTime((time) => this.timeline.setCursor(time));
  }

  seek(seconds) {
    if (this.player) this.player.seek(seconds);
    if (!this.timeline) return;
    this.timeline.setCursor(seconds);
    this.timeline.reveal(seconds);
  }
}
