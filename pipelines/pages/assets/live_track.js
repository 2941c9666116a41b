/* What one model says of one live source: the label of now, the strongest classes, the timeline and the figures. */
"use strict";

const ALL_LANES = 12; // classes that all have lanes; of more, the strongest ones have
const STRONGEST = 8;
const KEPT_SCORES = 6e6; // rows times classes
const MOST_ROWS = 30000;
const NOW = 3; // classes that are named
const SHORTEST_SPAN = 15; // seconds in sight at first; more as more comes, until the reader zooms
const LONGEST_SPAN = 60;
const FORGETTING = 0.98; // of a class's strength with each row: lanes follow what is heard now

class LiveTrack {
  /** description: {model, classes, kind} of the server. titled: several models watch, and this one's name is shown. */
  constructor(description, titled) {
    this.description = description;
    const { classes } = description;
    this.label = make("p", { class: "live-label" });
    this.bars = Array.from({ length: Math.min(NOW, classes.length) }, () => new LiveBar());
    this.figures = make("p", { class: "muted number live-figures" });
    this.back = make("button", { type: "button", class: "quiet", text: "Back to now", hidden: true });
    this.back.addEventListener("click", () => this.inspect(null));
    const place = make("div");
    this.element = make(
      "section",
      { class: "live-track" },
      titled && make("h3", { name: description.model }),
      make("div", { class: "live-head" }, this.label, this.back),
      make("div", { class: "live-bars" }, ...this.bars.map((bar) => bar.element)),
      place,
      this.figures,
    );
    this.strength = new Float64Array(classes.length);
    this.newest = null;
    this.failed = false;
    this.timeline = new Timeline(place, { classes, kind: description.kind, scores: this.empty(), live: true, span: SHORTEST_SPAN });
    this.span = SHORTEST_SPAN;
    this.timeline.box.setAttribute("aria-label", "Timeline of the scores: the newest are at the right");
    this.timeline.on("seek", (seconds) => this.inspect(seconds));
    this.timeline.on("key", (event) => event.key === "Escape" && this.inspect(null));
    if (classes.length > ALL_LANES) this.timeline.setLanes([]);
    this.inspect(null);
  }

  empty() {
    const count = this.description.classes.length;
    return new Scores(count, Math.min(MOST_ROWS, Math.floor(KEPT_SCORES / count)));
  }

  /** Begin anew: too much was missed. */
  restart() {
    this.timeline.scores = this.empty();
    this.inspect(null);
  }

  /** rows: [begin, end, label, state, latency, [class, thousandths, …]] of the server, in order. */
  append(missing, rows) {
    if (missing) this.restart();
    const count = this.description.classes.length;
    if (this.timeline.span === this.span) {
      const shown = rows[rows.length - 1][1] - (this.timeline.scores.length ? this.timeline.scores.start : rows[0][0]);
      this.timeline.span = this.span = Math.min(LONGEST_SPAN, Math.max(SHORTEST_SPAN, shown));
    }
    this.timeline.append(
      rows.map(([begin, end, , , , pairs]) => {
        const scores = new Float32Array(count);
        for (let place = 0; place < pairs.length; place += 2) scores[pairs[place]] = pairs[place + 1] / 1000;
        for (let index = 0; index < count; index++) {
          this.strength[index] = Math.max(scores[index], FORGETTING * this.strength[index]);
        }
        return { begin, end, scores };
      }),
    );
    this.newest = rows[rows.length - 1];
    if (count > ALL_LANES) this.chooseLanes();
    this.show();
  }

  /** The strongest classes of late have lanes, in their own order, so that they do not dance. */
  chooseLanes() {
    const strongest = Array.from(this.strength.keys())
      .filter((index) => this.strength[index] > 0.02)
      .sort((first, second) => this.strength[second] - this.strength[first])
      .slice(0, STRONGEST)
      .sort((first, second) => first - second);
    if (strongest.join() !== this.timeline.lanes.join()) this.timeline.setLanes(strongest);
  }

  /** Look at a moment of the past; null: at now. */
  inspect(seconds) {
    this.inspected = seconds;
    this.back.hidden = seconds === null;
    if (seconds === null) {
      this.timeline.cursor = -Infinity; // out of sight
      this.timeline.fit();
    } else {
      this.timeline.setCursor(seconds);
    }
    this.show();
  }

  show() {
    const { classes } = this.description;
    this.element.classList.toggle("empty", !this.newest);
    if (this.inspected !== null) {
      const row = this.timeline.scores.rowAt(this.inspected);
      const best = row < 0 ? [] : this.timeline.scores.best(row, NOW);
      this.label.replaceChildren(make("span", { text: `at ${clock(this.inspected, 1)}`, class: "number muted" }));
      this.bars.forEach((bar, place) => bar.show(best[place] ? classes[best[place][0]] : null, ...(best[place] || [])));
      return;
    }
    if (!this.newest) {
      const text = this.failed ? "Failed: the terminal says why" : "Nothing yet";
      this.label.replaceChildren(make("span", { text, class: "muted" }));
      this.bars.forEach((bar) => bar.show(null));
      return;
    }
    const [, end, label, state, , pairs] = this.newest;
    this.element.classList.toggle("none", label < 0);
    this.label.replaceChildren(
      ...(label < 0
        ? [make("span", { text: "– none of these", class: "muted" })]
        : [swatch(label), make("strong", { name: classes[label] })]),
      make("span", { text: clock(Math.max(0, end), 1), class: "number muted" }),
      ...(state & 1 ? [make("span", { text: "warming up", class: "muted" })] : []),
    );
    this.bars.forEach((bar, place) => {
      const index = pairs[2 * place];
      bar.show(index === undefined ? null : classes[index], index, pairs[2 * place + 1] / 1000);
    });
  }

  /** figures: {pace, p50_ms, p95_ms, frames, dropped, broken, reconnects, failed} of the server. */
  showFigures({ pace, p50_ms: middle, p95_ms: high, frames, dropped, broken, reconnects, failed }) {
    if (failed && !this.failed) {
      this.failed = true;
      this.show();
    }
    const parts = [
      ...(pace === null ? [] : [`× ${pace.toFixed(2)} real time`]),
      `latency ${Math.round(middle)} ms, p95 ${Math.round(high)} ms`,
      `${frames.toLocaleString("en")} rows`,
    ];
    if (dropped) parts.push(`${dropped.toLocaleString("en")} dropped`);
    if (broken) parts.push(`${broken.toLocaleString("en")} unusable`);
    if (reconnects) parts.push(`reconnected ${reconnects} ×`);
    this.figures.textContent = frames ? parts.join(" · ") : "";
  }
}

/** A class with its score as a bar. */
class LiveBar {
  constructor() {
    this.name = make("span", { class: "live-bar-name" });
    this.fill = make("div");
    this.value = make("span", { class: "number live-bar-value" });
    this.element = make("div", { class: "live-bar" }, this.name, make("div", { class: "live-bar-ground" }, this.fill), this.value);
  }

  show(name, index = 0, score = 0) {
    showName(this.name, name === null ? "" : name);
    this.name.title = name === null ? "" : visible(name);
    this.fill.style.width = `${100 * score}%`;
    this.fill.style.background = theme.classColour(index);
    this.value.textContent = name === null ? "" : percent(score);
  }
}

function swatch(index) {
  const mark = make("span", { class: "swatch", "aria-hidden": "true" });
  mark.style.background = theme.classColour(index);
  return mark;
}
