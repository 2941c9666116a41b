/* One recording of a report: player, timeline, segments and corrections, and how they move each other. */
"use strict";

const FEW_LANES = 24; // classes that are shown at first, the strongest
const MANY_LANES = 120; // … and when more are asked for: a canvas cannot be endlessly high
const READOUT = 3; // classes that are named beside the time

class RecordingView {
  /** list: of segments, as they were left when the recording was shown before. table: () => the CSV to save. */
  constructor(body, recording, scores, list, table) {
    Object.assign(this, { recording, scores, list, csv: table });
    this.build(body);
    this.connect();
    this.seek(0, false);
  }

  build(body) {
    const { recording } = this;
    const card = (area, title, ...children) =>
      make("section", { class: `card ${area}`, "aria-label": title }, ...children);
    const titled = (area, title, child) => card(area, title, make("h2", { text: title }), child);
    const editor = make("div");
    const media = card("media", "Player");
    const lanes = card("lanes", "Timeline");
    const table = titled("table", "Segments");
    const corrections = titled("corrections", "Correct and save", editor);
    const figures = titled("facts", "Figures", figureList(recording.figures));
    body.className = `report-body ${recording.media ? recording.media.kind : "none"}`;
    body.replaceChildren(media, lanes, table, corrections, figures, keyHelp());
    this.player = new Player(media, recording.media);
    this.buildTimeline(lanes);
    this.buildTable(table);
    this.editor = new Editor(editor, {
      list: this.list,
      classes: recording.classes.filter((_, index) => !recording.hidden.has(index)),
      cursor: () => this.timeline.cursor,
      table: this.csv,
      onSelect: (index) => this.choose(index, true),
    });
  }

  buildTimeline(card) {
    const { recording, scores, list } = this;
    const ranked = recording.classes.map((_, index) => index).filter((index) => !recording.hidden.has(index));
    const peaks = recording.classes.map((_, index) => scores.peak(index));
    ranked.sort((first, second) => peaks[second] - peaks[first]);
    const strongest = (count) => ranked.slice(0, count).sort((first, second) => first - second);
    this.lanes = { few: strongest(FEW_LANES), many: strongest(MANY_LANES) };
    const tools = make("div", { class: "tools timeline-tools" });
    const place = make("div");
    card.append(tools, place);
    this.timeline = new Timeline(place, {
      classes: recording.classes,
      kind: recording.kind,
      scores,
      truth: recording.truth && recording.truth.map(([start, end, label]) => ({ start, end, label })),
      segments: list.items,
      length: list.end,
      lanes: this.lanes.few,
      threshold: recording.threshold,
      editable: true,
    });
    this.timeline.setStrip(stripOf(recording.strip));
    this.overview = new Overview(place, this.timeline);
    this.buildTools(tools);
  }

  buildTools(tools) {
    const { recording } = this;
    const button = (text, label, action) => {
      const made = make("button", { type: "button", text, "aria-label": label, title: label });
      made.addEventListener("click", action);
      return made;
    };
    this.readout = make("output", { class: "readout", id: "readout" });
    this.slider = make("input", { type: "range", min: "0", max: "1", step: "0.01", id: "threshold", value: recording.threshold });
    this.shownThreshold = make("output", { class: "number", for: "threshold", id: "threshold-value" });
    this.rule = make("button", { type: "button", class: "quiet", id: "own-rule", text: "Reset", title: "The segments as they were streamed" });
    const { few, many } = this.lanes;
    const moreLanes = button(`${many.length} lanes`, "Show more classes, or fewer: the strongest of all", () => {
      const more = this.timeline.lanes === few;
      this.timeline.setLanes(more ? many : few);
      moreLanes.textContent = `${(more ? few : many).length} lanes`;
      this.overview.refresh();
    });
    tools.append(
      button("Play", "Play or pause (Space)", () => this.player.toggle()),
      this.readout,
      make("span", { class: "grow" }),
      make("label", { class: "threshold" }, make("span", { text: "Threshold" }), this.slider),
      this.shownThreshold,
      this.rule,
      many.length > few.length ? moreLanes : "",
      make(
        "span",
        { class: "group", role: "group", "aria-label": "Zoom" },
        button("−", "Zoom out (-)", () => this.timeline.zoom(0.5, this.timeline.cursor)),
        button("+", "Zoom in (+)", () => this.timeline.zoom(2, this.timeline.cursor)),
        button("Fit", "The whole recording (0)", () => this.timeline.fit()),
      ),
    );
    this.playButton = tools.firstChild;
    this.playButton.disabled = !recording.media;
    this.showThreshold(null);
  }

