/* The timeline of a recording: what is shown and how it answers. Used by reports and by the live page.

   const timeline = new Timeline(container, {
     classes, // names, as text
     kind, // "softmax" or "sigmoid"
     scores, // a Scores; default: an empty one, to be filled by append
     truth, segments, // lists of {start, end, label}, or null for no such lane
     strip, // {kind: "waveform", peaks: bytes, step: seconds, start: seconds (0)} or {kind: "thumbnails", images: [{time, element}]}, or null
     length, // seconds of the recording; default: where the scores end
     threshold, // scores below it are drawn faintly
     lanes, // class numbers that have a lane; default: all
     editable, // segments have borders that can be dragged
     live, // the newest rows stay in sight until the reader looks elsewhere
     span, // live: seconds in sight
   });
   timeline.append([{begin, end, scores}])   rows as they come; scores from 0 to 1 in the order of classes
   timeline.setCursor(seconds), setThreshold(score), setSegments(list), setTruth(list), setStrip(strip), setLanes(numbers)
   timeline.setView(start, end), zoom(factor, at), pan(seconds), fit(), reveal(seconds), select(index)
   timeline.on("seek", (seconds) => …)       the reader clicks, drags or uses keys
   timeline.on("select", (index) => …)       a segment was chosen; -1: none
   timeline.on("change", (index, part) => …) a border of a segment was dragged to {start} or {end}
   timeline.on("create", (start, end) => …)  a new segment was drawn
   timeline.on("key", (event) => …)          keys that mean nothing to the timeline itself
   timeline.on("view", () => …)              another stretch is in sight */
"use strict";

const CLOSEST = 0.5; // seconds in sight at the strongest zoom

class Timeline {
  constructor(container, options) {
    this.classes = options.classes;
    this.kind = options.kind || "softmax";
    this.scores = options.scores || new Scores(this.classes.length);
    this.truth = options.truth || null;
    this.segments = options.segments || null;
    this.strip = options.strip || null;
    this.length = options.length || 0;
    this.threshold = options.threshold || 0;
    this.lanes = options.lanes || this.classes.map((_, index) => index);
    this.editable = Boolean(options.editable);
    this.live = Boolean(options.live);
    this.span = options.span || 60;
    this.following = this.live;
    this.cursor = 0;
    this.selected = -1;
    this.preview = null; // {index, start, end, label}: a segment that is being dragged or drawn
    this.listeners = {};
    this.numbers = new Map(this.classes.map((name, index) => [name, index]));
    this.build(container);
    this.painter = new TimelinePainter(this);
    this.redraw = oncePerFrame(() => this.painter.paint());
    this.input = new TimelineInput(this);
    this.arrange();
    this.fit();
    theme.onChange(() => this.redraw());
    new ResizeObserver(() => this.resize()).observe(this.box);
  }

  build(container) {
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.box = make("div", {
      class: "timeline-box",
      tabindex: "0",
      role: "slider",
      "aria-label": "Position in the recording",
      "aria-valuemin": "0",
    });
    this.box.append(this.canvas);
    this.names = make("div", { class: "timeline-names" });
    this.element = make("div", { class: "timeline" }, this.names, this.box);
    container.append(this.element);
  }

  on(event, listener) {
    (this.listeners[event] ||= []).push(listener);
    return this;
  }

  tell(event, ...values) {
    for (const listener of this.listeners[event] || []) listener(...values);
  }

  // ---- what is shown

  /** Seconds at which the recording ends, as far as it is known. */
  get last() {
    return Math.max(this.length, this.scores.end, SHORTEST_SEGMENT);
  }

  append(rows) {
    for (const row of rows) this.scores.append(row.begin, row.end, row.scores);
    if (this.following) this.setView(this.scores.end - this.span, this.scores.end, true);
    this.redraw();
  }

  setCursor(seconds) {
    this.cursor = Math.min(this.last, Math.max(0, seconds));
    this.describe();
    this.redraw();
  }

  setThreshold(threshold) {
    this.threshold = threshold;
    this.redraw();
  }

  setSegments(segments) {
    this.segments = segments;
    if (this.selected >= segments.length) this.selected = -1;
    this.arrange();
  }

