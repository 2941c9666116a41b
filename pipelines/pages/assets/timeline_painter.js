/* Draws a timeline: ruler, waveform or thumbnails, truth, segments, a lane for each class, and the cursor. It reads the
   timeline's fields and changes none of them. */
"use strict";

const RULER = 24; // pixels, as everything here
const STRIP = { waveform: 44, thumbnails: 52 };
const BAR = 24; // a row of segments or truth
const LANE = 20;
const GAP = 2; // between lanes
const RULER_STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
const LEAST_TICK = 76; // pixels between two times on the ruler
const MODEST = 0.35; // how strong a score below the threshold looks, beside one above it
const FONT = "12px system-ui, sans-serif";

class TimelinePainter {
  constructor(timeline) {
    this.timeline = timeline;
    this.context = timeline.canvas.getContext("2d");
    this.strip = document.createElement("canvas"); // a line of pixels for each lane, stretched when it is shown
    this.tables = { key: "" };
  }

  /** Where the parts stand: [{part, top, height, index?}] from the top down. */
  static layout({ strip, truth, segments, lanes }) {
    const rows = [];
    let top = RULER;
    const put = (part, height, more = {}) => {
      rows.push({ part, top, height, ...more });
      top += height + GAP;
    };
    if (strip) put("strip", STRIP[strip.kind]);
    if (truth) put("truth", BAR * stacked(truth).count);
    if (segments) put("segments", BAR * stacked(segments).count);
    for (const index of lanes) put("lane", LANE, { index });
    return rows;
  }