  buildTable(card) {
    const swatched = (item) => {
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = theme.classColour(this.timeline.colourNumber(item.label));
      return make("span", {}, swatch, make("span", { name: item.label }));
    };
    this.table = new SortedTable(card, {
      label: "Segments",
      empty: "No segment: lower the threshold, or add one.",
      onChoose: (item) => this.choose(this.list.items.indexOf(item), true),
      columns: [
        { title: "Start", value: (item) => item.start, cell: (item) => clock(item.start), numeric: true },
        { title: "End", value: (item) => item.end, cell: (item) => clock(item.end), numeric: true },
        { title: "Length", value: (item) => item.end - item.start, cell: (item) => `${(item.end - item.start).toFixed(2)} s`, numeric: true },
        { title: "Label", value: (item) => item.label.toLowerCase(), cell: swatched },
        {
          title: "Score",
          value: (item) => (item.score === null ? 2 : item.score),
          cell: (item) => (item.score === null ? "corrected" : percent(item.score)),
          numeric: true,
        },
      ],
    });
    this.table.show(this.list.items);
    theme.onChange(() => this.table.redraw());
  }

  connect() {
    const { timeline, player, list, editor } = this;
    player.onTime((time) => {
      timeline.setCursor(time);
      if (!player.element.paused) timeline.reveal(time);
      this.tellTime();
      this.playButton.textContent = player.element.paused ? "Play" : "Pause";
    });
    timeline.on("seek", (time) => this.seek(time));
    timeline.on("select", (index) => this.choose(index, false));
    timeline.on("change", (index, part) => this.choose(list.change(index, part), false));
    timeline.on("create", (start, end) => editor.add(start, end));
    timeline.on("key", (event) => {
      if (event.key === " ") player.toggle();
      else if (!editor.key(event)) return;
      event.preventDefault();
    });
    list.onChange(() => {
      timeline.setSegments(list.items);
      this.table.show(list.items);
      this.lockThreshold();
    });
    this.slider.addEventListener("input", () => this.moveThreshold(Number(this.slider.value)));
    this.rule.addEventListener("click", () => {
      list.reset(ownSegments(this.recording));
      this.showThreshold(null);
      timeline.setThreshold(this.recording.threshold);
    });
  }

  seek(time, reveal = true) {
    this.player.seek(time);
    this.timeline.setCursor(time);
    if (reveal) this.timeline.reveal(time);
    this.tellTime();
  }

  /** index: of the segment that is now the chosen one. jump: the player goes there. */
  choose(index, jump) {
    const segment = this.list.items[index];
    this.timeline.select(index);
    this.editor.show(index);
    this.table.choose(segment || null);
    if (segment && jump) this.seek(segment.start);
  }

  moveThreshold(value) {
    this.showThreshold(value);
    this.timeline.setThreshold(value);
    if (!this.list.edited) this.list.reset(segmentsAt(this.scores, this.recording, value));
    this.overview.refresh();
  }

  /** value: of the slider; null: as the stream was told, or the model says. */
  showThreshold(value) {
    this.shownThreshold.textContent = value === null ? this.recording.rule : value.toFixed(2);
    this.slider.value = value === null ? this.recording.threshold : value;
    this.slider.setAttribute("aria-valuetext", this.shownThreshold.textContent);
    this.rule.hidden = value === null && !this.list.edited;
  }

  /** Corrections are worth more than a threshold: it no longer changes the segments. */
  lockThreshold() {
    this.rule.hidden = !this.list.edited && this.shownThreshold.textContent === this.recording.rule;
    this.slider.title = this.list.edited ? "Segments were corrected, so only the lanes follow; Reset begins again" : "";
  }

  tellTime() {
    const { timeline, scores, recording } = this;
    const row = scores.rowAt(timeline.cursor);
    const best = row < 0 ? [] : scores.best(row, READOUT).filter(([index, score]) => !recording.hidden.has(index) && score >= 0.005);
    this.readout.replaceChildren(
      make("strong", { text: clock(timeline.cursor) }),
      ...best.map(([index, score]) => make("span", {}, make("span", { name: recording.classes[index] }), ` ${percent(score)}`)),
    );
  }

  close() {
    this.player.close();
  }
}

/** The segments as the stream gave them. */
function ownSegments(recording) {
  return recording.segments.map(([start, end, label, score]) => ({ start, end, label, score }));
}

function segmentList(recording, end) {
  const length = Math.max(recording.duration || 0, end);
  return new SegmentList(ownSegments(recording), { single: recording.kind === "softmax", end: length });
}

/** What stands above the lanes, as the timeline takes it. */
function stripOf(strip) {
  if (!strip) return null;
  if (strip.kind === "waveform") return { kind: "waveform", peaks: bytesOf(strip.peaks), step: strip.step };
  const images = strip.images.map(({ time, jpeg }) => {
    const element = new Image();
    element.src = `data:image/jpeg;base64,${jpeg}`;
    return { time, element };
  });
  return { kind: "thumbnails", images };
}

function keyHelp() {
  const keys = [
    ["Space", "play or pause"],
    ["← →", "one row back or forth; with Shift ten"],
    ["+ − 0", "closer, wider, everything"],
    ["Page ↑ ↓", "turn the page"],
    ["N P", "next, previous segment"],
    ["[ ]", "the segment begins, ends at the cursor"],
    ["A Delete", "add, delete a segment"],
    ["Ctrl+Z", "undo"],
  ];
  const items = keys.map(([key, text]) => make("li", {}, make("kbd", { text: key }), ` ${text}`));
  return make("details", { class: "keys" }, make("summary", { text: "Keys of the timeline" }), make("ul", {}, ...items));
}
