/* What a reader does to a timeline: clicks and drags seek, borders of segments are dragged, an empty place of the
   segments' lane is drawn on; wheels and two fingers zoom and pan; keys do all of it. */
"use strict";

const GRIP = { mouse: 5, pen: 8, touch: 14 }; // pixels around a border in which it is taken hold of
const CLICK = 4; // pixels that a pointer may move and still click
const WHEEL_ZOOM = 1.0015; // per pixel that a wheel turns

class TimelineInput {
  constructor(timeline) {
    this.timeline = timeline;
    this.pointers = new Map(); // of the fingers that are down: id -> x
    this.action = null; // {kind: "seek" | "border" | "draw", …}
    const box = timeline.box;
    box.addEventListener("pointerdown", (event) => this.down(event));
    box.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) box.addEventListener(name, (event) => this.up(event));
    box.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    box.addEventListener("keydown", (event) => this.key(event));
  }

  /** Where an event happened: {x, y, time, row}. */
  place(event) {
    const { timeline } = this;
    const frame = timeline.box.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const row = timeline.rows.find((item) => y >= item.top && y < item.top + item.height);
    return { x, y, time: Math.min(timeline.last, Math.max(0, timeline.time(x))), row };
  }

  /** The segment or border under the pointer: {index, border: "start" | "end" | null}, or null. */
  target(event, { x, y, row }) {
    const { timeline } = this;
    if (!row || row.part !== "segments") return null;
    const { layers } = stacked(timeline.segments);
    const layer = Math.floor((y - row.top) / BAR);
    const grip = GRIP[event.pointerType] || GRIP.mouse;
    let nearest = null;
    timeline.segments.forEach((segment, index) => {
      if (layers[index] !== layer) return;
      const [left, right] = [timeline.x(segment.start), timeline.x(segment.end)];
      const inside = x >= left && x < right;
      for (const [border, at] of [["start", left], ["end", right]]) {
        // Between two neighbours the side decides; the selected one goes first.
        const distance = Math.abs(x - at) + (inside ? 0 : 0.5) - (index === timeline.selected ? 1 : 0);
        const reach = Math.min(grip, inside ? (right - left) / 3 : grip);
        if (timeline.editable && Math.abs(x - at) <= reach && (!nearest || distance < nearest.distance)) {
          nearest = { index, border, distance };
        }
      }
      if (inside && !nearest) nearest = { index, border: null, distance: Infinity };
    });
    return nearest;
  }

  down(event) {
    if (event.button !== 0) return;
    const { timeline } = this;
    timeline.box.focus({ preventScroll: true });
    timeline.box.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, event.clientX);
    if (this.pointers.size > 1) {
      this.cancel();
      return;
    }
    const place = this.place(event);
    const target = this.target(event, place);
    if (target && target.border) {
      this.action = { kind: "border", ...target };
      this.choose(target.index);
    } else if (target) {
      this.choose(target.index);
      this.seek(place.time);
    } else if (timeline.editable && place.row && place.row.part === "segments") {
      this.action = { kind: "draw", from: place.time, x: place.x };
    } else {
      this.seek(place.time);
    }
  }

  seek(time) {
    this.action = this.action || { kind: "seek" };
    this.timeline.tell("seek", time);
  }

  choose(index) {
    this.timeline.select(index);
    this.timeline.tell("select", index);
  }

  move(event) {
    const { timeline, action } = this;
    if (this.pointers.size > 1 && this.pointers.has(event.pointerId)) {
      this.pinch(event);
      return;
    }
    const place = this.place(event);
    if (!action) {
      const target = this.target(event, place);
      timeline.box.style.cursor = target && target.border ? "ew-resize" : target ? "pointer" : "";
      return;
    }
    if (action.kind === "seek") timeline.tell("seek", place.time);
    if (action.kind === "border") {
      const segment = timeline.segments[action.index];
      const part = { [action.border]: place.time };
      timeline.preview = { ...segment, ...part, index: action.index };
      if (timeline.preview.end <= timeline.preview.start) timeline.preview = { ...segment, index: action.index };
      timeline.redraw();
    }
    if (action.kind === "draw" && Math.abs(place.x - action.x) > CLICK) {
      const [start, end] = [action.from, place.time].sort((first, second) => first - second);
      timeline.preview = { index: -1, start, end, label: "" };
      timeline.redraw();
    }
  }

  up(event) {
    const { timeline, action } = this;
    this.pointers.delete(event.pointerId);
    const preview = timeline.preview;
    this.cancel();
    if (!action || event.type === "pointercancel") return;
    if (action.kind === "border" && preview) timeline.tell("change", action.index, { [action.border]: preview[action.border] });
    if (action.kind === "draw") {
      if (preview) timeline.tell("create", preview.start, preview.end);
      else {
        this.choose(-1);
        timeline.tell("seek", action.from);
      }
    }
  }

  cancel() {
    this.action = null;
    this.timeline.preview = null;
    this.timeline.redraw();
  }

  /** Two fingers: what is under them stays under them. */
  pinch(event) {
    const { timeline } = this;
    const left = timeline.box.getBoundingClientRect().left;
    const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
    const before = this.pointers.get(event.pointerId);
    const [wide, wider] = [Math.abs(before - other), Math.abs(event.clientX - other)];
    this.pointers.set(event.pointerId, event.clientX);
    if (wide > 10 && wider > 10) timeline.zoom(wider / wide, timeline.time(other - left));
  }

  wheel(event) {
    const { timeline } = this;
    const perPixel = (timeline.end - timeline.start) / timeline.width;
    const scale = event.deltaMode === 1 ? 16 : 1; // lines or pixels
    if (event.ctrlKey || event.metaKey) {
      timeline.zoom(WHEEL_ZOOM ** (-event.deltaY * scale), this.place(event).time);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      timeline.pan((event.deltaX || event.deltaY) * scale * perPixel);
    } else {
      return; // the page scrolls
    }
    event.preventDefault();
  }

  key(event) {
    const { timeline } = this;
    if (event.ctrlKey || event.metaKey || event.altKey) {
      timeline.tell("key", event);
      return;
    }
    const row = timeline.scores.rowAt(timeline.cursor);
    const hop = row < 0 ? 0.25 : timeline.scores.ends[row] - timeline.scores.begins[row];
    const step = event.shiftKey ? 10 * hop : hop;
    const span = timeline.end - timeline.start;
    const actions = {
      ArrowLeft: () => timeline.tell("seek", Math.max(0, timeline.cursor - step)),
      ArrowRight: () => timeline.tell("seek", Math.min(timeline.last, timeline.cursor + step)),
      Home: () => timeline.tell("seek", 0),
      End: () => timeline.tell("seek", timeline.last),
      PageUp: () => timeline.pan(-0.8 * span),
      PageDown: () => timeline.pan(0.8 * span),
      "+": () => timeline.zoom(2, timeline.cursor),
      "=": () => timeline.zoom(2, timeline.cursor),
      "-": () => timeline.zoom(0.5, timeline.cursor),
      0: () => timeline.fit(),
    };
    if (actions[event.key]) {
      actions[event.key]();
      event.preventDefault();
    } else {
      timeline.tell("key", event);
    }
  }
}