  paint() {
    const { timeline, context } = this;
    const { width, height } = timeline;
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = theme.colour("surface");
    context.fillRect(0, 0, width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    this.paintRuler();
    for (const row of timeline.rows) {
      if (row.part === "strip") this.paintStrip(row);
      if (row.part === "truth") this.paintBars(row, timeline.truth, -1);
      if (row.part === "segments") this.paintBars(row, timeline.shownSegments(), timeline.selected);
    }
    this.paintLanes();
    this.paintCursor();
  }

  paintRuler() {
    const { timeline, context } = this;
    const perPixel = (timeline.end - timeline.start) / timeline.width;
    const step = RULER_STEPS.find((seconds) => seconds / perPixel >= LEAST_TICK) || 86400;
    context.fillStyle = theme.colour("muted");
    context.strokeStyle = theme.colour("line");
    context.lineWidth = 1;
    context.beginPath();
    for (let mark = Math.max(0, Math.ceil(timeline.start / step)); mark * step <= timeline.end; mark++) {
      const x = Math.round(timeline.x(mark * step)) + 0.5;
      context.moveTo(x, RULER - 6);
      context.lineTo(x, timeline.height);
      const text = clock(mark * step, step < 1 ? 1 : 0);
      if (x + 3 + context.measureText(text).width <= timeline.width) context.fillText(text, x + 3, RULER / 2 - 1);
    }
    context.stroke();
  }

  paintStrip(row) {
    const strip = this.timeline.strip;
    if (strip.kind === "waveform") this.paintWaveform(row, strip);
    else this.paintThumbnails(row, strip);
  }

  paintWaveform(row, { peaks, step, start = 0 }) {
    const { timeline, context } = this;
    const middle = row.top + row.height / 2;
    const perPixel = (timeline.end - timeline.start) / timeline.width;
    context.fillStyle = theme.colour("wave");
    for (let x = 0; x < timeline.width; x++) {
      const time = timeline.start - start + x * perPixel;
      const from = Math.max(0, Math.floor(time / step));
      const to = Math.min(peaks.length, Math.max(from + 1, Math.floor((time + perPixel) / step)));
      if (time + perPixel <= 0) continue;
      let largest = 0;
      for (let place = from; place < to; place++) if (peaks[place] > largest) largest = peaks[place];
      if (from >= peaks.length) break;
      const half = Math.max(0.5, (largest / 255) * (row.height / 2 - 1));
      context.fillRect(x, middle - half, 1, 2 * half);
    }
  }

  paintThumbnails(row, { images }) {
    const { timeline, context } = this;
    const shown = images.filter((image) => image.element.complete && image.element.naturalWidth);
    if (!shown.length) return;
    const wide = (row.height * shown[0].element.naturalWidth) / shown[0].element.naturalHeight;
    context.save();
    context.beginPath();
    context.rect(0, row.top, timeline.width, row.height);
    context.clip();
    // A film strip: each place takes the picture that is nearest to its middle.
    const first = timeline.x(0) % wide;
    for (let x = first > 0 ? first - wide : first; x < timeline.width; x += wide) {
      const time = timeline.time(x + wide / 2);
      if (time < 0 || time > timeline.last) continue;
      const nearest = shown.reduce((best, image) => (Math.abs(image.time - time) < Math.abs(best.time - time) ? image : best));
      context.drawImage(nearest.element, x, row.top, wide - 1, row.height);
    }
    context.restore();
  }

  paintBars(row, segments, selected) {
    const { timeline, context } = this;
    const { layers } = stacked(segments);
    context.fillStyle = theme.colour("lane");
    context.fillRect(0, row.top, timeline.width, row.height);
    const drawn = []; // pixels up to which each layer is drawn: of a crowd in one pixel, one is seen
    segments.forEach((segment, index) => {
      if (segment.end < timeline.start || segment.start > timeline.end) return;
      const left = Math.max(-4, timeline.x(segment.start));
      const right = Math.min(timeline.width + 4, timeline.x(segment.end));
      if (index !== selected && right < drawn[layers[index]] + 0.5) return;
      drawn[layers[index]] = right;
      const top = row.top + BAR * layers[index] + 1;
      const colour = theme.classColour(timeline.colourNumber(segment.label));
      context.fillStyle = colour;
      context.globalAlpha = index === selected ? 1 : 0.88;
      context.fillRect(left, top, Math.max(1, right - left - 1), BAR - 2);
      context.globalAlpha = 1;
      if (index === selected) this.paintSelection(left, right, top);
      this.paintLabel(segment.label, colour, left, right, top + BAR / 2 - 1);
    });
  }

  paintSelection(left, right, top) {
    const { context } = this;
    context.strokeStyle = theme.colour("text");
    context.lineWidth = 2;
    context.strokeRect(left, top, Math.max(1, right - left - 1), BAR - 2);
    context.fillStyle = theme.colour("text");
    for (const x of [left, right - 1]) context.fillRect(x - 2, top + 4, 4, BAR - 10); // handles
  }

  /** The label where there is room for it, or for a good part of it. */
  paintLabel(label, colour, left, right, middle) {
    const { context } = this;
    const from = Math.max(2, left + 5);
    const room = right - from - 5;
    if (room < 6 || (room < 30 && context.measureText(isolated(label)).width > room + 1)) return;
    context.save();
    context.beginPath();
    context.rect(from, middle - BAR, room + 1, 2 * BAR);
    context.clip();
    context.fillStyle = brightness(colour) > 0.19 ? "#111" : "#fff";
    context.fillText(isolated(label), from, middle + 0.5);
    context.restore();
  }

  /** All lanes as one small picture, a line for each, which is then stretched: a fixed cost for any length. */
  paintLanes() {
    const { timeline, context } = this;
    const lanes = timeline.rows.filter((row) => row.part === "lane");
    if (!lanes.length) return;
    const width = timeline.canvas.width;
    const image = context.createImageData(width, lanes.length);
    const pixels = new Uint32Array(image.data.buffer);
    const step = (timeline.end - timeline.start) / width;
    const { level, from, to } = timeline.scores.pixels(timeline.start, step, width);
    lanes.forEach((lane, line) => {
      const column = timeline.scores.levels[level][lane.index];
      const table = this.table(lane.index);
      for (let pixel = 0, target = line * width; pixel < width; pixel++, target++) {
        let largest = from[pixel] < to[pixel] ? column[from[pixel]] : 0;
        for (let place = from[pixel] + 1; place < to[pixel]; place++) if (column[place] > largest) largest = column[place];
        pixels[target] = table[largest];
      }
    });
    Object.assign(this.strip, { width, height: lanes.length });
    this.strip.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.strip, 0, 0, width, lanes.length, 0, lanes[0].top, timeline.width, lanes.length * (LANE + GAP));
    context.fillStyle = theme.colour("surface");
    for (const lane of lanes) context.fillRect(0, lane.top + LANE, timeline.width, GAP);
  }

  /** The 256 colours of a class, as the bytes of a pixel: from the lane's background to the class's colour. */
  table(index) {
    const { timeline, tables } = this;
    const key = `${theme.current} ${timeline.threshold}`;
    if (tables.key !== key) this.tables = { key };
    if (this.tables[index]) return this.tables[index];
    const ground = rgb(theme.colour("lane"));
    const colour = rgb(theme.classColour(index));
    const table = new Uint32Array(256);
    for (let value = 0; value < 256; value++) {
      const strength = (value / 255) * (value >= timeline.threshold * 255 ? 1 : MODEST);
      const [red, green, blue] = ground.map((part, place) => Math.round(part + (colour[place] - part) * strength));
      table[value] = (255 << 24) | (blue << 16) | (green << 8) | red; // little-endian, as every browser's machine is
    }
    this.tables[index] = table;
    return table;
  }

  paintCursor() {
    const { timeline, context } = this;
    const x = timeline.x(timeline.cursor);
    if (x < -1 || x > timeline.width + 1) return;
    context.fillStyle = theme.colour("cursor");
    context.fillRect(Math.round(x) - 1, 0, 2, timeline.height);
    context.beginPath();
    context.moveTo(x - 6, 0);
    context.lineTo(x + 6, 0);
    context.lineTo(x, 8);
    context.fill();
  }
}
