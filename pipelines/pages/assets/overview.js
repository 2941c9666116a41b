/* The whole recording in one thin line under a timeline: the strongest class of every moment, and the stretch that is
   in sight as a window that can be dragged. */
"use strict";

const OVERVIEW = 22; // pixels high

class Overview {
  constructor(container, timeline) {
    this.timeline = timeline;
    this.canvas = make("canvas", { class: "overview", "aria-hidden": "true" });
    container.append(this.canvas);
    this.picture = null; // the strongest classes, kept until scores or size change
    this.redraw = oncePerFrame(() => this.paint());
    timeline.on("view", this.redraw);
    theme.onChange(() => this.refresh());
    new ResizeObserver(() => this.refresh()).observe(this.canvas.parentElement);
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.drag(event);
    });
    this.canvas.addEventListener("pointermove", (event) => event.buttons && this.drag(event));
  }

  /** The middle of the window follows the pointer. */
  drag(event) {
    const { timeline } = this;
    const frame = this.canvas.getBoundingClientRect();
    const middle = ((event.clientX - frame.left) / frame.width) * timeline.last;
    const span = timeline.end - timeline.start;
    timeline.setView(middle - span / 2, middle + span / 2);
  }

  refresh() {
    this.picture = null;
    this.redraw();
  }

  paint() {
    const { timeline, canvas } = this;
    const width = canvas.clientWidth;
    if (!width) return;
    if (!this.picture) {
      Object.assign(canvas, { width, height: OVERVIEW });
      this.picture = this.strongest(width);
    }
    const context = canvas.getContext("2d");
    context.putImageData(this.picture, 0, 0);
    const left = (timeline.start / timeline.last) * width;
    const right = (timeline.end / timeline.last) * width;
    context.fillStyle = theme.colour("veil");
    context.fillRect(0, 0, left, OVERVIEW);
    context.fillRect(right, 0, width - right, OVERVIEW);
    context.strokeStyle = theme.colour("text");
    context.lineWidth = 2;
    context.strokeRect(left + 1, 1, Math.max(4, right - left) - 2, OVERVIEW - 2);
  }

  strongest(width) {
    const { timeline } = this;
    const image = new ImageData(width, OVERVIEW);
    const pixels = new Uint32Array(image.data.buffer);
    const { level, from, to } = timeline.scores.pixels(0, timeline.last / width, width);
    for (let pixel = 0; pixel < width; pixel++) {
      let [best, largest] = [-1, 0];
      for (const index of timeline.lanes) {
        const column = timeline.scores.levels[level][index];
        for (let place = from[pixel]; place < to[pixel]; place++) {
          if (column[place] > largest) [best, largest] = [index, column[place]];
        }
      }
      const colour = best < 0 ? timeline.painter.table(0)[0] : timeline.painter.table(best)[largest];
      for (let line = 0; line < OVERVIEW; line++) pixels[line * width + pixel] = colour;
    }
    return image;
  }
}