  setTruth(truth) {
    this.truth = truth;
    this.arrange();
  }

  setStrip(strip) {
    this.strip = strip;
    for (const image of (strip && strip.images) || []) image.element.addEventListener("load", this.redraw);
    this.arrange();
  }

  setLanes(lanes) {
    this.lanes = lanes;
    this.arrange();
  }

  select(index) {
    this.selected = index;
    this.redraw();
  }

  /** The segments with the one that is being dragged or drawn in its new place. */
  shownSegments() {
    if (!this.preview) return this.segments;
    if (this.preview.index < 0) return [...this.segments, this.preview];
    return this.segments.map((segment, index) => (index === this.preview.index ? this.preview : segment));
  }

  /** The number that a label takes its colour from; labels that are no class of the model have colours too. */
  colourNumber(label) {
    if (!this.numbers.has(label)) this.numbers.set(label, this.numbers.size);
    return this.numbers.get(label);
  }

  // ---- the stretch in sight

  /** Seconds at a place of the canvas, and back. */
  time(x) {
    return this.start + (x / this.width) * (this.end - this.start);
  }

  x(time) {
    return ((time - this.start) / (this.end - this.start)) * this.width;
  }

  setView(start, end, following = false) {
    this.following = following;
    const span = Math.max(CLOSEST, this.live ? end - start : Math.min(end - start, this.last));
    this.start = this.live && end >= this.last ? end - span : Math.max(0, Math.min(start, this.last - span));
    this.end = this.start + span;
    if (this.live && !following && this.end >= this.scores.end) this.following = true;
    this.tell("view");
    this.redraw();
  }

  fit() {
    if (this.live) this.setView(this.scores.end - this.span, this.scores.end, true);
    else this.setView(0, this.last);
  }

  /** factor > 1: closer. at: the second that stays where it is. */
  zoom(factor, at = (this.start + this.end) / 2) {
    const share = (at - this.start) / (this.end - this.start);
    const span = Math.min(Math.max(CLOSEST, (this.end - this.start) / factor), Math.max(CLOSEST, this.last));
    if (this.following) {
      this.span = span;
      this.fit();
    } else {
      this.setView(at - share * span, at + (1 - share) * span);
    }
  }

  pan(seconds) {
    this.setView(this.start + seconds, this.end + seconds);
  }

  /** Turn the page when `time` is out of sight. */
  reveal(time) {
    if (time >= this.start && time <= this.end) return;
    const span = this.end - this.start;
    this.setView(time - 0.1 * span, time + 0.9 * span);
  }

  // ---- size and words

  /** The rows that there are, and their names beside them. */
  arrange() {
    this.rows = TimelinePainter.layout(this);
    const lowest = this.rows[this.rows.length - 1];
    this.height = lowest ? lowest.top + lowest.height : RULER;
    const titles = { strip: this.strip && this.strip.kind === "waveform" ? "Sound" : "Picture", truth: "Truth", segments: "Segments" };
    this.names.replaceChildren(
      ...this.rows.map((row) => {
        const name =
          row.part === "lane"
            ? make("div", { class: "lane-name", name: this.classes[row.index], title: visible(this.classes[row.index]) })
            : make("div", { class: "lane-name part", text: titles[row.part] });
        name.style.top = `${row.top}px`;
        name.style.height = `${row.height}px`;
        return name;
      }),
    );
    this.names.style.height = `${this.height}px`;
    this.box.style.height = `${this.height}px`;
    this.box.setAttribute("aria-valuemax", this.last.toFixed(2));
    this.resize();
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.box.clientWidth;
    const [width, height] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    this.redraw();
  }

  /** What a screen reader says of the cursor. */
  describe() {
    const row = this.scores.rowAt(this.cursor);
    const best = row < 0 ? [] : this.scores.best(row, 1);
    const said = best.map(([index, score]) => `${visible(this.classes[index])} ${percent(score)}`).join("");
    this.box.setAttribute("aria-valuenow", this.cursor.toFixed(2));
    this.box.setAttribute("aria-valuetext", `${clock(this.cursor)}${said ? `, ${said}` : ""}`);
  }
}
